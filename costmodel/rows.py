"""The weighted rows behind the tables: each thing that costs something, counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from analysis.program import FactorKind, Program
from analysis.types import itemsize
from costmodel.addends import SCATTER, added_up
from costmodel.behindloops import HERE, Behind, summed_behind
from costmodel.columns import ints
from costmodel.flops import BATCH, Sides
from costmodel.fusion import Fusion
from costmodel.layouts import Layouts
from costmodel.roles import Role, role

PartialRow = tuple[tuple[int, ...], tuple[tuple[int, int], ...], int, int, int, Behind]
"""(items, (computed, defined) tensor of each result, what makes it, row summed before, how many
of the first dimensions of a product are of a batch, the loop behind which it may be summed)."""
OTHER, PRODUCT, LOOKUP = range(3)
"""What makes partial sums: a product, a gather whose indexed dimension is sharded, others."""
EdgeRow = tuple[int, tuple[tuple[int, float, int], ...], bool]
"""(tensor of a value, (tensor wanted, trips, in what width it travels) of its uses, if no kernel
makes it)."""
WIDE, NARROW_WHERE_TOLD, NARROW = range(3)
"""Whether an f32 travels in 32 bits, or in 16: to products on a TPU, or to a concatenation that is
narrowed anyway."""
HaloRow = tuple[int, int, float]
"""(item, tensor, the strip's part of the whole dimension)."""

Edges = dict[int, dict[int, tuple[float, list[int]]]]
"""Value -> wanted tensor -> (most trips of a use that wants it, the uses that do)."""

Row = TypeVar("Row")
Source = tuple[int, float]
"""What a row stands for, by number, and its part of the row's weight."""


class Rows(dict[Row, float]):
    """The weight of each row, in order of appearance; `sources` are what each row is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: dict[Row, list[Source]] = {}

    def add(self, row: Row, weight: float, source: int) -> None:
        """Count a row `weight` times more, because of `source`."""
        self[row] = self.get(row, 0.0) + weight
        self.sources.setdefault(row, []).append((source, weight))


SLICING = frozenset(
    {"stablehlo.gather", "stablehlo.dynamic_slice", "stablehlo.slice", "chlo.top_k"}
)
CONCATENATE = "stablehlo.concatenate"
UPDATING = {"stablehlo.dynamic_update_slice": 1, SCATTER: 2}


def partial_rows(
    program: Program, layouts: Layouts, sides: Mapping[int, Sides]
) -> tuple[Counter[PartialRow], dict[int, int]]:
    """Ops with reduction factors, as rows; the row of each op by its number of appearance.

    Ops without one whose results are laid out differently from how they are computed are rows with
    no items. Partial sums that are added up and used nowhere else are summed over devices once:
    all but the first of them name its row. `sides` are those of matrix products.
    """
    rows: Counter[PartialRow] = Counter()
    numbers: dict[PartialRow, int] = {}
    of_op: dict[int, int] = {}
    reductions = _factors_by_op(program, FactorKind.REDUCTION)
    leaders, behind = added_up(program), summed_behind(program)
    changing = program.value_op[
        (layouts.result_tensor != layouts.value_tensor) & ~program.constant
    ].tolist()
    starts = (ints(layouts.unit_start)[layouts.op_unit] - program.op_factors[:-1]).tolist()
    pairs = list(zip(layouts.result_tensor.tolist(), layouts.value_tensor.tolist(), strict=True))
    constant, trips = program.constant.tolist(), program.op_trips.tolist()
    for op in sorted({*reductions, *changing}):
        items = tuple(starts[op] + name for name in reductions.get(op, ()))
        results = tuple(pairs[value] for value in program.values_of(op) if not constant[value])
        if results:
            before = of_op.get(leaders.get(op, -1), -1)
            maker, batched = _maker(program.kind(op)), _batched(sides.get(op, ()))
            row = (items, results, maker, before, batched, behind.get(op, HERE))
            rows[row] += trips[op]
            of_op[op] = numbers.setdefault(row, len(numbers))
    return rows, of_op


def passes(program: Program, fusion: Fusion) -> dict[int, float]:
    """How often a pass of its own moves what a matrix product makes, once summed over devices.

    What others read, they read anyway, and compute inside themselves what is made of it. A result
    of the program has no reader: the sums and all that it is made of are read, and it is written.
    """
    returned = {int(program.use_value[result.use]) for result in program.results}
    found = dict.fromkeys(fusion.sides, 0.0)
    for root in fusion.roots:
        values = program.values_of(root.op)
        if len(root.contractions) == 1 and root.op != root.contractions[0] and len(values) == 1:
            dot, size = root.contractions[0], max(fusion.bytes[values[0]], 1.0)
            sources = {program.sources[use] for use in root.reads}
            operands = {program.sources[use] for use in program.uses_of(dot)}
            read = sum(max(fusion.bytes[value], 1.0) >= size for value in sources - operands)
            found[dot] = 2.0 + read if values[0] in returned else 0.0
    return found


def _batched(sides: Sides) -> int:
    """How many dimensions of a product are of a batch, the first of its result."""
    return sum(side == BATCH and size > 1 for side, size in sides)


def _maker(kind: str) -> int:
    if role(kind) is Role.CONTRACTION:
        return PRODUCT
    return LOOKUP if kind == "stablehlo.gather" else OTHER


def _factors_by_op(program: Program, kind: FactorKind) -> dict[int, list[int]]:
    """The factors of one kind, by op."""
    names = np.flatnonzero(program.factor_kind == kind)
    ops = np.searchsorted(program.op_factors, names, side="right") - 1
    found: dict[int, list[int]] = {}
    for op, name in zip(ops.tolist(), names.tolist(), strict=True):
        found.setdefault(op, []).append(name)
    return found


def edge_rows(program: Program, layouts: Layouts, wanted: Edges) -> Rows[EdgeRow]:
    """Values with uses that may want another layout; the sources are the values."""
    rows: Rows[EdgeRow] = Rows()
    widths, tensor_of = Widths(program), layouts.value_tensor.tolist()
    given = of_role(program, Role.NOTHING)[program.value_op].tolist()
    for value, targets in wanted.items():
        row = tuple(
            sorted(
                (tensor, trips, widths.of(value, uses)) for tensor, (trips, uses) in targets.items()
            )
        )
        rows.add((tensor_of[value], row, given[value]), 1.0, value)
    return rows


class Widths:
    """In what width values travel to their uses."""

    def __init__(self, program: Program) -> None:
        user = ints(program.users)
        self._to_product = of_role(program, Role.CONTRACTION)[user].tolist()
        self._narrowed = np.isin(user, list(narrowed(program))).tolist()
        wide = np.array([dtype == "f32" for dtype in program.dtypes], dtype=np.bool_)
        self._f32 = wide[program.value_type].tolist()

    def of(self, value: int, uses: list[int]) -> int:
        """One of `WIDE` and those after it."""
        if self._f32[value] and all(self._narrowed[use] for use in uses):
            return NARROW
        return NARROW_WHERE_TOLD if self.is_narrow(value, uses) else WIDE

    def is_narrow(self, value: int, uses: list[int]) -> bool:
        """Whether all that wants an f32 are products, which a TPU makes of 16 bits."""
        return self._f32[value] and all(self._to_product[use] for use in uses)


def of_role(program: Program, wanted: Role) -> NDArray[np.bool_]:
    """For each op whether it is of a role."""
    named = np.array([role(name) is wanted for name in program.names], dtype=np.bool_)
    return named[program.op_name]


def narrowed(program: Program) -> set[int]:
    """Concatenations that nothing reads but converts to 16 bits: XLA converts what they join."""
    if CONCATENATE not in program.names:
        return set()
    joins = program.op_name == program.names.index(CONCATENATE)
    found = set(np.flatnonzero(joins).tolist())
    makers = program.value_op[program.use_value]
    for use in np.flatnonzero(joins[makers]).tolist():
        user = program.user(use)
        converts = program.kind(user) == "stablehlo.convert"
        if not converts or itemsize(program.dtype(program.values_of(user)[0])) != 2.0:
            found.discard(int(makers[use]))
    return found


def edges(program: Program, layouts: Layouts) -> Edges:
    """What the uses of values want that are laid out otherwise than these."""
    differs = layouts.use_tensor != layouts.value_tensor[program.use_value]
    wanting = np.flatnonzero(differs & ~program.constant[program.use_value])
    values = program.use_value[wanting].tolist()
    tensors = layouts.use_tensor[wanting].tolist()
    trips = np.repeat(program.op_trips, np.diff(program.op_uses))[wanting].tolist()
    found: Edges = {}
    for use, value, tensor, runs in zip(wanting.tolist(), values, tensors, trips, strict=True):
        targets = found.setdefault(value, {})
        known, uses = targets.setdefault(tensor, (0.0, []))
        uses.append(use)
        if runs > known:
            targets[tensor] = (runs, uses)
    return found


def halo_rows(program: Program, layouts: Layouts) -> Rows[HaloRow]:
    """Operands split along a factor that needs a neighbour's strip.

    The sources are uses.
    """
    rows: Rows[HaloRow] = Rows()
    for op, names in _factors_by_op(program, FactorKind.HALO).items():
        start = layouts.unit_start[layouts.op_unit[op]] - int(program.op_factors[op])
        for name in names:
            if not program.factor_halo[name]:
                continue
            for use in program.uses_of(op):
                dims = program.use_names(use).tolist()
                if name in dims:
                    shape = program.shape(program.sources[use])
                    part = int(program.factor_halo[name]) / shape[dims.index(name)]
                    row = (start + name, int(layouts.use_tensor[use]), part)
                    rows.add(row, float(program.op_trips[op]), use)
    return rows
