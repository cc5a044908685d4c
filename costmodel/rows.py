"""The weighted rows behind the tables: each thing that costs something, counted once."""

from __future__ import annotations

import math
from collections import Counter
from typing import TypeVar

import numpy as np

from analysis.program import FactorKind, Program
from analysis.types import itemsize
from costmodel.flops import BATCH, product_sides
from costmodel.fusion import Fusion
from costmodel.layouts import Layouts
from costmodel.roles import LAYOUT, Role, role

PartialRow = tuple[tuple[int, ...], tuple[tuple[int, int], ...], int, int, int]
"""(items, (computed, defined) tensor of each result, what makes it, row summed before, how many
of the first dimensions of a product are of a batch)."""
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
SCATTER = "stablehlo.scatter"
CONCATENATE = "stablehlo.concatenate"
UPDATING = {"stablehlo.dynamic_update_slice": 1, SCATTER: 2}


def partial_rows(program: Program, layouts: Layouts) -> tuple[Counter[PartialRow], dict[int, int]]:
    """Ops with reduction factors, as rows; the row of each op by its number of appearance.

    Ops without one whose results are laid out differently from how they are computed are rows with
    no items. Partial sums that are added up and used nowhere else are summed over devices once:
    all but the first of them name its row.
    """
    rows: Counter[PartialRow] = Counter()
    numbers: dict[PartialRow, int] = {}
    of_op: dict[int, int] = {}
    reductions = _factors_by_op(program, FactorKind.REDUCTION)
    leaders = added_up(program)
    differing = layouts.result_tensor != layouts.value_tensor
    changing = program.value_op[differing & ~program.constant].tolist()
    for op in sorted({*reductions, *changing}):
        start = layouts.unit_start[layouts.op_unit[op]] - int(program.op_factors[op])
        items = tuple(start + name for name in reductions.get(op, ()))
        results = tuple(
            (int(layouts.result_tensor[value]), int(layouts.value_tensor[value]))
            for value in program.values_of(op)
            if not program.constant[value]
        )
        if results:
            before = of_op.get(leaders.get(op, -1), -1)
            row = (items, results, _maker(program.kind(op)), before, _batched(program, op))
            rows[row] += program.op_trips[op]
            of_op[op] = numbers.setdefault(row, len(numbers))
    return rows, of_op


def passes(program: Program, fusion: Fusion) -> dict[int, float]:
    """How often a pass of its own moves what a matrix product makes, once summed over devices.

    What others read, they read anyway, and compute inside themselves what is made of it. A result
    of the program has no reader: the sums and all that it is made of are read, and it is written.
    """
    returned = {int(program.use_value[result.use]) for result in program.results}
    found = {}
    for root in fusion.roots:
        values = program.values_of(root.op)
        if len(root.contractions) == 1 and root.op != root.contractions[0] and len(values) == 1:
            dot, size = root.contractions[0], bytes_of(program, values[0])
            sources = {int(program.use_value[use]) for use in root.reads}
            operands = {int(program.use_value[use]) for use in program.uses_of(dot)}
            read = sum(bytes_of(program, value) >= size for value in sources - operands)
            found[dot] = 2.0 + read if values[0] in returned else 0.0
    return found


def bytes_of(program: Program, value: int) -> float:
    """Bytes of the whole of a value, at least one."""
    return max(math.prod(program.shape(value)) * itemsize(program.dtype(value)), 1.0)


def _batched(program: Program, op: int) -> int:
    """How many dimensions of a product are of a batch, the first of its result."""
    if program.kind(op) != "stablehlo.dot_general":
        return 0
    return sum(side == BATCH and size > 1 for side, size in product_sides(program, op))


def _maker(kind: str) -> int:
    if role(kind) is Role.CONTRACTION:
        return PRODUCT
    return LOOKUP if kind == "stablehlo.gather" else OTHER


def added_up(program: Program) -> dict[int, int]:
    """Contraction or scatter -> an earlier one whose result is only added to its own.

    As in `a + b + c`, where nothing else uses the three. Of scatters anything else may be added to
    the sum as well: XLA makes one scatter of them.
    """
    uses = np.bincount(program.use_value, minlength=program.values)
    leaves: dict[int, list[int]] = {}
    adding = np.array([_adds_up(name) for name in program.names], dtype=np.bool_)
    for op in np.flatnonzero(adding[program.op_name]).tolist():
        kind = program.kind(op)
        if role(kind) is Role.CONTRACTION or kind == SCATTER:
            leaves[op] = [op]
        elif kind == "stablehlo.add" or (kind in LAYOUT and len(program.uses_of(op)) == 1):
            sources = [program.sources[use] for use in program.uses_of(op)]
            makers = [program.makers[value] for value in sources]
            sums = [
                maker
                for maker, value in zip(makers, sources, strict=True)
                if maker in leaves
                and uses[value] == 1
                and program.op_trips[maker] == program.op_trips[op]
            ]
            if len(program.values_of(op)) != 1 or not sums:
                continue
            whole = len(sums) == len(makers)
            leaves[op] = []
            for maker in sums:
                joining = [n for n in leaves[maker] if whole or program.kind(n) == SCATTER]
                leaves[op] += joining
                leaves[maker] = [n for n in leaves[maker] if n not in joining]
    return {leaf: min(found) for found in leaves.values() for leaf in found if leaf != min(found)}


def _adds_up(name: str) -> bool:
    """Whether ops of this name make sums, or may pass them on."""
    sums = role(name) is Role.CONTRACTION or name == SCATTER
    return sums or name == "stablehlo.add" or name in LAYOUT


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
    narrowed = _narrowed(program)
    for value, targets in wanted.items():
        row = tuple(
            sorted(
                (tensor, trips, _width(program, value, uses, narrowed))
                for tensor, (trips, uses) in targets.items()
            )
        )
        given = role(program.kind(program.makers[value])) is Role.NOTHING
        rows.add((int(layouts.value_tensor[value]), row, given), 1.0, value)
    return rows


def _width(program: Program, value: int, uses: list[int], narrowed: set[int]) -> int:
    """One of `WIDE` and those after it."""
    if {program.user(use) for use in uses} <= narrowed and program.dtype(value) == "f32":
        return NARROW
    return NARROW_WHERE_TOLD if is_narrow(program, value, uses) else WIDE


def _narrowed(program: Program) -> set[int]:
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


def is_narrow(program: Program, value: int, uses: list[int]) -> bool:
    """Whether all that wants an f32 are products, which a TPU makes of 16 bits."""
    kinds = {role(program.kind(program.user(use))) for use in uses}
    return kinds == {Role.CONTRACTION} and program.dtype(value) == "f32"


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
