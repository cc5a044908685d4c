"""Where the time and the memory of a state go, term by term, from the kernels' own journal.

The terms are what the evaluator added up for `Cost`, so their sums are its figures: those of
fusions its computation, of collectives its communication, of what is alive at the peak its peak.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.evaluator import Cost
from toast.costmodel.network.collectives import Kind
from toast.costmodel.resolved import ResolvedCollective, ResolvedPlan
from toast.costmodel.terms.dependents import rows_of
from toast.costmodel.terms.journal import (
    AGAIN,
    BRIEF,
    COUNT,
    DETAIL,
    KIND,
    LASTING,
    PLACE,
    ROW,
    SECONDS,
    SIZE,
    STAY,
    TABLE,
    Bound,
    CollectiveReason,
    Entry,
)
from toast.costmodel.terms.live_ranges import LIVE_RANGES
from toast.costmodel.terms.sources import Runs, Sent, Sources
from toast.costmodel.terms.tables import TERMS

_FUSED = {entry: kind for term in TERMS for entry, kind in term.fused.items()}
_SENT = {entry: kind for term in TERMS for entry, kind in term.sent.items()}
_STORED = {entry: kind for term in TERMS for entry, kind in term.stored.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionTime:
    """Equal fusions: `sources` are the ops of each one and how often it runs.

    Its contractions come first, then the ops that write what it computes.

    `unfused` where the time is not of a fusion, but of partial sums that a collective keeps from
    being fused. Where an argument is rounded before it is gathered, or what is gathered along two
    dimensions is put in place, the sources are what needs it; where main memory takes longer for
    arguments and results than all computation, the ops that read or write them have a part of what
    is missing. `bytes` moved and `seconds` are of all runs.
    """

    sources: Runs
    bound: Bound
    unfused: bool
    runs: float
    bytes: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTime:
    """Equal collectives: `sources` are (value, ops that need it) and how often each runs.

    `why` is `PARTIAL` (sums of an op, or its result laid out otherwise than it was computed),
    `EDGE` (uses that want another layout) or `HALO`. `axes` are numbers of mesh axes; `bytes` on
    the wire of one device. `reason` and `combined` as in `ResolvedCollective`.
    """

    sources: tuple[tuple[int, tuple[int, ...], float], ...]
    why: Entry
    kind: Kind
    axes: tuple[int, ...]
    count: float
    bytes: float
    seconds: float
    reason: CollectiveReason
    combined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMemory:
    """Memory that one value takes over the positions [first, last] of the schedule.

    `why` is `BASE` (an argument), `LIVE` (a buffer, `value` stands for it), `COPY` (resharded for
    `uses`), `SUM` (partial sums) or `SUMMED` (what they add up to). `tensor` numbers
    `layouts.tensors`, `shape` is that of one device; the elements may be narrower. `short` where
    small sums are scattered at once and so wait on the chip, `lasting` where it is small and may be
    there for a part of the step.
    """

    value: int
    uses: tuple[int, ...]
    why: Entry
    tensor: int
    shape: tuple[int, ...]
    bytes: float
    first: int
    last: int
    short: bool
    lasting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBreakdown:
    """`alive` is what is in main memory at the peak, largest first; `held` tells of all memory.

    `on_chip` bytes of what is held at the peak are on the chip: the smallest of the short-lived,
    then of what else is small, as many as its compiler gives to buffers. `timeline[p]` are the
    bytes in main memory at position p of the schedule; the last position is the end of the step,
    where its results are all that is left. `position` is the first at which the peak is reached.
    """

    resolved: ResolvedPlan
    cost: Cost
    fusions: tuple[FusionTime, ...]
    collectives: tuple[CollectiveTime, ...]
    all_held: Callable[[], tuple[HeldMemory, ...]]
    alive: tuple[HeldMemory, ...]
    on_chip: float
    timeline: Floats
    position: int

    @property
    def held(self) -> tuple[HeldMemory, ...]:
        """All that is held, over the whole step."""
        return self.all_held()


def explain(resolved: ResolvedPlan) -> PriceBreakdown:
    """Say what each entry of a plan's journal is."""
    return _Explainer(resolved).run()


class _Explainer:
    def __init__(self, resolved: ResolvedPlan) -> None:
        evaluator = resolved.evaluator
        self._evaluator = evaluator
        self._program = evaluator.analysis.program
        self._tables = evaluator.tables
        self._resolved = resolved
        self._cost, self._scratch = resolved.cost, resolved.scratch
        self._journal = resolved.journal
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._sources = Sources(evaluator.listing, evaluator.tables)

    def run(self) -> PriceBreakdown:
        timeline = self._timeline()
        position = int(np.argmax(timeline))
        memory = self._of(tuple(_STORED))
        now = (memory[:, KIND] <= position) & (memory[:, DETAIL] >= position)
        there = self._all_held(memory[now])
        on_chip = self._on_chip(
            sum(one.bytes for one in there if one.short),
            sum(one.bytes for one in there if one.lasting),
        )
        return PriceBreakdown(
            resolved=self._resolved,
            cost=self._cost,
            fusions=tuple(self._fusion(row) for row in self._of(tuple(_FUSED))),
            collectives=tuple(self._collective(one) for one in self._resolved.collectives),
            all_held=lambda: self._all_held(memory),
            alive=self._alive_at(position, there, on_chip),
            on_chip=on_chip,
            timeline=timeline,
            position=position,
        )

    def _alive_at(
        self, position: int, there: Sequence[HeldMemory], on_chip: float
    ) -> tuple[HeldMemory, ...]:
        """What is in main memory at a position, largest first."""
        found = _in_main_memory(there, on_chip)
        over = sum(one.bytes for one in found) - self._cost.peak
        if self._cost.peak < self._cost.room and over > 0.0:
            found = _spared(found, self._let_go_at(position), over)
        return tuple(sorted(found, key=lambda one: -one.bytes))

    def _let_go_at(self, position: int) -> set[tuple[Entry, int]]:
        """The buffers, and the copies, that can be let go of at a position, by their values."""
        tables, listing = self._tables, self._evaluator.listing
        event = int(tables.schedule.event_at(np.array([position]))[0])
        ranges, copies = tables.live_ranges, self._scratch.copies
        now = (ranges.first <= event) & (ranges.last >= event) & (ranges.stay == AGAIN)
        now &= self._scratch.live_ranges.held[:, AGAIN] > 0.0
        there = (copies.first <= event) & (copies.last >= event) & (copies.held[:, AGAIN] > 0.0)
        read = (copies.read_first <= event) & (copies.read_last >= event) & (copies.read > 0.0)
        there[self._leaders()[read.any(axis=1)]] = False
        buffers = listing.of(LIVE_RANGES).value[now].tolist()
        copied = listing.wanted.value[np.flatnonzero(there)].tolist()
        return {(Entry.LIVE, one) for one in buffers} | {(Entry.COPY, one) for one in copied}

    def _leaders(self) -> Ints:
        """By row of copies that of the copy which it shares."""
        copies = self._tables.copies
        group = rows_of(copies.start)
        first = copies.start[group]
        place = np.arange(len(group)) - first
        leader = self._scratch.copies.leader[copies.kind_start[copies.kind[group]] + place]
        return np.asarray(first + np.maximum(leader, 0))

    def _all_held(self, memory: Floats) -> tuple[HeldMemory, ...]:
        return tuple(one for row in memory.tolist() for one in self._held(row))

    def _on_chip(self, short: Any, lasting: Any) -> Any:
        """How many bytes are on the chip of what is small and short-lived, and of what else is."""
        share = self._scratch.schedule.peaks[2]
        return np.minimum(short + share * lasting, self._tables.chip.on_chip_buffers)

    def _of(self, tables: tuple[int, ...]) -> Floats:
        return self._journal[np.isin(self._journal[:, TABLE], tables)]

    def _fusion(self, row: Floats) -> FusionTime:
        table, number = Entry(int(row[TABLE])), int(row[ROW])
        return FusionTime(
            sources=self._running(table, number, int(row[PLACE])),
            bound=Bound(int(row[KIND])),
            unfused=table == Entry.UNFUSED,
            runs=float(row[COUNT]),
            bytes=float(row[SIZE]),
            seconds=float(row[SECONDS]),
        )

    def _running(self, table: Entry, row: int, place: int) -> Runs:
        """The ops behind each of the equal fusions of a row, and how often they run."""
        return _FUSED[table](self._sources, row, place)

    def _collective(self, sent: ResolvedCollective) -> CollectiveTime:
        return CollectiveTime(
            sources=tuple(self._communicating(sent.table, sent.row, sent.place)),
            why=sent.table,
            kind=sent.kind,
            axes=sent.axes,
            count=sent.count,
            bytes=sent.bytes,
            seconds=sent.seconds,
            reason=sent.reason,
            combined=sent.combined,
        )

    def _communicating(self, why: Entry, row: int, place: int) -> list[Sent]:
        """The value and the ops behind each of the equal collectives of a row."""
        return _SENT[why](self._sources, row, place)

    def _held(self, row: Sequence[float]) -> list[HeldMemory]:
        why = Entry(int(row[TABLE]))
        tensor, values, uses = _STORED[why](self._sources, int(row[ROW]))
        return [
            HeldMemory(
                value=value,
                uses=uses,
                why=why,
                tensor=tensor,
                shape=self._shape(tensor),
                bytes=float(row[SIZE]) / len(values),
                first=int(row[KIND]),
                last=int(row[DETAIL]),
                short=row[STAY] == BRIEF,
                lasting=row[STAY] == LASTING,
            )
            for value in values
        ]

    def _shape(self, tensor: int) -> tuple[int, ...]:
        """A tensor's dimensions on one device, each rounded up."""
        if tensor not in self._shapes:
            shards = self._scratch.units.shards
            _, dims = self._evaluator.layouts.tensors[tensor]
            self._shapes[tensor] = tuple(
                -(-size // int(shards[item])) if item >= 0 else size for size, item in dims
            )
        return self._shapes[tensor]

    def _timeline(self) -> Floats:
        """Bytes at each position, from the journal."""
        memory = self._journal[np.isin(self._journal[:, TABLE], tuple(_STORED))]
        short, lasting = (self._alive(memory[memory[:, STAY] == stay]) for stay in (BRIEF, LASTING))
        found: Floats = self._alive(memory) - self._on_chip(short, lasting)
        if self._cost.peak == self._cost.room:
            return found
        again = np.cumsum(self._scratch.schedule.delta[:, AGAIN])
        position = self._tables.schedule.position
        event = np.searchsorted(position[:-1], np.arange(len(found)), side="right") - 1
        return np.minimum(found, np.maximum(found - again[event], self._cost.peak))

    def _alive(self, memory: Floats) -> Floats:
        """Bytes of these entries of the journal at each position."""
        change = np.zeros(self._tables.schedule.position[-1] + 2)
        np.add.at(change, memory[:, KIND].astype(np.int64), memory[:, SIZE])
        np.subtract.at(change, memory[:, DETAIL].astype(np.int64) + 1, memory[:, SIZE])
        found: Floats = np.cumsum(change)[: self._tables.schedule.position[-1]]
        return found


def _spared(
    held: Sequence[HeldMemory], free: set[tuple[Entry, int]], over: float
) -> list[HeldMemory]:
    """What is left where `over` bytes are let go of, of what can be: the largest first."""
    found = []
    for one in sorted(held, key=lambda one: -one.bytes):
        gone = min(one.bytes, over) if (one.why, one.value) in free else 0.0
        over -= gone
        if gone < one.bytes:
            found.append(replace(one, bytes=one.bytes - gone))
    return found


def _in_main_memory(held: Sequence[HeldMemory], on_chip: float) -> list[HeldMemory]:
    """What is not on the chip: the smallest are there, the short-lived first, `on_chip` bytes."""
    found = [one for one in held if not one.short and not one.lasting]
    small = [one for one in held if one.short or one.lasting]
    for one in sorted(small, key=lambda one: (one.lasting, one.bytes)):
        there = min(one.bytes, on_chip)
        on_chip -= there
        if there < one.bytes:
            found.append(replace(one, bytes=one.bytes - there))
    return found
