"""The same pair of programs with smaller dimensions, for a machine that cannot hold the whole.

Every dimension that is sharded still divides by the axes that shard it, and one that did not still
does not: sizes keep their remainder by the number of parts. The plan's layouts stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from toast.analysis.errors import InvalidRequest
from toast.plans.plan import Plan, Spec, Tensor
from toast.resize.relations import Divides, Reason
from toast.resize.resize import Dimension, Resized, Resizer
from toast.verify.verification import ScaledSize

LEAST = 16
"""Sizes up to this stay as they are."""
ALIKE = 8
"""Sizes keep their remainder by so many parts too: plans for few devices are scaled alike."""
SMALLEST = 1
"""A budget that asks for the smallest sizes there are."""
STEPS = tuple(2**power for power in range(1, 21))
"""By how much dimensions shrink, in turn, until the programs fit."""


def shrunk(size: int, parts: int, factor: int) -> int:
    """A size about `factor` times smaller, with the same remainder by `parts`.

    Close sizes stay as far apart as they were (a sequence and the one that is shifted by one).
    """
    least = max(LEAST, 2 * parts)
    if size <= least:
        return size
    whole = round(size / parts)
    fewer = max(math.ceil(least / parts), round(whole / factor))
    return min(size, parts * fewer + size - parts * whole)


def shrinking(parts: int, factor: int) -> Callable[[int], int]:
    """What `Resizer.solve` asks for the sizes that nothing else decides."""
    return lambda size: shrunk(size, parts, factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A pair of programs made smaller: its plan, what was changed, and what was kept."""

    plan: Plan
    sizes: list[ScaledSize]
    bytes_needed: int


def scale_down(resizer: Resizer, plan: Plan, needed: int, budget: int) -> Scaled:
    """Write the pair that `resizer` has read with the largest sizes that need at most `budget`.

    `needed` are the bytes that running it as it is takes; where nothing gets so small, the smallest
    sizes are taken.
    """
    parts = _parts(plan)
    divides = list(_divides(resizer, plan))
    wanted = _of_pictures(resizer, parts, divides)
    found: Resized | None = None
    for factor in STEPS[-1:] if budget <= SMALLEST else STEPS:
        smaller = resizer.solve(wanted, shrinking(parts, factor), divides)
        stuck = found is not None and smaller.elements[1] == found.elements[1]
        found = smaller
        if stuck or _bytes(found, needed) <= budget:
            break
    assert found is not None
    resizer.write(found)
    return Scaled(
        plan=_at_sizes(plan, resizer, found),
        sizes=_sizes(plan, found),
        bytes_needed=_bytes(found, needed),
    )


def _of_pictures(resizer: Resizer, parts: int, divides: list[Divides]) -> dict[Dimension, int]:
    """Sizes for dimensions that the usual ones leave as they are: the smallest of some that fit.

    Windows that slide over a picture again and again, each time half as often, fit few sizes of it;
    and one that is doubled again and again is a product of small sizes.
    """
    usual = shrinking(parts, STEPS[-1])
    stuck: dict[int, list[Dimension]] = {}
    for change in resizer.solve(default=usual, divides=divides).changes:
        if change.old == change.new > LEAST:
            stuck.setdefault(change.old, []).extend(change.dimensions)
    wanted: dict[Dimension, int] = {}
    for size, dimensions in stuck.items():
        for smaller in _candidates(size, parts):
            trial = wanted | dict.fromkeys(dimensions, smaller)
            try:
                resizer.solve(trial, usual, divides)
            except InvalidRequest:
                continue
            wanted = trial
            break
    return wanted


def _candidates(size: int, parts: int) -> list[int]:
    """Sizes below a half of `size` with its remainder by `parts`, the smallest first."""
    counts = [one << power for power in range(20) for one in (2, 3)]
    found = [parts * count + size % parts for count in counts]
    return [one for one in found if LEAST <= one <= size // 2]


def _bytes(found: Resized, needed: int) -> int:
    before, after = found.elements
    return math.ceil(needed * after / max(before, 1))


def _parts(plan: Plan) -> int:
    """A number of parts that every sharded dimension is of, or of a divisor."""
    return math.lcm(*[parts for spec in _specs(plan) for parts in _counts(plan, spec)], ALIKE)


def _specs(plan: Plan) -> Iterable[Spec]:
    yield from (tensor.spec for tensor in (*plan.arguments, *plan.results))
    yield from (constraint.spec for constraint in plan.constraints)


def _counts(plan: Plan, spec: Spec) -> list[int]:
    sizes = {axis.name: axis.size for axis in plan.mesh.axes}
    return [math.prod(sizes[axis] for axis in axes) for axes in spec]


def _divides(resizer: Resizer, plan: Plan) -> Iterable[Divides]:
    for tensors, sides in (
        (plan.arguments, resizer.arguments),
        (plan.results, resizer.results),
    ):
        for tensor, nodes in zip(tensors, sides, strict=True):
            counts = _counts(plan, tensor.spec)
            for node, parts, size in zip(nodes, counts, tensor.shape, strict=True):
                if parts > 1 and size % parts == 0:
                    reason = Reason(text=f"{parts} devices share it")
                    yield Divides(node=node, parts=parts, reason=reason)


def _at_sizes(plan: Plan, resizer: Resizer, found: Resized) -> Plan:
    def tensors(given: list[Tensor], sides: list[tuple[int, ...]]) -> list[Tensor]:
        pairs = zip(given, sides, strict=True)
        return [
            tensor.model_copy(update={"shape": list(found.sizes.shape(nodes))})
            for tensor, nodes in pairs
        ]

    return plan.model_copy(
        update={
            "arguments": tensors(plan.arguments, resizer.arguments),
            "results": tensors(plan.results, resizer.results),
        }
    )


def _sizes(plan: Plan, found: Resized) -> list[ScaledSize]:
    """What became of the sizes, those of most arguments first; equal ones once."""
    counts: dict[tuple[int, int, str], tuple[int, str]] = {}
    for change in found.changes:
        argument, dim = change.dimensions[0]
        key = change.old, change.new, change.kept if change.old == change.new else ""
        count, name = counts.get(key, (0, f"{plan.arguments[argument].name} dim {dim}"))
        counts[key] = count + len(change.dimensions), name
    rows = [
        ScaledSize(old=old, new=new, of=name, dimensions=count, kept=kept)
        for (old, new, kept), (count, name) in counts.items()
        if old != new or (kept and old > LEAST)
    ]
    return sorted(rows, key=lambda row: (-row.old, -row.dimensions))
