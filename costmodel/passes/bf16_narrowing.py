"""The f32 that a TPU sends, or keeps in stacks, in the 16 bits that products round it to.

And error functions of 16 bits that a GPU stores in the 32 in which they are computed.
"""

from __future__ import annotations

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
_Slots = dict[tuple[int, int], list[Slot]]
"""Slots by the loop and what they begin as."""


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


def narrow_stacks(program: Program, flow: Flow, single: Bools, readers: Ints) -> Bools:
    """The values of stacks that begin as constants and of which products alone read slices.

    What a product rounds its slices to, XLA rounds before the loop that cuts them, and so where
    they are stacked: a residual that only the gradients of weights need takes half. Not where the
    same is stacked a second time for something else; it is one stack then. `single` are values of
    32 bits, `readers` of each value as `narrow_values` leaves them.
    """
    found = np.zeros(program.values, dtype=np.bool_)
    slots = list(loop_slots(program))
    by_init = _by_init(slots)
    for stacks in _stacked(program, flow, slots).values():
        read = [_read_by_products(program, readers, by_init, slot.result) for slot in stacks]
        if all(values and single[values[0]] for values in read):
            found[[value for values in read for value in values]] = True
            for slot in stacks:
                found[[slot.condition, slot.body, slot.yielded]] = True
    return found


def rounded_stacks(program: Program, single: Bools, readers: Ints) -> Rounded:
    """Arguments of which loops read slices for products alone, as weights of layers.

    XLA rounds the whole before the loop, once for all loops, and keeps it until the last.
    """
    arguments = {argument.value for argument in program.arguments if single[argument.value]}
    slots, found = list(loop_slots(program)), Rounded()
    by_init = _by_init(slots)
    for slot in slots:
        if slot.init not in arguments or slot.yielded != slot.body:
            continue
        if len(_read_by_products(program, readers, by_init, slot.body)) == 1:
            end = program.makers[slot.result]
            first, last = found.get(slot.init, (slot.begin, end))
            found[slot.init] = min(first, slot.begin), max(last, end)
    return found


def _by_init(slots: list[Slot]) -> _Slots:
    found: _Slots = {}
    for slot in slots:
        found.setdefault((slot.begin, slot.init), []).append(slot)
    return found


def _stacked(program: Program, flow: Flow, slots: list[Slot]) -> dict[int, list[Slot]]:
    """The slots of stacks by what is stacked, before it is reshaped for that."""
    found: dict[int, list[Slot]] = {}
    for slot in slots:
        maker = program.makers[slot.yielded]
        if program.kind(maker) != _UPDATE or not program.constant[slot.init]:
            continue
        target, update, *_ = (program.sources[use] for use in program.uses_of(maker))
        while flow.layout[program.makers[update]]:
            update = program.sources[program.uses_of(program.makers[update])[0]]
        if target == slot.body:
            found.setdefault(update, []).append(slot)
    return found


def _read_by_products(program: Program, readers: Ints, by_init: _Slots, value: int) -> list[int]:
    """A stack at all places to which it is passed on, or none where not just products read it."""
    starts, uses = program.readers
    found = [value]
    for use in uses[starts[value] : starts[value + 1]].tolist():
        op = program.user(use)
        if program.kind(op) == _SLICE and use == program.uses_of(op).start:
            if readers[program.values_of(op)[0]] != PRODUCT:
                return []
        elif program.kind(op) == LOOP_BEGIN:
            for slot in by_init[op, value]:
                if slot.yielded != slot.body:
                    return []
                found += [slot.condition, slot.result]
                inside = _read_by_products(program, readers, by_init, slot.body)
                behind = _read_by_products(program, readers, by_init, slot.result)
                if not (inside and behind):
                    return []
                found += inside + behind
        elif program.kind(op) != LOOP_END or program.kind(program.makers[value]) != LOOP_BEGIN:
            return []
    return found
