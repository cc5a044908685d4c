"""Whether a plan that the compiler confirmed is ever worse than what anybody would have tried."""
