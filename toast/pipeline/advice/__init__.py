"""What would fit where a plan does not, and what a program takes on slices of chips.

| file | owns |
| --- | --- |
| `slices.py` | so many chips of one kind: the best of a few meshes, the fewest that fit |
| `size_module.py` | `toast size`: slices of several chips |
| `batches.py` | the program at another batch; the largest that fits |
| `rewritings.py` | the step with its batch in parts, with layers recomputed |
| `advise.py` | all of it within a budget |
"""

from __future__ import annotations
