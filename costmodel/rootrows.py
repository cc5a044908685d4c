"""What is launched, as weighted rows: kernels, their products, and all that these move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from analysis.program import Program
from costmodel.buffers import loop_copies
from costmodel.columns import floats, ints
from costmodel.fusion import Fusion
from costmodel.kernelfusion import read_inside
from costmodel.kernelmerge import Kernel
from costmodel.layouts import Layouts
from costmodel.roles import LAYOUT, Role, role
from costmodel.rows import SLICING, UPDATING, Edges, Rows, Widths, of_role
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
    operands = _Operands(program, layouts, fusion, wanted)
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
                sides=fusion.sides.get(op, ()),
                operands=operands.of(op),
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


class _Operands:
    """What the contractions of a program read, and in what width things travel."""

    def __init__(self, program: Program, layouts: Layouts, fusion: Fusion, wanted: Edges) -> None:
        self._program = program
        self._layouts = layouts
        self._wanted = wanted
        self._widths = Widths(program)
        self._bytes = np.maximum(floats(fusion.bytes), 1.0)
        self._fusion = fusion
        self._read = self._bytes_read(fusion)

    def of(self, op: int) -> tuple[Operand, ...]:
        """The operands of a contraction."""
        program, layouts, found = self._program, self._layouts, []
        for use in program.uses_of(op):
            value, tensor = program.sources[use], int(layouts.use_tensor[use])
            _, uses = self._wanted.get(value, {}).get(tensor, (0.0, []))
            width = self._read[value]
            moved = 0.5 if uses and self._widths.is_narrow(value, uses) else width
            stored = int(layouts.value_tensor[value])
            computed = _is_computed(program, self._fusion, value)
            found.append((stored, tensor, width, moved, computed))
        return tuple(found)

    def _bytes_read(self, fusion: Fusion) -> dict[int, float]:
        """Over an operand's own bytes, what a product reads for it: all that it is computed of."""
        program = self._program
        products = of_role(program, Role.CONTRACTION)
        operands = np.unique(program.use_value[products[ints(program.users)]])
        spent = np.zeros(len(operands))
        read_inside(
            operands,
            program.op_uses,
            program.use_value,
            program.value_op,
            fusion.written | products[program.value_op],
            program.constant,
            floats(program.elements),
            self._bytes * np.where(fusion.narrow, 0.5, 1.0),
            np.full(program.values, -1),
            np.zeros(1 + int(np.diff(program.op_uses)[program.value_op].sum()), dtype=np.int64),
            spent,
        )
        own = self._bytes[operands]
        return dict(zip(operands.tolist(), (spent / own).tolist(), strict=True))


def _beside(
    program: Program, layouts: Layouts, wanted: Edges, kernel: Kernel
) -> tuple[tuple[int, ...], ...]:
    """For each reduction of a kernel the tensors of its operand, as others want it as well."""
    uses = [program.op_uses[op] for op in kernel.ops if role(program.kind(op)) is Role.REDUCE]
    return tuple(
        (int(layouts.use_tensor[use]), *sorted(wanted.get(int(program.use_value[use]), ())))
        for use in uses
    )


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
