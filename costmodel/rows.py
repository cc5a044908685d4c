"""The weighted rows behind the tables: each thing that costs something, counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from analysis.program import FactorKind, Floats, Ints, Program
from costmodel.addends import SCATTER, added_up
from costmodel.behindloops import HERE, Behind, summed_behind
from costmodel.columns import floats, ints, spans
from costmodel.flow import named
from costmodel.fusion import Fusion, batch_dims
from costmodel.kernelrows import distinct, distinct_rows
from costmodel.layouts import Layouts
from costmodel.roles import Role, role
from costmodel.together import sent_together


class PartialRow(NamedTuple):
    """Results that are summed over devices, or laid out otherwise than they are computed.

    `results` are (computed, defined) tensors, `before` is the row that is summed before, or -1,
    `batch` how many of the first dimensions of a product are of a batch, `behind` the loop behind
    which it may be summed, `cut` the tensor that a TPU cuts slices of, or -1, `together` the loop
    in whose runs it is sent with others, or -1.
    """

    items: tuple[int, ...]
    results: tuple[tuple[int, int], ...]
    maker: int
    before: int
    batch: int
    behind: Behind
    cut: int
    together: int


OTHER, PRODUCT, LOOKUP, SEGMENTS = range(4)
"""What makes partial sums: a product, a gather whose indexed dimension is sharded, a scatter,
others."""
EdgeRow = tuple[int, tuple[tuple[int, float, int], ...], bool]
"""(tensor of a value, (tensor wanted, trips, in what width it travels) of its uses, if no kernel
makes it)."""
HaloRow = tuple[int, int, float]
"""(item, tensor, the strip's part of the whole dimension)."""

Row = TypeVar("Row")
Source = tuple[int, float]
"""What a row stands for, by number, and its part of the row's weight."""


class Rows(dict[Row, float]):
    """The weight of each row, in order of appearance; `sources` are what each row is made of."""

    def __init__(self) -> None:
        super().__init__()
        self._sources: dict[Row, list[Source]] = {}
        self._columns: tuple[Ints, Floats, Ints] | None = None

    @classmethod
    def of(cls, rows: Sequence[Row], number: Ints, weights: Floats, sources: Ints) -> Rows[Row]:
        """Distinct rows by number of appearance: what has which, how often, because of what."""
        found = cls()
        totals = np.bincount(number, weights=weights, minlength=len(rows))
        found.update(zip(rows, totals.tolist(), strict=True))
        found._columns = (number, weights, sources)
        return found

    def grouped(self) -> list[tuple[Ints, Floats]]:
        """What each row stands for, and its parts of the row's weight."""
        if self._columns is None:
            lists = (zip(*sources, strict=True) for sources in self._sources.values())
            return [(ints(list(numbers)), floats(list(parts))) for numbers, parts in lists]
        number, weights, sources = self._columns
        order = np.argsort(number, kind="stable")
        bounds = np.cumsum(np.bincount(number, minlength=len(self)))[:-1]
        parts = np.split(sources[order], bounds), np.split(weights[order], bounds)
        return list(zip(*parts, strict=True))

    def add(self, row: Row, weight: float, source: int) -> None:
        """Count a row `weight` times more, because of `source`."""
        self[row] = self.get(row, 0.0) + weight
        self.sources.setdefault(row, []).append((source, weight))

    @property
    def sources(self) -> dict[Row, list[Source]]:
        """What each row stands for."""
        if self._columns is not None:
            number, weights, sources = (column.tolist() for column in self._columns)
            lists: list[list[Source]] = [[] for _ in self]
            for row, weight, source in zip(number, weights, sources, strict=True):
                lists[row].append((source, weight))
            self._sources = dict(zip(self, lists, strict=True))
            self._columns = None
        return self._sources


SLICING = frozenset(
    {"stablehlo.gather", "stablehlo.dynamic_slice", "stablehlo.slice", "chlo.top_k"}
)
CUTTING = frozenset({"stablehlo.dynamic_slice", "stablehlo.slice"})
"""Ops that cut a part out of what they read."""
CONCATENATE = "stablehlo.concatenate"
UPDATING = {"stablehlo.dynamic_update_slice": 1, SCATTER: 2}


@dataclass(frozen=True, kw_only=True)
class Partials:
    """Ops with partial sums, in order, and the number of the row of each; `rows` with weights.

    `trips` is how often each is summed: not at all what the one before it that is equal summed.
    `runs` is how often each loop runs; see `together`.
    """

    rows: Counter[PartialRow]
    ops: Ints
    row: Ints
    trips: Floats
    runs: Floats

    @cached_property
    def of_op(self) -> dict[int, int]:
        """The row of each op that has one."""
        return dict(zip(self.ops.tolist(), self.row.tolist(), strict=True))


def partial_rows(program: Program, layouts: Layouts, fusion: Fusion, equal: Ints) -> Partials:
    """Ops with reduction factors, as rows by number of appearance.

    Ops without one whose results are laid out differently from how they are computed are rows with
    no items. Partial sums that are added up and used nowhere else are summed over devices once:
    all but the first of them name its row. `equal` is by op the first that is equal, as in `twins`.
    """
    factors = np.flatnonzero(program.factor_kind == FactorKind.REDUCTION)
    summing = np.searchsorted(program.op_factors, factors, side="right") - 1
    ops = _concerned(program, layouts, summing)
    items, item_start = _items(program, layouts, factors, summing, ops)
    results, value_start = _results(program, layouts, ops)
    names = np.array([_maker(name) for name in program.names], dtype=np.int64)
    makers, batch = names[program.op_name][ops], _batches(program, fusion)[ops]
    loops, loop = _behind(program)
    together, runs = sent_together(program)
    loop, together = loop[ops], together[ops]
    cut = _cut(program, layouts)[ops] if fusion.policy.around else np.full(len(ops), -1)

    alike, _ = distinct_rows(
        distinct(item_start, items)[0],
        distinct(value_start * 2, results.ravel())[0],
        *(makers, batch, loop, cut, together),
    )
    leader = _places(program, ops)[added_up(program, fusion.flow)[ops]]
    number, first = distinct_rows(alike, np.where(leader >= 0, alike[leader], -1))
    rows = [
        PartialRow(
            items=tuple(items[item_start[n] : item_start[n + 1]].tolist()),
            results=tuple(map(tuple, results[value_start[n] : value_start[n + 1]].tolist())),
            maker=int(makers[n]),
            before=int(number[leader[n]]) if leader[n] >= 0 else -1,
            batch=int(batch[n]),
            behind=loops[loop[n]],
            cut=int(cut[n]),
            together=int(together[n]),
        )
        for n in first.tolist()
    ]
    row_of = np.full(program.ops, -1)
    row_of[ops] = number
    again = (equal[ops] != ops) & (row_of[equal[ops]] == number)
    trips = np.where(again, 0.0, program.op_trips[ops])
    weights = np.bincount(number, weights=trips, minlength=len(rows))
    counted = Counter(dict(zip(rows, weights.tolist(), strict=True)))
    return Partials(rows=counted, ops=ops, row=number, trips=trips, runs=runs)


def _concerned(program: Program, layouts: Layouts, summing: Ints) -> Ints:
    """The ops with results that sum over devices or lay these out otherwise than they compute."""
    kept = ~program.constant
    concerned = np.zeros(program.ops, dtype=np.bool_)
    concerned[summing] = True
    concerned[program.value_op[(layouts.result_tensor != layouts.value_tensor) & kept]] = True
    with_results = np.zeros(program.ops, dtype=np.bool_)
    with_results[program.value_op[kept]] = True
    return np.flatnonzero(concerned & with_results)


def _cut(program: Program, layouts: Layouts) -> Ints:
    """For each op the tensor that something cuts a slice of its result as, or -1; of several any.

    XLA makes one slice of a slice of a slice. So it cuts what it takes of a sum for a device and
    what a slice takes of that from the sum, and sums it whole.
    """
    found = np.full(program.ops, -1)
    uses = np.flatnonzero(named(program, CUTTING)[program.use_op])
    uses = uses[uses == program.op_uses[program.use_op[uses]]]
    found[program.value_op[program.use_value[uses]]] = layouts.use_tensor[uses]
    return found


def _items(
    program: Program, layouts: Layouts, factors: Ints, summing: Ints, ops: Ints
) -> tuple[Ints, Ints]:
    """The items of the factors that `ops` sum over, and their starts; `summing` has these by op."""
    first_item = ints(layouts.unit_start)[layouts.op_unit] - program.op_factors[:-1]
    starts = np.searchsorted(summing, np.arange(program.ops + 1))
    return _some(first_item[summing] + factors, starts, ops)


def _results(program: Program, layouts: Layouts, ops: Ints) -> tuple[Ints, Ints]:
    """[results, (computed, defined)] tensors of `ops`, and their starts."""
    values = np.flatnonzero(~program.constant)
    starts = np.searchsorted(program.value_op[values], np.arange(program.ops + 1))
    values, starts = _some(values, starts, ops)
    return np.stack([layouts.result_tensor[values], layouts.value_tensor[values]], axis=1), starts


def _behind(program: Program) -> tuple[list[Behind], Ints]:
    """Behind which loops sums are priced, and by op which of these it is."""
    behind, loop = summed_behind(program), np.zeros(program.ops, dtype=np.int64)
    loops = list(dict.fromkeys((HERE, *behind.values())))
    loop[list(behind)] = [loops.index(one) for one in behind.values()]
    return loops, loop


def _some(column: Ints, starts: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Of a column with these starts some rows, and their starts."""
    counts = starts[rows + 1] - starts[rows]
    return column[spans(starts[rows], counts)], np.concatenate([[0], np.cumsum(counts)])


def _places(program: Program, ops: Ints) -> Ints:
    """For each op its place among some, or -1; so too for none, -1."""
    found = np.full(program.ops + 1, -1)
    found[ops] = np.arange(len(ops))
    return found


def passes(program: Program, fusion: Fusion) -> Floats:
    """How often a pass of its own moves what an op makes, once summed over devices: by op.

    What others read, they read anyway, and compute inside themselves what a product makes. A result
    of the program has no reader: the sums and all that it is made of are read, and it is written.
    What is no matrix product is read and written.
    """
    returned = {int(program.use_value[result.use]) for result in program.results}
    found = np.full(program.ops, 2.0)
    found[list(fusion.sides)] = 0.0
    roots = fusion.roots
    alone = np.flatnonzero(
        (np.diff(roots.dot_start) == 1) & (np.diff(program.op_values)[roots.ops] == 1)
    )
    dots = roots.dots[roots.dot_start[alone]]
    inside = dots != roots.ops[alone]
    alone, dots = alone[inside], dots[inside]
    made = program.op_values[roots.ops[alone]]
    for number, dot, value in zip(alone.tolist(), dots.tolist(), made.tolist(), strict=True):
        found[dot] = 0.0
        if value in returned:
            size = max(fusion.bytes[value], 1.0)
            sources = {program.sources[use] for use in roots[number].reads}
            operands = {program.sources[use] for use in program.uses_of(dot)}
            read = sum(max(fusion.bytes[value], 1.0) >= size for value in sources - operands)
            found[dot] = 2.0 + read
    return found


def _batches(program: Program, fusion: Fusion) -> Ints:
    """How many dimensions of each product are of a batch, the first of its result: by op."""
    found = np.zeros(program.ops, dtype=np.int64)
    found[list(fusion.sides)] = [max(0, batch_dims(sides)) for sides in fusion.sides.values()]
    return found


def _maker(kind: str) -> int:
    if role(kind) is Role.CONTRACTION:
        return PRODUCT
    return {"stablehlo.gather": LOOKUP, SCATTER: SEGMENTS}.get(kind, OTHER)


def _factors_by_op(program: Program, kind: FactorKind) -> dict[int, list[int]]:
    """The factors of one kind, by op."""
    names = np.flatnonzero(program.factor_kind == kind)
    ops = np.searchsorted(program.op_factors, names, side="right") - 1
    found: dict[int, list[int]] = {}
    for op, name in zip(ops.tolist(), names.tolist(), strict=True):
        found.setdefault(op, []).append(name)
    return found


def of_role(program: Program, wanted: Role) -> NDArray[np.bool_]:
    """For each op whether it is of a role."""
    named = np.array([role(name) is wanted for name in program.names], dtype=np.bool_)
    return named[program.op_name]


def halo_rows(program: Program, layouts: Layouts, first: Ints) -> Rows[HaloRow]:
    """Operands split along a factor that needs a neighbour's strip; `first` as in `twins`.

    The sources are uses.
    """
    rows: Rows[HaloRow] = Rows()
    for op, names in _factors_by_op(program, FactorKind.HALO).items():
        if first[op] != op:
            continue
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
