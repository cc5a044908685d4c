"""An estimate of what `jax.checkpoint` around each repeated block would save and cost.

Of what a block makes for the backward pass only what it hands to the next block is then kept. The
rest is made again, all of it at once, when the backward pass comes to the block. So those values
are not there from their last use in the forward pass until then; all else stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toast.analysis.program import Floats, Program
from toast.analysis.types import itemsize
from toast.costmodel.explain import HeldMemory, PriceBreakdown
from toast.costmodel.journal import Entry
from toast.costmodel.program_facts import Bools, Slot, loop_slots
from toast.costmodel.resolved import ResolvedPlan
from toast.labels.labels import Labels
from toast.pipeline.advice.blocks import Blocks, Passes, repeated_blocks
from toast.plans.advice import RecomputedBlocks

WORTH = 0.01
"""What saves less than this part of the peak is not told."""
_FEWEST = 2
"""Turns of a loop that make it one of repeated blocks."""
_ALL = "all of these"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """Bytes that recomputing adds at each position, what is kept there today, what runs again."""

    name: str
    blocks: int
    change: Floats
    kept: Floats
    again: Bools


def local_bytes(resolved: ResolvedPlan) -> Callable[[int], float]:
    """The bytes of a value on one device, by a plan."""
    program, layouts = resolved.evaluator.analysis.program, resolved.evaluator.layouts
    shards = resolved.scratch.units.shards.tolist()

    def size(value: int) -> float:
        _, dims = layouts.tensors[layouts.value_tensor[value]]
        local = (-(-n // shards[item]) if item >= 0 else n for n, item in dims)
        return math.prod(local) * itemsize(program.dtype(value))

    return size


class Recomputation:
    """What recomputing would do to the peak of one plan."""

    def __init__(
        self, resolved: ResolvedPlan, terms: PriceBreakdown, say: Labels, memory: float
    ) -> None:
        evaluator = resolved.evaluator
        self._program: Program = evaluator.analysis.program
        self._bytes = local_bytes(resolved)
        self._terms, self._memory, self._say = terms, memory, say
        self.passes = Passes.of(self._program, evaluator.fusion.position, say)

    def estimates(self) -> list[RecomputedBlocks]:
        """One row for each kind of repeated block that is worth it, the most saved first."""
        if not self.passes.backward.any():
            return []
        found = [self._unrolled(one) for one in self._blocks()]
        found += list(self._loops())
        if len(found) > 1:
            found.append(_together(found))
        rows = [self._row(one) for one in found]
        rows = [row for row in rows if row.saved_bytes > WORTH * self._terms.cost.peak]
        return sorted(rows, key=lambda row: -row.saved_bytes)

    def update_seconds(self) -> float:
        """Computation behind the backward pass: the update of parameters."""
        if not self.passes.backward.any():
            return 0.0
        end = int(np.flatnonzero(self.passes.backward)[-1])
        return self._fusion_seconds(np.arange(self._program.ops) > end)

    def _blocks(self) -> list[Blocks]:
        return repeated_blocks(self._program, self.passes, self._bytes)

    def _row(self, outcome: _Outcome) -> RecomputedBlocks:
        terms = self._terms
        peak = round(float((terms.timeline + outcome.change).max()))
        return RecomputedBlocks(
            name=outcome.name,
            blocks=outcome.blocks,
            residual_bytes=round(float(outcome.kept[terms.position])),
            saved_bytes=max(round(terms.cost.peak) - peak, 0),
            peak_bytes=peak,
            extra_seconds=self._fusion_seconds(outcome.again) + self._sent_seconds(outcome.again),
            fits=peak <= self._memory,
        )

    def _fusion_seconds(self, ops: Bools) -> float:
        """What the fusions take that begin with some of these ops."""
        return sum(
            fusion.seconds
            * float(fusion.sources.runs[ops[fusion.sources.first]].sum())
            / max(float(fusion.sources.runs.sum()), 1e-30)
            for fusion in self._terms.fusions
        )

    def _sent_seconds(self, ops: Bools) -> float:
        """What the collectives take that some of these ops need."""
        found = 0.0
        for sent in self._terms.collectives:
            whole = sum(runs for _, _, runs in sent.sources)
            mine = sum(runs for _, needing, runs in sent.sources if ops[needing[0]])
            found += sent.seconds * mine / max(whole, 1e-30)
        return found

    def _unrolled(self, blocks: Blocks) -> _Outcome:
        """Blocks one after the other in the program."""
        passes, kept = self.passes, self._residuals(blocks)
        change, there = self._zeros(), self._zeros()
        for found in kept:
            begins = min((int(passes.first_backward[held.value]) for held in found), default=0)
            if begins == passes.never:  # only fusions read what is kept, by way of other ops
                begins = min(held.last for held in found)
            for held in found:
                gone = max(held.first, int(passes.last_forward[held.value])) + 1
                _add(change, gone, begins - 1, -held.bytes)
                _add(there, held.first, held.last, held.bytes)
        inside = (passes.position > blocks.cuts[0]) & (passes.position <= blocks.cuts[-1])
        return _Outcome(
            name=blocks.name,
            blocks=blocks.count,
            change=np.cumsum(change)[:-1],
            kept=np.cumsum(there)[:-1],
            again=inside & passes.forward,
        )

    def _residuals(self, blocks: Blocks) -> list[list[HeldMemory]]:
        """What each block keeps for the backward pass, less what it hands to the next."""
        passes, cuts = self.passes, np.array(blocks.cuts)
        found: list[list[HeldMemory]] = [[] for _ in range(blocks.count)]
        for held in self._lasting():
            made, last = int(passes.made[held.value]), int(passes.last_forward[held.value])
            block = int(np.searchsorted(cuts, made)) - 1
            if 0 <= block < blocks.count and last <= cuts[block + 1]:
                found[block].append(held)
        return found

    def _lasting(self) -> Iterator[HeldMemory]:
        """What the forward pass makes and holds for the backward pass."""
        passes, makers = self.passes, self._program.makers
        backward = int(passes.position[passes.backward].min())
        for held in self._terms.held:
            stays = held.why in (Entry.LIVE, Entry.COPY) and not (held.short or held.late)
            if stays and passes.forward[makers[held.value]] and held.last >= backward:
                yield held

    def _loops(self) -> Iterator[_Outcome]:
        """Blocks as the body of a loop, which stacks what it keeps."""
        program, slots = self._program, list(loop_slots(self._program))
        for begin in dict.fromkeys(slot.begin for slot in slots):
            mine = [slot for slot in slots if slot.begin == begin]
            trips = round(float(program.op_trips[begin + 1] / max(program.op_trips[begin], 1.0)))
            outer = program.op_trips[begin] <= 1 and self.passes.forward[begin]
            if not outer or trips < _FEWEST:
                continue
            stacks = [slot for slot in mine if self._stacked(slot, trips)]
            others = [slot for slot in mine if slot.yielded != slot.body and slot not in stacks]
            carried = sum(self._bytes(one.result) for one in others if program.shape(one.result))
            outcome = self._loop(begin, trips, _stand_for(stacks, slots), carried)
            if outcome is not None:
                yield outcome

    def _stacked(self, slot: Slot, trips: int) -> bool:
        """Whether a loop makes an element of a value each time."""
        return slot.yielded != slot.body and self._program.shape(slot.result)[:1] == (trips,)

    def _loop(
        self, begin: int, trips: int, stacks: dict[int, int], carried: float
    ) -> _Outcome | None:
        """A loop whose stacks (by any value in their place) give way to what it carries."""
        passes, change, there = self.passes, self._zeros(), self._zeros()
        kept = [
            held
            for held in self._terms.held
            if held.why == Entry.LIVE
            and held.value in stacks
            and int(passes.first_backward[stacks[held.value]]) <= held.last
        ]
        if not kept:
            return None
        end = max(held.last for held in kept)
        for held in kept:  # what is made again takes the place of what is read of the stack
            _add(change, held.first, held.last, -held.bytes)
            _add(there, held.first, held.last, held.bytes)
        _add(change, int(passes.position[begin]), end, carried * trips)
        ops = np.arange(self._program.ops)
        last = self._program.makers[next(iter(stacks.values()))]
        line = self._say.line(begin)
        return _Outcome(
            name=f"the loop at {line}" if line else "the loop",
            blocks=trips,
            change=np.cumsum(change)[:-1],
            kept=np.cumsum(there)[:-1],
            again=(ops > begin) & (ops < last),
        )

    def _zeros(self) -> Floats:
        return np.zeros(len(self._terms.timeline) + 1)


def _stand_for(stacks: Sequence[Slot], slots: Sequence[Slot]) -> dict[int, int]:
    """By each value that may stand for the buffer of a stack the stack as the loop leaves it.

    A loop behind it that only reads the stack has it in the same buffer.
    """
    found: dict[int, int] = {}
    for slot in stacks:
        for value in (slot.init, slot.condition, slot.body, slot.yielded, slot.result):
            found[value] = slot.result
    results = {slot.result for slot in stacks}
    for slot in slots:
        if slot.init in results and slot.yielded == slot.body:
            found |= dict.fromkeys((slot.condition, slot.body, slot.result), slot.init)
    return found


def _together(outcomes: Sequence[_Outcome]) -> _Outcome:
    """All at once."""
    return _Outcome(
        name=_ALL,
        blocks=sum(one.blocks for one in outcomes),
        change=np.sum([one.change for one in outcomes], axis=0),
        kept=np.sum([one.kept for one in outcomes], axis=0),
        again=np.any([one.again for one in outcomes], axis=0),
    )


def _add(change: Floats, first: int, last: int, size: float) -> None:
    """So many bytes more at the positions [first, last]."""
    first, last = max(first, 0), min(last, len(change) - 2)
    if first <= last:
        change[first] += size
        change[last + 1] -= size
