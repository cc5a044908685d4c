"""From the terms of a price to rows that people recognise: ops by place, values by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from toast.analysis.load import Source
from toast.analysis.program import PSEUDO, Floats
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.explain import FusionTime, HeldMemory, PriceBreakdown
from toast.costmodel.journal import CollectiveReason, Entry
from toast.costmodel.program_facts import distinct_rows, loop_slots
from toast.explain.causes import Causes
from toast.labels.labels import Labels
from toast.plans.explanation import (
    AliveRow,
    CollectiveRow,
    Direction,
    Explanation,
    FusionRow,
    LayerRow,
    OpRow,
    PeakMoment,
    Reason,
    Rest,
    SentFor,
    TimelinePoint,
    Why,
)

MAX_ROWS = 20
"""Rows of each list in `plan.json`; what follows is summed."""
MAX_POINTS = 120
_WHY: dict[Entry, Why] = {
    Entry.PARTIAL: "partial_sum",
    Entry.EDGE: "resharding",
    Entry.HALO: "halo",
    Entry.STATED: "region",
}
_FIXED: dict[Entry, Reason] = {
    Entry.BASE: "argument",
    Entry.COPY: "resharded_copy",
    Entry.SUM: "partial_sum",
    Entry.SUMMED: "partial_sum",
}


_REASON: dict[CollectiveReason, SentFor] = {
    CollectiveReason.SCATTERED: "scattered",
    CollectiveReason.UNWANTED: "unwanted",
    CollectiveReason.TWO_DIMENSIONS: "two_dimensions",
    CollectiveReason.ALL_DEVICES: "all_devices",
    CollectiveReason.BATCH: "batch",
    CollectiveReason.LOOKUP: "lookup",
    CollectiveReason.SLICED: "sliced",
    CollectiveReason.SHARDED_ALREADY: "sharded_already",
    CollectiveReason.SEGMENTS: "segments",
    CollectiveReason.AXIS_ORDER: "axis_order",
    CollectiveReason.BEHIND_LOOP: "behind_loop",
    CollectiveReason.REGATHERED: "regathered",
    CollectiveReason.GATHERED: "gathered",
    CollectiveReason.EXCHANGED: "exchanged",
    CollectiveReason.REORDERED: "reordered",
    CollectiveReason.NEIGHBOURS: "neighbours",
    CollectiveReason.LEFT_OUT: "left_out",
    CollectiveReason.IN_REGION: "in_region",
    CollectiveReason.TRADED: "traded",
    CollectiveReason.REMATERIALIZED: "rematerialized",
    CollectiveReason.UNEVEN: "uneven",
    CollectiveReason.FLATTENED: "flattened",
    CollectiveReason.COMPLEX: "complex",
}
_Sent = tuple[
    str, tuple[str, ...], Why, str, str, str, Direction, str, SentFor, bool, tuple[int, ...]
]
"""What the collectives of a row have in common."""


@dataclass(slots=True)
class _Sum:
    """What falls together under one key."""

    number: int = 0
    count: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0

    def add(self, count: float, size: float, seconds: float) -> None:
        self.number += 1
        self.count += count
        self.bytes += size
        self.seconds += seconds

    def add_all(self, fusion: FusionTime, parts: Floats) -> None:
        """What parts of equal fusions come to, added one after another."""
        whole = (fusion.runs, fusion.bytes, fusion.seconds)
        before = (self.count, self.bytes, self.seconds)
        sums = (float(np.cumsum([a, *(b * parts)])[-1]) for a, b in zip(before, whole, strict=True))
        self.number += len(parts)
        self.count, self.bytes, self.seconds = sums


class Explainer:
    """Explains states of one program in the words of its source."""

    def __init__(self, source: Source, evaluator: Evaluator) -> None:
        self._program = source.program
        self._evaluator = evaluator
        self._grouped: tuple[PriceBreakdown, list[list[HeldMemory]]] | None = None
        self.say = Labels(source, evaluator.analysis)
        self._results = {self._program.sources[result.use] for result in self._program.results}
        self._carried = {
            value
            for slot in loop_slots(self._program)
            for value in (slot.body, slot.condition, slot.yielded, slot.result)
        }

    def explanation(self, terms: PriceBreakdown, rows: int = MAX_ROWS) -> Explanation:
        """The largest rows of each kind, with the sum of the rest."""
        fusions, collectives = self._fusions(terms.fusions), self._collectives(terms)
        alive = self.alive(terms)
        layers = self._by_layer(fusions, collectives, alive)
        chief, others = layers[:rows], layers[rows:]
        ops = _by_op(fusions)
        return Explanation(
            fusions=fusions[:rows],
            other_fusions=_rest(fusions[rows:]),
            collectives=collectives[:rows],
            other_collectives=_rest(collectives[rows:]),
            layers=chief,
            other_layers=_other_layers(others),
            peak=self.peak(terms),
            alive=alive[:rows],
            other_alive=Rest(rows=len(alive[rows:]), bytes=sum(row.bytes for row in alive[rows:])),
            timeline=_timeline(terms),
            ops=ops[:rows],
            other_ops=_rest(ops[rows:]),
        )

    def colours(self, explanation: Explanation) -> set[int]:
        """The colour groups of arguments, of results and of the values that are explained."""
        program = self._program
        values = [argument.value for argument in program.arguments]
        values += [program.sources[result.use] for result in program.results]
        found = {group for value in values for group in self.say.colours(value)}
        return (found | {group for row in explanation.alive for group in row.colours}) - {-1}

    def _fusions(self, fusions: Iterable[FusionTime]) -> list[FusionRow]:
        say, sums = self.say, dict[tuple[str, str, str, Direction, str, str, bool], _Sum]()
        for fusion in fusions:
            sources, bound = fusion.sources, fusion.bound.name.lower()
            parts = sources.runs / sum(sources.runs.tolist())
            number, first = distinct_rows(say.origin[sources.first], say.layers(sources.first))
            by_place = dict[tuple[str, str, str, Direction, str, str, bool], list[int]]()
            for of, op in enumerate(sources.first[first].tolist()):
                place = (say.kind(op), say.place(op), say.line(op), say.direction(op))
                key = (*place, say.layer(op), bound, fusion.unfused)
                by_place.setdefault(key, []).append(of)
            for key, numbers in by_place.items():
                sums.setdefault(key, _Sum()).add_all(fusion, parts[np.isin(number, numbers)])
        rows = [
            FusionRow(
                op=key[0],
                place=key[1],
                location=key[2],
                direction=key[3],
                group=key[4],
                bound=_bound(key[5]),
                partial_sums=key[6],
                fusions=found.number,
                runs=round(found.count),
                bytes=round(found.bytes),
                seconds=found.seconds,
            )
            for key, found in sums.items()
        ]
        return sorted(rows, key=lambda row: -row.seconds)

    def _collectives(self, terms: PriceBreakdown) -> list[CollectiveRow]:
        causes = Causes(terms.resolved)
        axes = [axis.name for axis in self._evaluator.mesh.axes]
        say = self.say
        sums: dict[_Sent, _Sum] = {}
        for each in terms.collectives:
            whole = sum(runs for _, _, runs in each.sources)
            over = tuple(axes[axis] for axis in each.axes)
            for value, ops, runs in each.sources:
                op, part = ops[0], runs / whole
                said = (say.name(value), say.op(op), say.line(op), say.direction(op))
                what = (each.kind.name.lower(), over, _WHY[each.why])
                reason = _REASON[each.reason], each.combined, causes.of(each, value, ops)
                key = (*what, *said, say.layer(op, value), *reason)
                found = sums.setdefault(key, _Sum())
                found.add(each.count * part, each.bytes * part, each.seconds * part)
        rows = [
            CollectiveRow(
                kind=key[0],
                axes=list(key[1]),
                why=key[2],
                value=key[3],
                needed_by=key[4],
                location=key[5],
                direction=key[6],
                group=key[7],
                reason=key[8],
                combined=key[9],
                decisions=list(key[10]),
                count=max(1, round(found.count)),
                bytes=round(found.bytes),
                seconds=found.seconds,
            )
            for key, found in sums.items()
        ]
        return sorted(rows, key=lambda row: -row.seconds)

    def alive(self, terms: PriceBreakdown) -> list[AliveRow]:
        """What is alive at the peak, largest first, by name, line and shape."""
        return [self.alive_row(group, terms) for group in self.alive_groups(terms)]

    def alive_groups(self, terms: PriceBreakdown) -> list[list[HeldMemory]]:
        """Values alive at the peak, by name, line and shape, in falling order of their bytes."""
        if self._grouped is None or self._grouped[0] is not terms:
            self._grouped = (terms, self._groups(terms))
        return self._grouped[1]

    def _groups(self, terms: PriceBreakdown) -> list[list[HeldMemory]]:
        groups: dict[tuple[object, ...], list[HeldMemory]] = {}
        for held in terms.alive:
            name = (self.say.name(held.value), self.say.line_of(held.value))
            key = (*name, held.shape, self._why(held, terms))
            groups.setdefault(key, []).append(held)
        return sorted(groups.values(), key=lambda group: -sum(held.bytes for held in group))

    def alive_row(self, group: Sequence[HeldMemory], terms: PriceBreakdown) -> AliveRow:
        """One row for values of one name, line and shape."""
        first = group[0]
        return AliveRow(
            name=self.say.name(first.value),
            location=self.say.line_of(first.value),
            group=self.say.layer_of(first.value),
            shape=list(first.shape),
            dtype=self._program.dtype(first.value),
            count=len(group),
            bytes=round(sum(held.bytes for held in group)),
            why=self._why(first, terms),
            colours=self.say.colours(first.value),
        )

    def peak(self, terms: PriceBreakdown) -> PeakMoment:
        """The first moment at which the peak is reached."""
        op = self._op_at(terms.position)
        return PeakMoment(
            op=self.say.op(op),
            location=self.say.line(op),
            position=terms.position,
            positions=len(terms.timeline),
            bytes=round(terms.cost.peak),
        )

    def _op_at(self, position: int) -> int:
        """The op that runs at a position; of several, the one that the program has there."""
        fusion, last = self._evaluator.fusion, self._program.ops - 1
        ops = fusion.roots.ops[fusion.position[fusion.roots.ops] == position].tolist()
        real = [op for op in ops if self._program.kind(op) not in PSEUDO]
        if position in real or not real:
            return min(position, last)
        return real[-1]

    def _by_layer(
        self,
        fusions: Iterable[FusionRow],
        collectives: Iterable[CollectiveRow],
        alive: Iterable[AliveRow],
    ) -> list[LayerRow]:
        found: dict[str, list[float]] = {}
        for fusion in fusions:
            found.setdefault(fusion.group, [0.0, 0.0, 0.0])[0] += fusion.seconds
        for collective in collectives:
            found.setdefault(collective.group, [0.0, 0.0, 0.0])[1] += collective.seconds
        for held in alive:
            found.setdefault(held.group, [0.0, 0.0, 0.0])[2] += held.bytes
        rows = [
            LayerRow(
                name=name,
                compute_seconds=compute,
                communication_seconds=communication,
                peak_bytes=round(size),
            )
            for name, (compute, communication, size) in found.items()
        ]
        return sorted(rows, key=lambda row: -(row.compute_seconds + row.communication_seconds))

    def _why(self, held: HeldMemory, terms: PriceBreakdown) -> Reason:
        """Why memory is held at the peak."""
        if held.why in _FIXED:
            return _FIXED[held.why]
        if held.value in self._results:
            return "result"
        made = self._program.makers[held.value]
        ends = self.say.direction(min(held.last, self._program.ops - 1))
        if ends == "backward" and self.say.direction(made) == "forward":
            return "saved_for_backward"
        if held.value in self._carried:
            return "loop_carry"
        waits = held.first < terms.position < held.last
        return "kept_for_later" if waits else "temporary"


def _by_op(fusions: Iterable[FusionRow]) -> list[OpRow]:
    """Fusions by kind of op alone."""
    sums: dict[str, _Sum] = {}
    for row in fusions:
        sums.setdefault(row.op, _Sum()).add(row.runs, row.bytes, row.seconds)
    rows = [
        OpRow(op=op, runs=round(found.count), bytes=round(found.bytes), seconds=found.seconds)
        for op, found in sums.items()
    ]
    return sorted(rows, key=lambda row: -row.seconds)


def _bound(name: str) -> Literal["arithmetic", "bytes", "elements"]:
    return "arithmetic" if name == "arithmetic" else "bytes" if name == "bytes" else "elements"


def _rest(rows: Sequence[FusionRow] | Sequence[CollectiveRow] | Sequence[OpRow]) -> Rest:
    return Rest(
        rows=len(rows),
        seconds=sum(row.seconds for row in rows),
        bytes=sum(row.bytes for row in rows),
    )


def _other_layers(rows: Sequence[LayerRow]) -> LayerRow:
    return LayerRow(
        name=f"{len(rows)} others",
        compute_seconds=sum(row.compute_seconds for row in rows),
        communication_seconds=sum(row.communication_seconds for row in rows),
        peak_bytes=sum(row.peak_bytes for row in rows),
    )


def _timeline(terms: PriceBreakdown) -> list[TimelinePoint]:
    """At most `MAX_POINTS` points, each the most of the positions that it stands for."""
    positions = len(terms.timeline)
    width = -(-positions // MAX_POINTS)
    starts = np.arange(0, positions, width)
    most = np.maximum.reduceat(terms.timeline, starts)
    return [
        TimelinePoint(position=int(start), bytes=round(float(size)))
        for start, size in zip(starts, most, strict=True)
    ]
