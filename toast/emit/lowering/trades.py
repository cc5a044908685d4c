"""Moves in which dimensions change axes for others, mended by one permute.

What has to be cut or exchanged is so first, over axes that make as many parts. Then the permute
gives every device the part that it is to hold. What is to be gathered is gathered last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from toast.emit.lowering.devices import Devices
from toast.emit.lowering.steps import Step, StepKind, made_whole, steps
from toast.emit.lowering.ways import PlannedWay
from toast.plans.plan import Spec


def steps_along(way: PlannedWay, have: Spec, want: Spec, devices: Devices) -> list[Step]:
    """What leads from a layout to another on the way that is priced."""
    first = [made_whole(have, way.whole)] if way.whole else []
    here = first[0].after if first else have
    rest = _Trade(here, want, way, devices).steps() if way.traded else None
    return first + (steps(here, want) if rest is None else rest)


class _Trade:
    """The steps of a move that trades axes; None where whole axes do not make such parts."""

    def __init__(self, have: Spec, want: Spec, way: PlannedWay, devices: Devices) -> None:
        self._have, self._want, self._way, self._devices = have, want, way, devices

    def steps(self) -> list[Step] | None:
        cut = self._cut(self._have)
        exchange = self._exchanged(cut.after) if cut else None
        gather = self._gathered(exchange.after) if exchange else None
        if cut is None or exchange is None or gather is None:
            return None
        permute = replace(
            _step(StepKind.PERMUTE, exchange.after, gather.before),
            traded=tuple(sorted(self._way.traded)),
        )
        return [step for step in (cut, exchange, permute, gather) if step.before != step.after]

    def _cut(self, here: Spec) -> Step | None:
        """Slices, where there are more parts in the end."""
        before, after = (self._devices.parts(_all(spec)) for spec in (here, self._want))
        axes: list[list[str]] = [[] for _ in here]
        more = max(1, after // before)
        for dim, (one, other) in enumerate(zip(here, self._want, strict=True)):
            grows = self._devices.parts(other) // self._devices.parts(one)
            if grows <= 1 or more == 1:
                continue
            parts = grows if not self._way.exchanged else more
            if self._way.exchanged and (one or grows % more):
                continue
            free = [axis for axis in (*other, *self._devices.sizes) if axis not in _all(here)]
            taken = self._taken([axis for axis in free if axis not in _all(axes)], parts)
            if taken is None:
                return None
            axes[dim], more = taken, more // parts
        joined = [one + new for one, new in zip(here, axes, strict=True)]
        return _step(StepKind.SLICE, here, joined, axes) if more == 1 else None

    def _exchanged(self, here: Spec) -> Step | None:
        """The last axes of dimensions that lose parts, to those that get as many."""
        if not self._way.exchanged:
            return _step(StepKind.EXCHANGE, here, here)
        changes = [self._change(one, other) for one, other in zip(here, self._want, strict=True)]
        getting = {dim: grows for dim, (_, grows) in enumerate(changes) if grows > 1}
        after, moves = [list(axes) for axes in here], list[tuple[tuple[str, ...], int, int]]()
        for dim, (shrinks, _) in enumerate(changes):
            if shrinks == 1:
                continue
            to = next((one for one, grows in getting.items() if grows == shrinks), None)
            tail = self._taken(here[dim][::-1], shrinks)
            if to is None or tail is None or tail != here[dim][::-1][: len(tail)]:
                return None
            del getting[to]
            moves.append((tuple(tail[::-1]), dim, to))
            after[dim], after[to] = here[dim][: -len(tail)], here[to] + tail[::-1]
        step = _step(StepKind.EXCHANGE, here, after, moves=tuple(moves))
        return None if getting else step

    def _gathered(self, here: Spec) -> Step | None:
        """The gather that leads to what is wanted, from as many parts as there are here."""
        left, axes = sorted(self._way.gathered), list[list[str]]()
        for one, other in zip(here, self._want, strict=True):
            shrinks, grows = self._change(one, other)
            first = [axis for axis in one if axis in left]
            tail = self._taken([*first, *(axis for axis in left if axis not in first)], shrinks)
            if grows > 1 or tail is None:
                return None
            axes.append(tail)
            left = [axis for axis in left if axis not in tail]
        joined = [other + tail for other, tail in zip(self._want, axes, strict=True)]
        return _step(StepKind.GATHER, joined, self._want, axes)

    def _change(self, one: list[str], other: list[str]) -> tuple[int, int]:
        """How many times fewer, and more parts a dimension has afterwards."""
        before, after = self._devices.parts(one), self._devices.parts(other)
        return max(1, before // after), max(1, after // before)

    def _taken(self, axes: Iterable[str], parts: int) -> list[str] | None:
        """The first of these axes that make so many parts; None if none do."""
        found: list[str] = []
        for axis in dict.fromkeys(axes):
            if parts % self._devices.parts([*found, axis]) == 0:
                found.append(axis)
        return found if self._devices.parts(found) == parts else None


def _all(spec: Spec) -> list[str]:
    return [axis for axes in spec for axis in axes]


def _step(
    kind: StepKind,
    before: Spec,
    after: Spec,
    axes: list[list[str]] | None = None,
    moves: tuple[tuple[tuple[str, ...], int, int], ...] = (),
) -> Step:
    nothing: list[list[str]] = [[] for _ in before]
    return Step(kind=kind, before=before, after=after, axes=axes or nothing, moves=moves)
