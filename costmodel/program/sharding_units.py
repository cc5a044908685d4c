"""Where axes can go: units (ops and values that compete for axes) and tensors (laid-out shapes).

A *unit* is a list of items among which a mesh axis may be used once: the factors of an op, or the
dimensions of a value. Equal units are one. Each item has a colour group, a size that the axes must
divide, and, where it is in a conflict, the set group and side that resolve it. A *tensor* is a
shape whose dimensions take their axes from items of one unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations

import numpy as np

from toast.analysis.analyse import Analysis
from toast.analysis.program import TRANSFERS, Ints, Program
from toast.analysis.rules import REGION
from toast.analysis.types import itemsize
from toast.costmodel.program.arrays import ints
from toast.costmodel.program.distinct import distinct, distinct_rows
from toast.costmodel.program.pins import NO_PINS, Axes, Layout, Pins

Item = tuple[int, int, int, int, Axes]
"""(colour group or -1, size, set group or -1, side, axes that are on it in every state)."""

Resolutions = dict[tuple[int, int], tuple[int, tuple[int, int]]]
"""Conflict (pair of names) -> (set group, (side of the first name, side of the second))."""

Unit = tuple[tuple[Item, ...], int]
"""The items, and the axes (as bits) that none of them may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What has units of its own, by op, value and (of transfers only) use: the same mark, one unit.

    Without a mark all equal units are one.
    """

    ops: Mapping[int, int] = field(default_factory=dict)
    values: Mapping[int, int] = field(default_factory=dict)
    uses: Mapping[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Layouts:
    """Interned units and tensors of one analysed program.

    `op_unit[op]` and `value_unit[value]` are unit numbers; `use_tensor`, `value_tensor` and
    `result_tensor` give, for a use, a value at its definition, and a value as its op leaves it,
    the tensor number. `unit_start` (into items) and the item and tensor columns are flat.
    """

    op_unit: Ints
    value_unit: Ints
    use_tensor: Ints
    value_tensor: Ints
    result_tensor: Ints
    units: list[Unit] = field(default_factory=list)
    unit_start: list[int] = field(default_factory=lambda: [0])
    tensors: list[tuple[float, tuple[tuple[int, int], ...]]] = field(default_factory=list)

    def whole_bytes(self, tensor: int) -> float:
        """The bytes of a tensor on all devices together."""
        itemsize, dims = self.tensors[tensor]
        return itemsize * math.prod(size for size, _ in dims)


def lay_out(analysis: Analysis, pins: Pins = NO_PINS) -> Layouts:
    """Intern the units and tensors of a program whose pinned tensors are fixed."""
    return _Interner(analysis, pins, None).run()


def mark(layouts: Layouts, analysis: Analysis, pins: Pins, marks: Marks) -> Layouts:
    """The layouts with units of their own for what is marked; the others keep their numbers."""
    return _Interner(analysis, pins, layouts).mark(marks)


class _Interner:
    def __init__(self, analysis: Analysis, pins: Pins, known: Layouts | None) -> None:
        self._analysis = analysis
        self._pins = pins
        self._program = analysis.program
        colour = analysis.colours.colour
        # no name, -1, has no group either: it reads the last entry
        self._groups = np.append(np.append(analysis.groups.of_colour, -1)[colour], -1)
        self._group = self._groups.data
        self._resolution = _resolutions(analysis)
        self._mark = -1
        self._out = _copy(known) if known is not None else _empty(self._program)
        self._unit_number = {(unit, -1): n for n, unit in enumerate(self._out.units)}
        self._tensor_number = {tensor: n for n, tensor in enumerate(self._out.tensors)}
        self._itemsize = [itemsize(dtype) for dtype in self._program.dtypes]
        self._last_unit = 0

    def run(self) -> Layouts:
        """Lay out one of several equal ops, and copy its layout to the others: layers are equal."""
        program, out = self._program, self._out
        resolved = _resolved_rows(self._analysis)
        first = first_equal(program, self._groups, resolved, self._apart())
        for op in np.flatnonzero(first == np.arange(program.ops)).tolist():
            for value in program.values_of(op):
                out.value_tensor[value] = self._value_tensor(value)
                out.value_unit[value] = self._last_unit
            if _is_transfer(program.kind(op)):
                self._transfer(op)
            else:
                self._work(op)
        values, uses = _same(program.op_values, first), _same(program.op_uses, first)
        out.op_unit = out.op_unit[first]
        out.use_tensor = out.use_tensor[uses]
        out.value_unit = out.value_unit[values]
        out.value_tensor = out.value_tensor[values]
        out.result_tensor = out.result_tensor[values]
        return out

    def _apart(self) -> Ints:
        """Ops that are laid out by more than groups and resolutions: those that are pinned."""
        program, pins = self._program, self._pins
        makers = [program.makers[value] for value in (*pins.values, *pins.forbidden)]
        return ints(makers + [program.users[use] for use in pins.uses])

    def mark(self, marks: Marks) -> Layouts:
        """Lay out what is marked anew."""
        program, out = self._program, self._out
        for value, number in marks.values.items():
            self._mark = number
            out.value_tensor[value] = self._value_tensor(value)
            out.value_unit[value] = self._last_unit
            if _is_transfer(program.kind(program.makers[value])):
                out.result_tensor[value] = out.value_tensor[value]
        for op, number in marks.ops.items():
            self._mark = number
            self._work(op)
        for use, number in marks.uses.items():
            self._mark = number
            out.use_tensor[use] = self._wanted_tensor(use)
        return out

    def _transfer(self, op: int) -> None:
        """An op that passes each tensor on by itself: the tensors do not compete for axes."""
        program, out = self._program, self._out
        uses = program.uses_of(op)
        first, own = equal_uses(program, self._groups, self._pins.uses, uses)
        for use in own:
            out.use_tensor[use] = self._wanted_tensor(use)
        out.use_tensor[uses.start : uses.stop] = out.use_tensor[first]
        for value in program.values_of(op):
            out.result_tensor[value] = out.value_tensor[value]
        out.op_unit[op] = self._unit([], [])

    def _wanted_tensor(self, use: int) -> int:
        """A value as a transfer wants it."""
        value = self._program.sources[use]
        names, fixed = self._program.use_names(use), self._pins.uses.get(use)
        return self._own_tensor(value, names, fixed)

    def _work(self, op: int) -> None:
        """An op that computes: its factors compete for axes."""
        program, out = self._program, self._out
        names = list(program.factors_of(op))
        sizes = program.factor_size[names].tolist() if names else []
        unit = self._unit(names, sizes)
        out.op_unit[op] = unit
        place = {name: index for index, name in enumerate(names)}
        for use in program.uses_of(op):
            value = program.sources[use]
            used = program.use_names(use).tolist()
            out.use_tensor[use] = self._op_tensor(value, used, unit, place)
        for value in program.values_of(op):
            defined = program.def_names(value).tolist()
            out.result_tensor[value] = self._op_tensor(value, defined, unit, place)

    def _op_tensor(self, value: int, names: list[int], unit: int, place: dict[int, int]) -> int:
        start = self._out.unit_start[unit]
        items = [start + place[name] if name >= 0 else -1 for name in names]
        return self._tensor(value, items)

    def _value_tensor(self, value: int) -> int:
        """A value as it is defined: pinned, or free but for the axes it is forbidden."""
        pins, names = self._pins, self._program.def_names(value)
        fixed, forbidden = pins.values.get(value), pins.forbidden.get(value, 0)
        return self._own_tensor(value, names, fixed, forbidden)

    def _own_tensor(
        self, value: int, names: Ints, fixed: Layout | None = None, forbidden: int = 0
    ) -> int:
        """A tensor whose dimensions compete for axes among themselves only."""
        shape = list(self._program.shape(value))
        if fixed is None:
            unit = self._unit(names.tolist(), shape, forbidden)
        else:
            unit = self._intern((tuple((-1, 1, -1, 0, axes) for axes in fixed), 0))
        self._last_unit = unit
        start = self._out.unit_start[unit]
        return self._tensor(value, [start + d for d in range(len(shape))])

    def _unit(self, names: list[int], sizes: list[int], forbidden: int = 0) -> int:
        groups = [self._group[name] for name in names]
        resolved = {}
        if len(set(groups)) < len(groups):
            resolved = self._resolved(names, groups)
        items = tuple(
            (group, size if group >= 0 else 1, *resolved.get(index, (-1, 0)), ())
            for index, (group, size) in enumerate(zip(groups, sizes, strict=True))
        )
        return self._intern((items, forbidden))

    def _intern(self, unit: Unit) -> int:
        key = (unit, self._mark)
        number = self._unit_number.get(key)
        if number is None:
            number = self._unit_number[key] = len(self._out.units)
            self._out.units.append(unit)
            self._out.unit_start.append(self._out.unit_start[-1] + len(unit[0]))
        return number

    def _resolved(self, names: list[int], groups: list[int]) -> dict[int, tuple[int, int]]:
        """Set group and side of the items that are in a conflict with another of the unit."""
        found: dict[int, tuple[int, int]] = {}
        for i, j in combinations(range(len(names)), 2):
            if groups[i] < 0 or groups[i] != groups[j]:
                continue
            pair = (names[i], names[j])
            which = self._resolution.get(pair) or self._resolution.get(pair[::-1])
            if which is not None:
                sides = which[1] if pair in self._resolution else which[1][::-1]
                found.setdefault(i, (which[0], sides[0]))
                found.setdefault(j, (which[0], sides[1]))
        return found

    def _tensor(self, value: int, items: list[int]) -> int:
        size = self._itemsize[self._program.value_type[value]]
        key = (size, tuple(zip(self._program.shape(value), items, strict=True)))
        number = self._tensor_number.get(key)
        if number is None:
            number = self._tensor_number[key] = len(self._out.tensors)
            self._out.tensors.append(key)
        return number


def first_equal(
    program: Program, groups: Sequence[int] | Ints, resolved: tuple[Ints, Ints], apart: Ints
) -> Ints:
    """For each op the first that does the same to tensors of the same groups and types.

    `groups` are those of the names, `resolved` rows and starts of what resolves conflicts in an op;
    ops that are `apart` equal no other.
    """
    group = ints(groups)[: len(program.factor_size)]
    of_factor, _ = distinct_rows(group, program.factor_size)
    rows, starts = resolved
    signature = program.op_signature.copy()
    signature[apart] = -1 - apart
    number, first = distinct_rows(
        signature,
        distinct(program.op_factors, of_factor)[0],
        _placed(program, program.use_dims[program.op_uses], program.use_name),
        _placed(program, program.value_dims[program.op_values], program.dim_name),
        distinct(starts * 5, rows.ravel())[0],
    )
    return first[number]


def equal_uses(
    program: Program, groups: Ints, pinned_uses: Iterable[int], uses: range
) -> tuple[Ints, list[int]]:
    """For each use of a transfer the use whose layout it has, and the uses that others follow.

    That is the first use of a value of the same shape and type whose dimensions are of the same
    groups. A use stands alone where two of its dimensions are of one group, whose conflict is
    resolved, or where it is pinned.
    """
    starts = program.use_dims[uses.start : uses.stop + 1]
    of_dim = groups[program.use_name[starts[0] : starts[-1]]]
    value = program.use_value[uses.start : uses.stop]
    pinned = np.full(len(uses), -1)
    apart = [use - uses.start for use in pinned_uses if use in uses]
    pinned[apart] = apart
    number, first = distinct_rows(
        program.value_shape[value],
        program.value_type[value],
        distinct(starts - starts[0], of_dim)[0],
        pinned,
    )
    bounds = (starts - starts[0]).tolist()
    single = [
        len({*of_dim[bounds[n] : bounds[n + 1]].tolist()}) == bounds[n + 1] - bounds[n]
        for n in first.tolist()
    ]
    places = np.arange(len(uses))
    first = np.where(np.array(single, dtype=np.bool_)[number], first[number], places)
    own = np.flatnonzero(first == places) + uses.start
    return first + uses.start, own.tolist()


def _resolved_rows(analysis: Analysis) -> tuple[Ints, Ints]:
    """Rows (two factors of an op, set group, their sides) and where those of each op begin."""
    program, conflicts = analysis.program, analysis.conflicts
    first, second = conflicts.names.T
    group = analysis.groups.of_set[conflicts.set_of]
    order = np.lexsort((second, first))
    op = np.searchsorted(program.op_factors, first, side="right") - 1
    start = program.op_factors[op]
    columns = (first - start, second - start, group, conflicts.side, 1 - conflicts.side)
    rows = np.stack(columns, axis=1)[order]
    return rows, np.searchsorted(op[order], np.arange(program.ops + 1)).astype(np.int64)


def _placed(program: Program, starts: Ints, names: Ints) -> Ints:
    """Equal for ops whose names, from these starts on, are the same of their own factors."""
    first = np.repeat(program.op_factors[:-1], np.diff(starts))
    return distinct(starts, np.where(names >= 0, names - first, -1))[0]


def _is_transfer(kind: str) -> bool:
    """Whether the tensors of an op are laid out each by itself, as those of a region are."""
    return kind in TRANSFERS or kind.startswith(REGION)


def _same(starts: Ints, first: Ints) -> Ints:
    """For each value or use of the ops, the same one of the equal op that was laid out."""
    counts = np.diff(starts)
    return np.arange(starts[-1]) + np.repeat(starts[first] - starts[:-1], counts)


def _empty(program: Program) -> Layouts:
    return Layouts(
        op_unit=np.zeros(program.ops, dtype=np.int64),
        value_unit=np.zeros(program.values, dtype=np.int64),
        use_tensor=np.zeros(len(program.use_value), dtype=np.int64),
        value_tensor=np.zeros(program.values, dtype=np.int64),
        result_tensor=np.zeros(program.values, dtype=np.int64),
    )


def _copy(layouts: Layouts) -> Layouts:
    return Layouts(
        **{column.name: getattr(layouts, column.name).copy() for column in fields(Layouts)}
    )


def _resolutions(analysis: Analysis) -> Resolutions:
    """How each conflict is resolved."""
    conflicts, groups = analysis.conflicts, analysis.groups
    names = zip(*conflicts.names.T.tolist(), strict=True)
    sides = zip(conflicts.side.tolist(), (1 - conflicts.side).tolist(), strict=True)
    which = zip(groups.of_set[conflicts.set_of].tolist(), sides, strict=True)
    return dict(zip(names, which, strict=True))
