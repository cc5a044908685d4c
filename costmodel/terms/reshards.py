"""Uses of values that are laid out otherwise than these: what they want, and in what width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toast.analysis.program import Floats, Ints, Program
from toast.analysis.types import itemsize
from toast.costmodel.compilers.rules import Bf16NarrowingRules
from toast.costmodel.passes.bf16_narrowing import read_for_products
from toast.costmodel.program.arrays import floats, ints, starts
from toast.costmodel.program.buffers import carried_constants
from toast.costmodel.program.dataflow import Bools, Flow
from toast.costmodel.program.distinct import distinct, distinct_rows
from toast.costmodel.program.op_traits import Role
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.dependents import OwningUnits, Pairs, paired, rows_of
from toast.costmodel.terms.journal import Entry
from toast.costmodel.terms.rows import CONCATENATE, WeightedRows, of_role
from toast.costmodel.terms.sources import Runs, Sent, Sources
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.bounds import Bounds
    from toast.costmodel.terms.listing import Listing

WIDE, NARROW_TO_PRODUCTS, NARROW = range(3)
"""An f32 travels in 32 bits; in 16 to products, where the compiler narrows these; or in 16 in any
case, to a concatenation that is narrowed."""

ReshardRow = tuple[int, tuple[tuple[int, float, int], ...], bool]
"""(tensor of a value, (tensor wanted, trips, in what width it travels) of its uses, if no fusion
makes it)."""

Targets = dict[int, tuple[float, list[int]]]
"""Wanted tensor -> (most trips of a use that wants it, the uses that do)."""


class Reshards(NamedTuple):
    """The rows as columns: the tensor of each value (`source`) and if no fusion makes it (`given`).

    From `target_start` on the tensors that its uses want, the most trips of a use that wants each,
    and in what width it travels (`WIDE` and those after it).
    """

    weight: Floats
    source: Ints
    given: Ints
    target_start: Ints
    target: Ints
    target_trips: Floats
    target_narrow: Ints


class ReshardScratch(NamedTuple):
    """By row: if it is `stale`, `seconds` of collectives and of the fusions around them."""

    stale: Bools
    seconds: Floats
    local_seconds: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Edges(Mapping[int, Targets]):
    """What the uses of values want, by value; also as columns.

    Value `valued[n]` has the targets [`start[n]`, `start[n + 1]`), each with its tensor, the most
    trips of a use that wants it and the uses that do, from `use_start` on.
    """

    valued: Ints
    start: Ints
    tensor: Ints
    trips: Floats
    use_start: Ints
    uses: Ints

    @property
    def row(self) -> Ints:
        """The place of its value, for each target."""
        return np.repeat(np.arange(len(self.valued)), np.diff(self.start))

    @property
    def value(self) -> Ints:
        """The value of each target."""
        return self.valued[self.row]

    @cached_property
    def _views(self) -> tuple[memoryview, ...]:
        columns = (self.start, self.tensor, self.trips, self.use_start, self.uses)
        return tuple(column.data for column in columns)

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints]:
        """The values in order, and the place of each; a dict of so many takes ten times as much."""
        order = np.argsort(self.valued)
        return self.valued[order], order

    def __getitem__(self, value: int) -> Targets:
        """The targets of a value."""
        values, places = self._sorted
        at = int(np.searchsorted(values, value))
        if at == len(values) or values[at] != value:
            raise KeyError(value)
        return dict(self.targets(int(places[at])))

    def targets(self, place: int) -> Iterator[tuple[int, tuple[float, list[int]]]]:
        """The tensors that the value at a place is wanted as, with trips and uses."""
        start, tensor, trips, use_start, uses = self._views
        for target in range(start[place], start[place + 1]):
            yield (
                tensor[target],
                (trips[target], uses[use_start[target] : use_start[target + 1]].tolist()),
            )

    def __iter__(self) -> Iterator[int]:
        """The values, in the order of their first use."""
        return iter(self.valued.tolist())

    def __len__(self) -> int:
        """How many values there are."""
        return len(self.valued)


def edges(program: Program, layouts: Layouts, equal: Ints | None = None) -> Edges:
    """What the uses of values want that are laid out otherwise than these.

    Where a value is `equal` to another one with the same layout, its uses count as uses of that
    one.
    """
    differs = layouts.use_tensor != layouts.value_tensor[program.use_value]
    uses = np.flatnonzero(differs & ~program.constant[program.use_value])
    value, tensor = program.use_value[uses], layouts.use_tensor[uses]
    value = value if equal is None else equal[value]
    pair, first = distinct_rows(value, tensor)
    row, values = distinct_rows(value)
    order = np.argsort(row[first], kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    by_target = np.argsort(place[pair], kind="stable")
    trips = program.op_trips[program.use_op[uses]]
    use_start = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=len(first))[order])])
    counts = np.bincount(row[first], minlength=len(values))
    return Edges(
        valued=value[values],
        start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        tensor=tensor[first[order]],
        trips=reduced(np.maximum, trips[by_target], use_start),
        use_start=use_start.astype(np.int64),
        uses=uses[by_target],
    )


def reduced(function: np.ufunc, column: NDArray[Any], starts: Ints) -> NDArray[Any]:
    """A function over each row of a column with these starts; no row is empty."""
    return function.reduceat(column, starts[:-1]) if len(starts) > 1 else column[:0]


class Widths:
    """In what width values travel to each of their targets."""

    def __init__(
        self, program: Program, flow: Flow, wanted: Edges, rules: Bf16NarrowingRules
    ) -> None:
        wide = np.array([dtype == "f32" for dtype in program.dtypes], dtype=np.bool_)
        single = wide[program.value_type[wanted.value]]
        user = program.use_op[wanted.uses]
        for_products = read_for_products(program, flow)[wanted.uses]
        to_products = reduced(np.logical_and, for_products, wanted.use_start)
        to_narrowed = reduced(np.logical_and, narrowed(program)[user], wanted.use_start)
        to_narrowed = to_narrowed & rules.narrows_concatenations
        self.narrow: Bools = single & to_products & rules.narrows_gathers
        """Whether all that wants an f32 are products, which a TPU makes of 16 bits, or move it to
        such."""
        width = np.where(self.narrow, NARROW_TO_PRODUCTS, WIDE)
        self.of: Ints = np.where(single & to_narrowed, NARROW, width)
        """One of `WIDE` and those after it."""


def narrowed(program: Program) -> Bools:
    """Concatenations that nothing reads but converts to 16 bits: XLA converts what they join."""
    found = np.zeros(program.ops, dtype=np.bool_)
    if CONCATENATE not in program.names:
        return found
    found[:] = program.op_name == program.names.index(CONCATENATE)
    makers = program.value_op[program.use_value]
    for use in np.flatnonzero(found[makers]).tolist():
        user = program.user(use)
        converts = program.kind(user) == "stablehlo.convert"
        if not converts or itemsize(program.dtype(program.values_of(user)[0])) != 2.0:
            found[makers[use]] = False
    return found


def reshard_rows(listing: Listing) -> WeightedRows[ReshardRow]:
    """Values with uses that may want another layout; the sources are the values.

    Not constants that a loop passes on: these are there in every layout.
    """
    program, layouts, wanted = listing.program, listing.layouts, listing.sent
    fusion = listing.fusion
    widths = Widths(program, fusion.flow, wanted, fusion.profile.bf16_narrowing)
    given = of_role(program, Role.NOTHING)[program.value_op[wanted.valued]]
    source, row = layouts.value_tensor[wanted.valued], wanted.row
    order = np.lexsort((wanted.tensor, row))
    targets = np.stack([wanted.tensor, wanted.trips.view(np.int64), widths.of], axis=1)[order]
    listed, _ = distinct(wanted.start * 3, targets.ravel())
    sent = np.flatnonzero(~np.isin(wanted.valued, list(carried_constants(program))))
    number, first = distinct_rows(source[sent], given[sent], listed[sent])
    rows = []
    for place in sent[first].tolist():
        some = order[wanted.start[place] : wanted.start[place + 1]]
        columns = (wanted.tensor[some], wanted.trips[some], widths.of[some])
        row_of = tuple(zip(*(column.tolist() for column in columns), strict=True))
        rows.append((int(source[place]), row_of, bool(given[place])))
    return WeightedRows.of(rows, number, np.ones(len(number)), wanted.valued[sent])


def reshard_columns(rows: WeightedRows[ReshardRow], _listing: Listing) -> Reshards:
    """The rows as columns."""
    wanted = [target for row in rows for target in row[1]]
    return Reshards(
        weight=floats(list(rows.values())),
        source=ints([row[0] for row in rows]),
        given=ints([row[2] for row in rows]),
        target_start=starts([row[1] for row in rows]),
        target=ints([tensor for tensor, _, _ in wanted]),
        target_trips=floats([trips for _, trips, _ in wanted]),
        target_narrow=ints([narrow for _, _, narrow in wanted]),
    )


def reshard_scratch(reshards: Reshards, stale: Bools) -> ReshardScratch:
    """Working arrays for these rows."""
    rows = len(reshards.weight)
    return ReshardScratch(stale=stale, seconds=np.zeros(rows), local_seconds=np.zeros(rows))


def reshard_dependencies(reshards: Reshards, owners: OwningUnits) -> Pairs:
    """Resharding depends on the value and on all that is wanted of it."""
    row = np.arange(len(reshards.weight))
    return paired(
        (row, owners.tensor[reshards.source]),
        (rows_of(reshards.target_start), owners.tensor[reshards.target]),
    )


def _fused(sources: Sources, row: int, place: int) -> Runs:
    """The ops that need a value rounded, or put in place."""
    reshards = sources.tables.reshards
    target = int(reshards.target[reshards.target_start[row] + place])
    values = sources.of_row(RESHARDS, row)
    return Runs.listed([(sources.users(value, target), runs) for value, runs in values])


def _sent(sources: Sources, row: int, place: int) -> list[Sent]:
    """The values of a row and the ops that want them in one layout."""
    reshards = sources.tables.reshards
    k = reshards.target_start[row] + place
    target, trips = int(reshards.target[k]), float(reshards.target_trips[k])
    values = sources.of_row(RESHARDS, row)
    return [(value, sources.users(value, target), runs * trips) for value, runs in values]


def _bound(bounds: Bounds) -> None:
    """Uses that want another layout; two of one value may share it, so that one pays."""
    reshards = bounds.tables.reshards
    for row in range(len(reshards.weight)):
        source = int(reshards.source[row])
        targets = range(int(reshards.target_start[row]), int(reshards.target_start[row + 1]))
        if not targets:
            continue
        whole = np.zeros(len(bounds.local(source)), dtype=np.int64)
        moves = [
            (target, bounds.reshard(source, target, whole, width=width))
            for target, width in (_wanted(bounds, k) for k in targets)
        ]

        def paid(move: tuple[int, Floats], source: int = source) -> tuple[float, float]:
            target, seconds = move
            return bounds.at_reference((source, target), seconds), float(seconds.max())

        target, seconds = max(moves, key=paid)
        trips = float(min(reshards.target_trips[k] for k in targets))
        bounds.add_move(source, target, reshards.weight[row] * trips * seconds)


def _wanted(bounds: Bounds, k: int) -> tuple[int, float]:
    """A tensor that uses want, and how wide its elements travel."""
    reshards, narrows = bounds.tables.reshards, bounds.tables.chip.narrows
    narrow = reshards.target_narrow[k] > (WIDE if narrows else NARROW_TO_PRODUCTS)
    return int(reshards.target[k]), 0.5 if narrow else 1.0


RESHARDS = Term(
    name="reshards",
    kernel="reshard.price_reshards",
    list_rows=reshard_rows,
    columns=reshard_columns,
    rows=lambda reshards: len(reshards.weight),
    dependencies=reshard_dependencies,
    scratch=reshard_scratch,
    entries=lambda reshards: 7 * len(reshards.target),
    fused={Entry.LOCAL: _fused},
    sent={Entry.EDGE: _sent},
    bound=_bound,
)
