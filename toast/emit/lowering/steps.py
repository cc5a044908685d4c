"""From one layout to another as single collectives.

As the price has it: axes that come are sliced off, axes that move from a dimension to another are
exchanged, axes that vanish are gathered, each in one collective. Where axes come or go in front of
others that stay, a permute reorders them first (`toast.emit.specs.stations`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toast.emit.specs import stations
from toast.plans.plan import Spec


class StepKind(StrEnum):
    """What a step is; all but `SLICE` are collectives."""

    SLICE = "all_slice"
    GATHER = "all_gather"
    EXCHANGE = "all_to_all"
    PERMUTE = "collective_permute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step from the layout `before` to `after`.

    `axes` are by dimension those that a slice adds or a gather removes; `moves` the (axes, from,
    to) of an exchange; `traded` the axes of dimensions that a permute gives others.
    """

    kind: StepKind
    before: Spec
    after: Spec
    axes: list[list[str]]
    moves: tuple[tuple[tuple[str, ...], int, int], ...] = ()
    traded: tuple[str, ...] = ()

    @property
    def over(self) -> tuple[str, ...]:
        """All axes that the step is over."""
        if self.traded:
            return self.traded
        if self.kind is StepKind.PERMUTE:
            pairs = zip(self.before, self.after, strict=True)
            return tuple(axis for one, other in pairs if one != other for axis in one)
        moved = [axis for axes, _, _ in self.moves for axis in axes]
        return (*(axis for axes in self.axes for axis in axes), *moved)


def steps(have: Spec, want: Spec) -> list[Step]:
    """What leads from a layout to another; nothing where they are equal."""
    found: list[Step] = []
    here = have
    for station in (*stations(have, want), want):
        while here != station:
            step = _reordered(here, station) or _next(here, station)
            found.append(step)
            here = step.after
    return found


def made_whole(here: Spec, whole: frozenset[str]) -> Step:
    """The gather of all dimensions that some of these axes are on."""
    axes = [list(on) if whole.intersection(on) else [] for on in here]
    after = [[] if gone else list(on) for on, gone in zip(here, axes, strict=True)]
    return Step(kind=StepKind.GATHER, before=here, after=after, axes=axes)


def _reordered(here: Spec, want: Spec) -> Step | None:
    """A permute, where each dimension has the axes that it is to have."""
    if any(sorted(one) != sorted(other) for one, other in zip(here, want, strict=True)):
        return None
    return Step(kind=StepKind.PERMUTE, before=here, after=want, axes=[[] for _ in here])


def _next(here: Spec, want: Spec) -> Step:
    return _sliced(here, want) or _exchanged(here, want) or _gathered(here, want)


def _sliced(here: Spec, want: Spec) -> Step | None:
    used = {axis for axes in here for axis in axes}
    coming: list[list[str]] = []
    for one, other in zip(here, want, strict=True):
        tail = other[len(one) :] if other[: len(one)] == one else []
        free = next((n for n, axis in enumerate(tail) if axis in used), len(tail))
        coming.append(tail[:free])
    if not any(coming):
        return None
    after = [one + new for one, new in zip(here, coming, strict=True)]
    return Step(kind=StepKind.SLICE, before=here, after=after, axes=coming)


def _exchanged(here: Spec, want: Spec) -> Step | None:
    after = [list(axes) for axes in here]
    moves: list[tuple[tuple[str, ...], int, int]] = []
    busy = set[int]()
    for dim, axes in enumerate(here):
        for to, wanted in enumerate(want):
            if dim == to or {dim, to} & busy or wanted[: len(here[to])] != here[to]:
                continue
            tail = _tail(axes, want[dim], wanted[len(here[to]) :])
            if tail:
                moves.append((tuple(tail), dim, to))
                after[dim] = axes[: -len(tail)]
                after[to] = here[to] + tail
                busy |= {dim, to}
                break
    if not moves:
        return None
    nothing: list[list[str]] = [[] for _ in here]
    return Step(kind=StepKind.EXCHANGE, before=here, after=after, axes=nothing, moves=tuple(moves))


def _tail(axes: list[str], stay: list[str], wanted: list[str]) -> list[str]:
    """The last of `axes` that are the next that another dimension wants."""
    for count in range(min(len(axes), len(wanted)), 0, -1):
        tail = axes[-count:]
        if tail == wanted[:count] and not set(tail) & set(stay):
            return tail
    return []


def _gathered(here: Spec, want: Spec) -> Step:
    """Gather what is in nobody's way to be exchanged; else whatever is in the way."""
    elsewhere = [{axis for n, axes in enumerate(want) if n != dim for axis in axes}
                 for dim in range(len(here))]  # fmt: skip
    leaving = [_leaving(axes, want[dim], elsewhere[dim]) for dim, axes in enumerate(here)]
    if not any(leaving):
        leaving = [_leaving(axes, want[dim], set()) for dim, axes in enumerate(here)]
        first = next(dim for dim, axes in enumerate(leaving) if axes)
        leaving = [axes if dim == first else [] for dim, axes in enumerate(leaving)]
    after = [axes[: len(axes) - len(gone)] for axes, gone in zip(here, leaving, strict=True)]
    return Step(kind=StepKind.GATHER, before=here, after=after, axes=leaving)


def _leaving(axes: list[str], want: list[str], elsewhere: set[str]) -> list[str]:
    """The last of `axes` behind those that stay, from the last one on that goes elsewhere."""
    shared = 0
    while shared < min(len(axes), len(want)) and axes[shared] == want[shared]:
        shared += 1
    first = len(axes)
    while first > shared and axes[first - 1] not in elsewhere:
        first -= 1
    return axes[first:]
