"""The f32 that a TPU sends, or keeps in stacks, in the 16 bits that products round it to.

And error functions of 16 bits that a GPU stores in the 32 in which they are computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from toast.analysis.program import LOOP_BEGIN, LOOP_END, Ints, Program
from toast.analysis.types import itemsize
from toast.costmodel.passes.fusion_chains import PRODUCT, reach_products
from toast.costmodel.program.buffers import Slot, loop_slots
from toast.costmodel.program.contractions import NARROW
from toast.costmodel.program.dataflow import Bools, Flow, named
from toast.costmodel.program.op_traits import ERRORS, Role

_UPDATE, _SLICE = "stablehlo.dynamic_update_slice", "stablehlo.dynamic_slice"
_MOVING = frozenset(
    {"stablehlo.gather", "stablehlo.select", "stablehlo.concatenate", "stablehlo.pad", _SLICE}
)
"""What rounds its operands as well as its result, besides ops that only change a layout."""
Rounded = dict[int, tuple[int, int]]
"""Arguments with the first and the last op of the loops for whose products they are rounded."""


def read_for_products(program: Program, flow: Flow) -> Bools:
    """For each use whether products alone read what it moves on.

    As a table in which the rows for a product are looked up.
    """
    carried, found = np.full((len(program.use_value), 2), -1), np.zeros(flow.source.shape, np.bool_)
    read = np.diff(program.readers[0]) > 0
    for slot in loop_slots(program):
        if slot.yielded == slot.body and not read[slot.condition]:
            end = program.makers[slot.result]
            place = slot.result - program.values_of(end).start
            carried[program.uses_of(slot.begin)[place]] = slot.body, slot.result
            carried[program.uses_of(end)[place]] = slot.result
    moving = flow.layout | named(program, _MOVING)
    reach_products(flow, moving, carried, np.zeros(program.values, dtype=np.bool_), found)
    return found


def widened_errors(program: Program, flow: Flow, written: Bools) -> Bools:
    """Error functions of 16 bits that are stored in 32: those of more than a scaled product.

    XLA computes a bias, what it is added to and the error function of that in 32 bits, and rounds
    nothing in between.
    """
    found = np.zeros(program.values, dtype=np.bool_)
    for op in program.ops_named(*ERRORS):
        (value,) = program.values_of(op)
        found[value] = written[value] and itemsize(program.dtype(value)) == NARROW
        found[value] &= _joins(program, flow, written, op)
    return found


def _joins(program: Program, flow: Flow, written: Bools, op: int) -> bool:
    """Whether an op, or what is computed for it in its size, takes two values or more.

    Constants do not count.
    """
    size = flow.elements[program.values_of(op)[0]]
    while True:
        sources = {program.sources[use] for use in program.uses_of(op)}
        varying = [source for source in sources if not program.constant[source]]
        if len(varying) != 1:
            return len(varying) > 1
        if written[varying[0]] or flow.elements[varying[0]] != size:
            return False
        op = program.makers[varying[0]]
        if flow.role[op] != Role.FUSIBLE:
            return False


@dataclass(frozen=True)
class LoopReads:
    """What loops carry and which of it products alone read, as slices above all.

    What a product rounds its slices to, XLA rounds before the loop that cuts them. `single` are
    values of 32 bits; `moving` are ops through which XLA looks, and `readers` of each value what
    reads it, as `narrow_values` takes the one and leaves the other.
    """

    program: Program
    flow: Flow
    moving: Bools
    single: Bools
    readers: Ints

    @cached_property
    def _slots(self) -> list[Slot]:
        return list(loop_slots(self.program))

    @cached_property
    def _by_init(self) -> dict[tuple[int, int], list[Slot]]:
        """Slots by the loop and what they begin as."""
        found: dict[tuple[int, int], list[Slot]] = {}
        for slot in self._slots:
            found.setdefault((slot.begin, slot.init), []).append(slot)
        return found

    def narrow_stacks(self) -> Bools:
        """The values of stacks that begin as constants, and are narrow where they are stacked.

        A residual that only the gradients of weights need takes half. Not where the same is stacked
        a second time for something else; it is one stack then.
        """
        found = np.zeros(self.program.values, dtype=np.bool_)
        for stacks in self._stacked().values():
            read = [self._read_by_products(slot.result) for slot in stacks]
            if all(values and self.single[values[0]] for values in read):
                found[[value for values in read for value in values]] = True
                for slot in stacks:
                    found[[slot.condition, slot.body, slot.yielded]] = True
        return found

    def narrow_inputs(self, stored: Bools) -> Bools:
        """What is made before loops, as the embedded words that a recurrent net reads.

        `stored` are values that may be rounded as they are stored.
        """
        found = np.zeros(self.program.values, dtype=np.bool_)
        begun = {slot.init for slot in self._slots}
        for value in {source for init in begun for source in self._moved(init)}:
            if stored[value]:
                found[self._read_by_products(value)] = True
        return found

    def rounded_arguments(self) -> Rounded:
        """Arguments of the program, as weights of layers.

        XLA rounds the whole before the loop, once for all loops, and keeps it until the last.
        """
        program, found = self.program, Rounded()
        arguments = {one.value for one in program.arguments if self.single[one.value]}
        for slot in self._slots:
            if slot.init not in arguments or slot.yielded != slot.body:
                continue
            if self._is_sliced(slot.body) and len(self._read_by_products(slot.body)) == 1:
                end = program.makers[slot.result]
                first, last = found.get(slot.init, (slot.begin, end))
                found[slot.init] = min(first, slot.begin), max(last, end)
        return found

    def _is_sliced(self, value: int) -> bool:
        """Whether nothing reads a value but slices, and the end of its loop."""
        starts, uses = self.program.readers
        ops = map(self.program.user, uses[starts[value] : starts[value + 1]].tolist())
        return all(self.program.kind(op) in (_SLICE, LOOP_END) for op in ops)

    def _stacked(self) -> dict[int, list[Slot]]:
        """The slots of stacks by what is stacked, before it is reshaped for that."""
        program, found = self.program, dict[int, list[Slot]]()
        for slot in self._slots:
            maker = program.makers[slot.yielded]
            if program.kind(maker) != _UPDATE or not program.constant[slot.init]:
                continue
            target, update, *_ = (program.sources[use] for use in program.uses_of(maker))
            while self.flow.layout[program.makers[update]]:
                update = program.sources[program.uses_of(program.makers[update])[0]]
            if target == slot.body:
                found.setdefault(update, []).append(slot)
        return found

    def _moved(self, value: int) -> Iterator[int]:
        """A value, and what it is moved from."""
        program = self.program
        while self.single[value]:
            yield value
            maker = program.makers[value]
            sources = [program.sources[use] for use in program.uses_of(maker)]
            if not self.moving[maker] or not self.single[sources].any():
                break
            value = next(source for source in sources if self.single[source])

    def _read_by_products(self, value: int) -> list[int]:
        """A value at all places to which it is passed on; none where not just products read it."""
        starts, uses = self.program.readers
        found = [value]
        for use in uses[starts[value] : starts[value + 1]].tolist():
            passed = self._passed_on(use, value)
            places = [self._read_by_products(one) for one in passed or ()]
            if passed is None or not all(places):
                return []
            found += [place for one in places for place in one]
        return found

    def _passed_on(self, use: int, value: int) -> list[int] | None:
        """What a use passes a value on to, not to a product; None where it is read otherwise."""
        program, op = self.program, self.program.user(use)
        kind = program.kind(op)
        if kind == LOOP_BEGIN:
            slots = self._by_init[op, value]
            alike = all(slot.yielded == slot.body for slot in slots)
            places = [(slot.condition, slot.body, slot.result) for slot in slots]
            return [place for one in places for place in one] if alike else None
        if kind == LOOP_END:
            return [] if program.kind(program.makers[value]) == LOOP_BEGIN else None
        if self.flow.role[op] == Role.CONTRACTION:
            return []
        sliced = kind == _SLICE and use == program.uses_of(op).start
        if not (sliced or self.moving[op]):
            return None
        made = program.values_of(op)[0]
        if self.readers[made] == PRODUCT:
            return []
        return None if sliced else [made]
