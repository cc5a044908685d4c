"""Why a discovered rule and Shardy's differ: every reason, and the test for it."""

from __future__ import annotations

from jaxlib.mlir import ir

from toast.analysis.program import FactorKind
from toast.analysis.rules import Rule
from toast.analysis.shardcombine.compare import Split, splits

REASONS = {
    "no halo needed": "Shardy calls every dimension under a window a permutation. Where the window "
    "is one element wide, or as wide as its stride (1 x 1 convolutions, pooling without overlap), "
    "shards of whole strides agree with the whole without any neighbour's data, so the discovered "
    "factor is parallel. Shardy's answer costs more and is not wrong.",
    "reversed order": "Each shard of a `reverse` makes a correct piece, at the mirrored place. "
    "Shardy says permutation; gathering in reverse order is not among the paper's combines, so the "
    "dimension stays whole.",
    "bounds in attributes": "The limits of a `slice` are attributes that count from the start of "
    "the whole dimension, so the same op on a shard means something else (or is none). Shardy says "
    "permutation; the discovered rule leaves sliced dimensions whole.",
    "source follows": "Shardy splits only the operand and the result of `select_and_scatter` and "
    "replicates the source. Splitting the source along, with overlapping rows added up (a positive "
    "halo), also agrees: the discovered rule says more.",
    "indices are rewritten": "Shardy lets the dimensions that indices point into be split (the "
    "rows of a `gather`, `scatter` or `dynamic_update_slice`), because XLA shifts and masks the "
    "indices of each shard. That is another program than the op on a shard, where an index means "
    "another row: left whole.",
    "other reduction": "Shardy lets any `reduce` be split along what it reduces. The paper's "
    "reductions are sum, max, min and mean: products and pairs of value and position (argmax) fit "
    "none of them, so the dimension stays whole.",
    "window reaches the edge": "A running sum is a window as wide as the dimension: every shard "
    "needs all rows before it. Shardy says permutation, meaning a halo of everything; halos are "
    "searched up to four rows and never beyond a quarter of the dimension.",
    "one side only": "Where the sizes of a `reshape` have no common divisor, Shardy is left with "
    "factors that only the operand or only the result has, and calls them parallel. Splitting one "
    "splits nothing on the other side, and no combine fits.",
    "did not run": "The op aborted, was refused by XLA's CPU backend, or took too long: no rule.",
}


def reason(op: ir.Operation, ours: Rule | None, theirs: Rule) -> str:
    """The key of the reason for a difference; `unexplained` when no test fits."""
    if ours is None:
        return "did not run"
    extra = splits(ours) - splits(theirs)
    missing = splits(theirs) - splits(ours)
    kinds = {kind for kind, _ in missing}
    if missing and _places(extra) == _places(missing) and kinds == {FactorKind.HALO}:
        return "no halo needed"
    lonely = all(len({tensor for tensor, _ in places}) == 1 for places in _places(missing))
    if op.name == "stablehlo.reshape" and missing and lonely and not extra:
        return "one side only"
    return _by_kind(op, kinds, extra)


def _by_kind(op: ir.Operation, kinds: set[FactorKind], extra: frozenset[Split]) -> str:
    name = op.name.removeprefix("stablehlo.")
    key, expected, alone = _TESTS.get(name, ("unexplained", None, True))
    fits = expected is not None and kinds == {expected} and not (alone and extra)
    return key if fits else "unexplained"


_TESTS: dict[str, tuple[str, FactorKind | None, bool]] = {
    "dynamic_update_slice": ("indices are rewritten", FactorKind.PARALLEL, True),
    "gather": ("indices are rewritten", FactorKind.REDUCTION, True),
    "reduce": ("other reduction", FactorKind.REDUCTION, True),
    "reduce_window": ("window reaches the edge", FactorKind.HALO, True),
    "reverse": ("reversed order", FactorKind.HALO, True),
    "scatter": ("indices are rewritten", FactorKind.PARALLEL, True),
    "select_and_scatter": ("source follows", FactorKind.HALO, False),
    "slice": ("bounds in attributes", FactorKind.HALO, True),
}
"""Per op the reason, the kind of factor that only Shardy has, and whether ours has none."""


def _places(found: frozenset[Split]) -> set[frozenset[tuple[int, int]]]:
    return {places for _, places in found}
