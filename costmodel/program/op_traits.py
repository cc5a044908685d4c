"""What kind of work each op is, as a compiler that fuses sees it."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

from toast.analysis.program import PSEUDO
from toast.analysis.rules import REGION


class Role(IntEnum):
    """How an op takes part in fusion."""

    NOTHING = 0
    """Pseudo ops: no work of their own."""
    FUSIBLE = 1
    """Elementwise, or moves elements about: can be computed inside its consumer."""
    REDUCE = 2
    """Computes its producers inside itself; its own result is written to memory."""
    CONTRACTION = 3
    """Matrix product or convolution: runs on the matrix unit."""
    UPDATE = 4
    """Writes part of its first operand's buffer; computes what it writes inside itself."""
    OPAQUE = 5
    """Reads its operands from memory and writes its results."""


_CONTRACTIONS = frozenset(
    {
        "stablehlo.dot_general",
        "stablehlo.dot",
        "stablehlo.convolution",
        "stablehlo.dynamic_conv",
        "chlo.ragged_dot",
    }
)
_OPAQUE = frozenset(
    {
        "stablehlo.sort",
        "stablehlo.select_and_scatter",
        "stablehlo.fft",
        "stablehlo.cholesky",
        "stablehlo.triangular_solve",
        "stablehlo.rng_bit_generator",
        "stablehlo.rng",
        "stablehlo.custom_call",
        "stablehlo.optimization_barrier",
        "chlo.top_k",
    }
)
COLLECTIVES = {
    "stablehlo.all_reduce": "ALL_REDUCE",
    "stablehlo.all_gather": "ALL_GATHER",
    "stablehlo.reduce_scatter": "REDUCE_SCATTER",
    "stablehlo.all_to_all": "ALL_TO_ALL",
    "stablehlo.collective_permute": "COLLECTIVE_PERMUTE",
}
"""Collectives that stand in a program of one device, and the kind of each."""
_UPDATES = frozenset({"stablehlo.dynamic_update_slice", "stablehlo.scatter"})
_REDUCES = frozenset({"stablehlo.reduce", "stablehlo.reduce_window"})

EXPENSIVE = frozenset(
    {
        f"stablehlo.{name}"
        for name in (
            "logistic",
            "tanh",
            "tan",
            "sine",
            "cosine",
            "atan2",
            "power",
            "cbrt",
        )
    }
    | {f"chlo.{name}" for name in ("erf", "erfc", "erf_inv", "lgamma", "digamma", "sinh", "cosh")}
)
"""Elementwise ops that a compiler for GPUs computes once and stores rather than twice."""

ERRORS = frozenset({"chlo.erf", "chlo.erfc"})
"""Error functions, of each of which compilers make some sixty ops."""

CHEAP = frozenset(
    f"stablehlo.{name}"
    for name in ("add", "subtract", "multiply", "maximum", "minimum", "constant")
)
"""Arithmetic that a compiler for GPUs repeats wherever a matrix product reads what it makes."""

LAYOUT = frozenset(
    {f"stablehlo.{name}" for name in ("convert", "reshape", "transpose", "broadcast_in_dim")}
)
"""Elementwise ops that change how elements lie or are written, and nothing else."""


@lru_cache(maxsize=4096)
def role(name: str) -> Role:
    """The role of an op by its name; ops that nobody knows are opaque."""
    if name in PSEUDO:
        return Role.NOTHING
    if name in _CONTRACTIONS:
        return Role.CONTRACTION
    if name in _REDUCES:
        return Role.REDUCE
    if name in _UPDATES:
        return Role.UPDATE
    if name in _OPAQUE or name in COLLECTIVES or name.startswith("custom_call "):
        return Role.OPAQUE
    return Role.FUSIBLE


def is_priced_elsewhere(name: str) -> bool:
    """Whether what an op moves is no part of its fusion: a collective, a region of `shard_map`."""
    return name in COLLECTIVES or name.startswith(REGION)
