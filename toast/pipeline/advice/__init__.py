"""What would fit where a plan does not, and what a program takes on slices of chips.

| file | owns |
| --- | --- |
| `slices.py` | so many chips of one kind: the best of a few meshes, the fewest that fit |
| `size_module.py` | `toast size`: slices of several chips |
| `batches.py` | the program at another batch; the largest that fits |
| `microbatches.py` | an estimate of a batch in parts whose gradients are added up |
| `blocks.py` | repeated blocks of the forward pass, and what they keep for the backward pass |
| `recompute.py` | an estimate of what recomputing them saves and costs |
| `advise.py` | all of it within a budget |
"""

from __future__ import annotations
