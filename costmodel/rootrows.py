"""What is launched, as weighted rows: kernels, their products, and all that these move."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from analysis.program import Program
from costmodel.buffers import loop_copies
from costmodel.flops import product_sides
from costmodel.fusion import Fusion
from costmodel.kernelmerge import Kernel
from costmodel.layouts import Layouts
from costmodel.roles import LAYOUT, Role, role
from costmodel.rows import SLICING, UPDATING, Edges, Rows, bytes_of, is_narrow
from costmodel.turned import copied_values

UPDATE_SLICE = "stablehlo.dynamic_update_slice"
CUTTING = frozenset({"stablehlo.dynamic_slice", "stablehlo.slice"})
"""Ops that cut a part out of what they read."""

Operand = tuple[int, int, float, float, bool]


class Dot(NamedTuple):
    """A contraction: its unit, the tensor made, seconds of the whole, (side, size) of each factor.

    `operands` are (tensor stored, tensor read, bytes in memory relative to the operand's own of
    what it is computed of, and of the operand where it is brought there from another layout, if
    arithmetic makes it inside).
    """

    unit: int
    made: int
    seconds: float
    sides: tuple[tuple[int, int], ...]
    operands: tuple[Operand, ...]


Moved = tuple[int, int]
"""A tensor that is read or written, and the one that it is a part of in memory, or itself."""


class RootRow(NamedTuple):
    """What a kernel writes, what it reads, and its contractions.

    `beside` are, for reductions beside a contraction, the tensors that each may read; `copied`
    tensors that are copied to another memory layout or buffer, or back; `spread` (item, buffer) of
    each dimension along which a part of a buffer is updated in place.
    """

    written: tuple[Moved, ...] = ()
    read: tuple[Moved, ...] = ()
    dots: tuple[Dot, ...] = ()
    beside: tuple[tuple[int, ...], ...] = ()
    copied: tuple[int, ...] = ()
    spread: tuple[tuple[int, int], ...] = ()


def root_rows(
    program: Program,
    layouts: Layouts,
    fusion: Fusion,
    seconds: dict[int, float],
    wanted: Edges,
) -> Rows[RootRow]:
    """Kernels; the sources are their numbers."""
    rows: Rows[RootRow] = Rows()
    turned = copied_values(program, fusion)
    leaving = loop_copies(program)
    for number, kernel in enumerate(fusion.kernels):
        weight = float(program.op_trips[kernel.ops[0]])
        if role(program.kind(kernel.ops[0])) is Role.NOTHING:
            copied = _tensors(layouts, leaving.get(kernel.ops[0], ()))
            for tensor in copied:
                rows.add(RootRow(copied=(tensor,)), weight, number)
            continue
        dots = tuple(
            Dot(
                unit=int(layouts.op_unit[op]),
                made=int(layouts.result_tensor[program.values_of(op)[0]]),
                seconds=seconds[op],
                sides=product_sides(program, op),
                operands=_operands(program, layouts, fusion, wanted, op),
            )
            for op in kernel.contractions
        )
        row = RootRow(
            written=tuple(sorted(_written(program, layouts, fusion, kernel))),
            read=tuple(sorted(_read(program, layouts, kernel))),
            dots=dots,
            beside=_beside(program, layouts, wanted, kernel) if dots else (),
            copied=_tensors(layouts, turned.get(number, ())),
            spread=tuple(_spread(program, layouts, kernel)) if fusion.policy.around else (),
        )
        rows.add(row, weight, number)
    return rows


def _tensors(layouts: Layouts, values: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(int(layouts.value_tensor[value]) for value in values))


def _spread(program: Program, layouts: Layouts, kernel: Kernel) -> Iterator[tuple[int, int]]:
    """The dimensions of buffers of which an update in place writes a part, at a place unknown."""
    for op in kernel.ops:
        if program.kind(op) != UPDATE_SLICE:
            continue
        uses, first = program.uses_of(op), layouts.unit_start[layouts.op_unit[op]]
        whole, part = (program.shape(program.sources[use]) for use in uses[:2])
        for dim, name in enumerate(program.use_names(uses[0]).tolist()):
            moves = not program.constant[program.sources[uses[2 + dim]]]
            if name >= 0 and moves and part[dim] < whole[dim]:
                item = first + name - int(program.op_factors[op])
                yield item, int(layouts.use_tensor[uses[0]])


def _operands(
    program: Program, layouts: Layouts, fusion: Fusion, wanted: Edges, op: int
) -> tuple[Operand, ...]:
    found = []
    for use in program.uses_of(op):
        value, tensor = program.sources[use], int(layouts.use_tensor[use])
        _, uses = wanted.get(value, {}).get(tensor, (0.0, []))
        width = _bytes_read(program, fusion, value) / bytes_of(program, value)
        moved = 0.5 if uses and is_narrow(program, value, uses) else width
        computed = _is_computed(program, fusion, value)
        found.append((int(layouts.value_tensor[value]), tensor, width, moved, computed))
    return tuple(found)


def _beside(
    program: Program, layouts: Layouts, wanted: Edges, kernel: Kernel
) -> tuple[tuple[int, ...], ...]:
    """For each reduction of a kernel the tensors of its operand, as others want it as well."""
    uses = [program.op_uses[op] for op in kernel.ops if role(program.kind(op)) is Role.REDUCE]
    return tuple(
        (int(layouts.use_tensor[use]), *sorted(wanted.get(int(program.use_value[use]), ())))
        for use in uses
    )


def _bytes_read(program: Program, fusion: Fusion, value: int) -> float:
    """What a product reads of memory for an operand: all that it is computed of inside."""
    found, left, own = dict[int, float](), [value], math.prod(program.shape(value))
    while left:
        source = left.pop()
        if source in found or program.constant[source]:
            continue
        op, found[source] = int(program.value_op[source]), 0.0
        if fusion.written[source] or op < 0 or role(program.kind(op)) is Role.CONTRACTION:
            part = min(own / max(math.prod(program.shape(source)), 1), 1.0)
            found[source] = (
                bytes_of(program, source) * part * (0.5 if fusion.narrow[source] else 1.0)
            )
        else:
            left += [int(program.use_value[use]) for use in program.uses_of(op)]
    return sum(found.values())


def _read(program: Program, layouts: Layouts, kernel: Kernel) -> list[Moved]:
    """Tensors that a kernel reads; of what is only sliced, the slice that comes out."""
    read = []
    for use in kernel.reads:
        op = program.user(use)
        kind, tensor = program.kind(op), int(layouts.use_tensor[use])
        sliced = kind in SLICING or kind in UPDATING
        if not (sliced and use == program.op_uses[op]):
            read.append((tensor, tensor))
        elif kind in SLICING:
            part = int(layouts.result_tensor[program.values_of(op)[0]])
            read.append((part, tensor if kind in CUTTING else part))
    return read


def _written(program: Program, layouts: Layouts, fusion: Fusion, kernel: Kernel) -> list[Moved]:
    """Tensors that a kernel writes; of what is updated in place, the update."""
    found = []
    for op in kernel.ops:
        kind, first = program.kind(op), int(program.op_uses[op])
        if kind in UPDATING:
            part, whole = (int(layouts.use_tensor[first + n]) for n in (UPDATING[kind], 0))
            found.append((part, whole if kind == UPDATE_SLICE else part))
        else:
            values = [value for value in program.values_of(op) if fusion.written[value]]
            tensors = (int(layouts.value_tensor[value]) for value in values)
            found += [(tensor, tensor) for tensor in tensors]
    return found


def _is_computed(program: Program, fusion: Fusion, value: int) -> bool:
    """Whether arithmetic makes a value inside its reader.

    Cutting is no arithmetic: the elements come from memory as those of the whole do.
    """
    while not (fusion.written[value] or program.constant[value]):
        op = program.makers[value]
        if program.kind(op) not in CUTTING and program.kind(op) not in LAYOUT:
            return True
        value = program.sources[program.op_uses[op]]
    return False
