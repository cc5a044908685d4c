"""The kernels of one state that the search builds its own kernels of."""

from __future__ import annotations

from toast.costmodel.kernels.evaluate import layout_key, price, reset, shard, step_seconds
from toast.costmodel.kernels.incremental import streamed
from toast.costmodel.kernels.reshard import (
    COLLECTIVE_PERMUTE,
    NEIGHBOURS,
    collective,
    reshard,
    same,
)

__all__ = [
    "COLLECTIVE_PERMUTE",
    "NEIGHBOURS",
    "collective",
    "layout_key",
    "price",
    "reset",
    "reshard",
    "same",
    "shard",
    "step_seconds",
    "streamed",
]
