"""Names of the arguments and results of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from toast.plans.plan import Tensor
from toast.request.patterns import layer_patterns


def tensor_patterns(tensors: Sequence[Tensor]) -> list[str]:
    """The path of each tensor with the numbers of repeated layers starred."""
    kinds = [(tuple(one.shape), one.dtype) for one in tensors]
    return layer_patterns([one.name for one in tensors], kinds)
