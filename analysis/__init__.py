"""Named-dimension analysis of StableHLO modules (TOAST sections 3 and 4.4)."""
