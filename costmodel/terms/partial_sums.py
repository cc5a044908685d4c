"""Partial sums, and results laid out otherwise than they are computed, as weighted rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toast.analysis.program import FactorKind, Floats, Ints, Program
from toast.costmodel.passes.algebraic_simplifier import joined_reductions
from toast.costmodel.passes.all_reduce_combiner import (
    ALONE,
    combine_sums,
    kinds_of_moments,
)
from toast.costmodel.passes.all_reduce_reassociate import SCATTER, reassociate_sums
from toast.costmodel.passes.fusion import Fusion, batch_dims
from toast.costmodel.passes.output_fusion import joined_products, updates_inside
from toast.costmodel.passes.while_loop_all_reduce_motion import (
    HERE,
    AddedSum,
    Behind,
    added_sums,
    move_sums,
)
from toast.costmodel.program.arrays import flat, floats, ints, spans, starts
from toast.costmodel.program.dataflow import Bools, named
from toast.costmodel.program.distinct import distinct, distinct_rows
from toast.costmodel.program.op_traits import Role, role
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.dependents import OwningUnits, Pairs, paired, rows_of, through
from toast.costmodel.terms.journal import Entry
from toast.costmodel.terms.rows import CUTTING
from toast.costmodel.terms.sources import Runs, Sent, Sources
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.bounds import Bounds
    from toast.costmodel.terms.listing import Listing

Alike = tuple[tuple[int, int], ...]
"""Pairs of tensors."""

OTHER, PRODUCT, LOOKUP, SEGMENTS, COMPLEX = range(5)
"""What makes partial sums: a product, a gather whose indexed dimension is sharded, a scatter,
others, and of these what makes complex numbers that are gathered."""


class PartialRow(NamedTuple):
    """Results that are summed over devices, or laid out otherwise than they are computed.

    `results` are (computed, defined) tensors. `before` are the rows with which it is summed where
    the sum is wanted whole, and where it is scattered, or -1. `batch` is how many of the first
    dimensions of a product are of a batch, `behind` the loop behind which it may be summed where
    the tensors of each pair of `alike` have one layout, `cut` the tensor that a TPU cuts slices of,
    or -1, `flattened` the dimension of the rows of a product or lookup that is made as a matrix, or
    -1. The sum is sent with others in the runs of the loop, or at the moments of the kind, that it
    is `combined_in`; by itself where that is -1.
    """

    items: tuple[int, ...]
    results: tuple[tuple[int, int], ...]
    maker: int
    before: tuple[int, int]
    batch: int
    behind: Behind
    alike: Alike
    cut: int
    combined_in: int
    flattened: int


class PartialSums(NamedTuple):
    """The rows as columns; `X_start` has one entry more than there are X.

    By row: `weight`, the items that it sums over, from `item_start` on, and its results, from
    `result_start` on, each a tensor as `computed` and as `defined`; whether it is a `product`, a
    `lookup` or a scatter (`segments`), or is `gathered`; the tensor that slices of the sum are
    `cut` of, or -1; the row that it is `added_to` before it is summed, or -1, and that where the
    sum is scattered (`scattered_with`); `passes` over what is made of the sums; dimensions of a
    `batch`; how often the loop runs behind which it may be summed (`loop_trips`), how many bytes it
    adds up relative to those that are made (`loop_share`), and the pairs of tensors from
    `alike_start` on whose layouts are then alike (`alike_one`, `alike_other`); the loop in whose
    runs, or the kind of moments at which it is `combined_in` one collective with others, or -1; the
    dimension of the rows of a product or lookup that is `flattened` to a matrix, or -1. `combined`
    are the results that are sent with others, with their `combined_loop`; `loop_runs` by loop, and
    then by kind of moment. The first `loops` of these are loops.
    """

    weight: Floats
    item_start: Ints
    item: Ints
    result_start: Ints
    computed: Ints
    defined: Ints
    product: Ints
    lookup: Ints
    segments: Ints
    gathered: Ints
    cut: Ints
    added_to: Ints
    scattered_with: Ints
    passes: Floats
    batch: Ints
    loop_trips: Floats
    loop_share: Floats
    alike_start: Ints
    alike_one: Ints
    alike_other: Ints
    combined_in: Ints
    flattened: Ints
    combined: Ints
    combined_loop: Ints
    loop_runs: Floats
    loops: int


class PartialSumScratch(NamedTuple):
    """By row: if it is `stale`, the axes over which it has partial sums (`reduced`).

    And whether they are summed `behind_loop`; `seconds` of its collectives, and of what a product
    would have computed of its sums (`unfused_seconds`).
    """

    stale: Bools
    reduced: Ints
    behind_loop: Bools
    seconds: Floats
    unfused_seconds: Floats


@dataclass(frozen=True, kw_only=True)
class Partials:
    """Ops with partial sums, in order, and the number of the row of each; `rows` with weights.

    `trips` is how often each is summed: not at all what the one before it that is equal summed.
    `runs` is how often each loop runs, and after these `loops` how many moments there are of each
    kind; see `combined_in`.
    """

    rows: Counter[PartialRow]
    ops: Ints
    row: Ints
    trips: Floats
    runs: Floats
    loops: int

    @cached_property
    def of_op(self) -> dict[int, int]:
        """The row of each op that has one."""
        return dict(zip(self.ops.tolist(), self.row.tolist(), strict=True))


def mates_of(partials: Partials) -> tuple[Ints, Ints]:
    """By row one that is added to it, or -1, where the sum is whole and where it is scattered."""
    before = np.array([one.before for one in partials.rows], dtype=np.int64).reshape(-1, 2)
    found = np.full(before.T.shape, -1)
    for mates, led in zip(found, before.T, strict=True):
        mates[led[led >= 0]] = np.flatnonzero(led >= 0)
    return found[0], found[1]


def partial_sum_rows(listing: Listing) -> Partials:
    """Ops with reduction factors, as rows by number of appearance.

    Ops without one whose results are laid out differently from how they are computed are rows with
    no items. Partial sums that are added up and used nowhere else are summed over devices once:
    all but the first of them name its row.
    """
    program, layouts, fusion = listing.program, listing.layouts, listing.fusion
    factors = np.flatnonzero(program.factor_kind == FactorKind.REDUCTION)
    owner = np.searchsorted(program.op_factors, factors, side="right") - 1
    summing = joined_reductions(program, fusion.profile.algebraic_simplifier)[owner]
    order = np.argsort(summing, kind="stable")
    factors, owner, summing = factors[order], owner[order], summing[order]
    ops = _concerned(program, layouts, summing)
    loops, loop = _behind(program, layouts, fusion)
    combined_in, loop_runs = combine_sums(program, fusion.profile.all_reduce_combiner)
    runs = loop_runs
    makers = _makers(program, fusion)[ops]
    columns = _Columns(
        *_items(program, layouts, factors, owner, summing, ops),
        *_results(program, layouts, ops),
        maker=makers,
        batch=_batches(program, fusion)[ops],
        behind=np.where(makers == COMPLEX, loops.index((HERE, ())), loop[ops]),
        cut=_cut(program, layouts, fusion)[ops],
        combined_in=np.where(makers == COMPLEX, ALONE, combined_in[ops]),
        flattened=_flattened(program, fusion)[ops],
    )
    if fusion.profile.all_reduce_combiner.combines:
        columns, runs = _with_moments(program, columns, ops, runs)
    sums = reassociate_sums(program, fusion.flow, fusion.profile.all_reduce_reassociate)
    leaders = [_places(program, ops)[of[ops]] for of in sums]
    number, first = columns.identity(), ops
    for _ in leaders:  # the row of one that leads may be led by another
        number, first = distinct_rows(number, *(_led(leader, number) for leader in leaders))
    before = [_led(leader, number).tolist() for leader in leaders]
    rows = [columns.row(n, (before[0][n], before[1][n]), loops) for n in first.tolist()]
    trips = np.where(_again(program, ops, number, listing.first_op), 0.0, program.op_trips[ops])
    weights = np.bincount(number, weights=trips, minlength=len(rows))
    counted = Counter(dict(zip(rows, weights.tolist(), strict=True)))
    many = len(loop_runs)
    return Partials(rows=counted, ops=ops, row=number, trips=trips, runs=runs, loops=many)


class _Columns(NamedTuple):
    """What distinguishes rows, op by op; `behind` by number."""

    items: Ints
    item_start: Ints
    results: Ints
    value_start: Ints
    maker: Ints
    batch: Ints
    behind: Ints
    cut: Ints
    combined_in: Ints
    flattened: Ints

    def identity(self) -> Ints:
        """Equal numbers for ops that differ in none of these."""
        return distinct_rows(
            distinct(self.item_start, self.items)[0],
            distinct(self.value_start * 2, self.results.ravel())[0],
            *(self.maker, self.batch, self.behind, self.cut, self.combined_in, self.flattened),
        )[0]

    def row(
        self, n: int, before: tuple[int, int], loops: Sequence[tuple[Behind, Alike]]
    ) -> PartialRow:
        """The row of the op at one place."""
        items = self.items[self.item_start[n] : self.item_start[n + 1]]
        results = self.results[self.value_start[n] : self.value_start[n + 1]]
        behind, alike = loops[self.behind[n]]
        return PartialRow(
            items=tuple(items.tolist()),
            results=tuple(map(tuple, results.tolist())),
            maker=int(self.maker[n]),
            before=before,
            batch=int(self.batch[n]),
            behind=behind,
            alike=alike,
            cut=int(self.cut[n]),
            combined_in=int(self.combined_in[n]),
            flattened=int(self.flattened[n]),
        )


def _with_moments(
    program: Program, columns: _Columns, ops: Ints, runs: Floats
) -> tuple[_Columns, Floats]:
    """The same, with the kinds of moments at which sums are sent as further loops with `runs`."""
    waiting = (np.diff(columns.item_start) > 0) & (columns.combined_in == ALONE)
    kind, many = kinds_of_moments(program, ops, waiting, columns.identity())
    sent = np.where(kind == ALONE, columns.combined_in, len(runs) + kind)
    return columns._replace(combined_in=sent), np.append(runs, many)


def _led(leader: Ints, number: Ints) -> Ints:
    """The number of what leads each, or -1."""
    return np.where(leader >= 0, number[leader], -1)


def _again(program: Program, ops: Ints, number: Ints, equal: Ints) -> Bools:
    """Whether each op sums what an equal one of its row has summed before it."""
    row_of = np.full(program.ops, -1)
    row_of[ops] = number
    return np.asarray((equal[ops] != ops) & (row_of[equal[ops]] == number))


def _concerned(program: Program, layouts: Layouts, summing: Ints) -> Ints:
    """The ops with results that sum over devices or lay these out otherwise than they compute."""
    kept = ~program.constant
    concerned = np.zeros(program.ops, dtype=np.bool_)
    concerned[summing] = True
    concerned[program.value_op[(layouts.result_tensor != layouts.value_tensor) & kept]] = True
    with_results = np.zeros(program.ops, dtype=np.bool_)
    with_results[program.value_op[kept]] = True
    return np.flatnonzero(concerned & with_results)


def _cut(program: Program, layouts: Layouts, fusion: Fusion) -> Ints:
    """For each op the tensor that something cuts a slice of its result as, or -1; of several any.

    On a TPU XLA makes one slice of a slice of a slice. So it cuts what it takes of a sum for a
    device and what a slice takes of that from the sum, and sums it whole.
    """
    found = np.full(program.ops, -1)
    if not fusion.profile.reduce_scatter_creator.keeps_cut_sums_whole:
        return found
    uses = np.flatnonzero(named(program, CUTTING)[program.use_op])
    uses = uses[uses == program.op_uses[program.use_op[uses]]]
    found[program.value_op[program.use_value[uses]]] = layouts.use_tensor[uses]
    return found


def _flattened(program: Program, fusion: Fusion) -> Ints:
    """For each product or lookup that is a matrix but for dimensions of 1 that of its rows, or -1.

    A TPU multiplies matrices. It puts the dimensions of 1 back where a module constrains what the
    product makes, and then does not scatter its sums by rows.
    """
    found = np.full(program.ops, -1)
    if not fusion.profile.reduce_scatter_creator.flattens_unit_dims:
        return found
    ones = program.of_shapes(lambda shape: 1 in shape, np.bool_)
    for kind, place in (("stablehlo.dot_general", 0), ("stablehlo.gather", 1)):
        makers = np.array(program.ops_named(kind), dtype=np.int64)
        for op in makers[ones[program.op_values[makers]]].tolist():
            result = program.values_of(op)[0]
            left = set(program.use_names(program.uses_of(op)[place]).tolist())
            made = zip(program.def_names(result).tolist(), program.shape(result), strict=True)
            rows = [dim for dim, (name, size) in enumerate(made) if size > 1 and name in left]
            if len(rows) == 1:
                found[op] = rows[0]
    return found


def _items(
    program: Program, layouts: Layouts, factors: Ints, owner: Ints, summing: Ints, ops: Ints
) -> tuple[Ints, Ints]:
    """The items of the factors that `ops` sum over, and their starts.

    By factor, `owner` is the op that has it and `summing` the one that sums over it, in order.
    """
    first_item = ints(layouts.unit_start)[layouts.op_unit] - program.op_factors[:-1]
    starts = np.searchsorted(summing, np.arange(program.ops + 1))
    return _some(first_item[owner] + factors, starts, ops)


def _results(program: Program, layouts: Layouts, ops: Ints) -> tuple[Ints, Ints]:
    """[results, (computed, defined)] tensors of `ops`, and their starts."""
    values = np.flatnonzero(~program.constant)
    starts = np.searchsorted(program.value_op[values], np.arange(program.ops + 1))
    values, starts = _some(values, starts, ops)
    return np.stack([layouts.result_tensor[values], layouts.value_tensor[values]], axis=1), starts


def _behind(
    program: Program, layouts: Layouts, fusion: Fusion
) -> tuple[list[tuple[Behind, Alike]], Ints]:
    """Behind which loops sums are priced and what is alike then, and by op which of these it is."""
    rules = fusion.profile.while_loop_all_reduce_motion
    behind, loop = move_sums(program, rules), np.zeros(program.ops, dtype=np.int64)
    parts = added_sums(program) if behind else {}
    found = {op: (one, _alike(program, layouts, parts[op])) for op, one in behind.items()}
    loops = list(dict.fromkeys(((HERE, ()), *found.values())))
    loop[list(found)] = [loops.index(one) for one in found.values()]
    return loops, loop


def _alike(program: Program, layouts: Layouts, parts: Sequence[AddedSum]) -> Alike:
    """What keeps one layout from where sums are made to where a loop adds them up."""
    pairs = dict[tuple[int, int], None]()
    for part in parts:
        (added, last), body = part.path[-2:], part.slot.body
        reads = [use for use in program.uses_of(program.user(added)) if use != added]
        for use in (*part.path, *reads):
            value = program.sources[use]
            pairs[int(layouts.value_tensor[value]), int(layouts.use_tensor[use])] = None
        carried = layouts.value_tensor[[program.sources[last], body]]
        pairs[int(carried[0]), int(carried[1])] = None
    return tuple((one, other) for one, other in pairs if one != other)


def _some(column: Ints, starts: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Of a column with these starts some rows, and their starts."""
    counts = starts[rows + 1] - starts[rows]
    return column[spans(starts[rows], counts)], np.concatenate([[0], np.cumsum(counts)])


def _places(program: Program, ops: Ints) -> Ints:
    """For each op its place among some, or -1; so too for none, -1."""
    found = np.full(program.ops + 1, -1)
    found[ops] = np.arange(len(ops))
    return found


def _batches(program: Program, fusion: Fusion) -> Ints:
    """How many dimensions of each product are of a batch, the first of its result: by op."""
    found = np.zeros(program.ops, dtype=np.int64)
    found[list(fusion.sides)] = [max(0, batch_dims(sides)) for sides in fusion.sides.values()]
    return found


def _makers(program: Program, fusion: Fusion) -> Ints:
    """What makes the sums of each op. Products of complex numbers are several of real ones."""
    found = np.array([_maker(name) for name in program.names], dtype=np.int64)[program.op_name]
    if fusion.profile.spmd_partitioner.gathers_complex:
        wide = np.array([dtype.startswith("complex") for dtype in program.dtypes], dtype=np.bool_)
        made = program.value_op[wide[program.value_type]]
        found[made[(made >= 0) & (found[made] == OTHER)]] = COMPLEX
    return found


def _maker(kind: str) -> int:
    if role(kind) is Role.CONTRACTION:
        return PRODUCT
    return {"stablehlo.gather": LOOKUP, SCATTER: SEGMENTS}.get(kind, OTHER)


def partial_sum_columns(partials: Partials, listing: Listing) -> PartialSums:
    """The rows as columns."""
    passes = passes_over_sums(listing.program, listing.fusion)
    rows = partials.rows
    results = [row.results for row in rows]
    combined_in = ints([row.combined_in for row in rows])
    loops = np.repeat(combined_in, [len(row) for row in results])
    return PartialSums(
        weight=floats(list(rows.values())),
        item_start=starts([row.items for row in rows]),
        item=flat([row.items for row in rows]),
        result_start=starts(results),
        computed=ints([a for row in results for a, _ in row]),
        defined=ints([b for row in results for _, b in row]),
        product=ints([row.maker == PRODUCT for row in rows]),
        lookup=ints([row.maker == LOOKUP for row in rows]),
        segments=ints([row.maker == SEGMENTS for row in rows]),
        gathered=ints([row.maker == COMPLEX for row in rows]),
        cut=ints([row.cut for row in rows]),
        combined_in=combined_in,
        flattened=ints([row.flattened for row in rows]),
        loop_runs=partials.runs,
        loops=partials.loops,
        combined=np.flatnonzero(loops >= 0),
        combined_loop=loops[loops >= 0],
        added_to=ints([row.before[0] for row in rows]),
        scattered_with=ints([row.before[1] for row in rows]),
        batch=ints([row.batch for row in rows]),
        loop_trips=floats([row.behind[0] for row in rows]),
        loop_share=floats([row.behind[1] for row in rows]),
        alike_start=starts([row.alike for row in rows]),
        alike_one=ints([one for row in rows for one, _ in row.alike]),
        alike_other=ints([other for row in rows for _, other in row.alike]),
        passes=_mean_passes(partials, passes),
    )


def passes_over_sums(program: Program, fusion: Fusion) -> Floats:
    """How often a pass of its own moves what an op makes, once summed over devices: by op.

    What others read, they read anyway, and compute inside themselves what a product makes. A result
    of the program has no reader: the sums and all that it is made of are read, and it is written.
    What is no matrix product is read and written, and so is what an elementwise fusion makes that
    would have run as one with the product.
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
    launched = fusion.launched
    found[joined_products(program, roots, launched)] = 2.0
    updating = updates_inside(program, launched)[launched.rows(launched.dot_start)]
    found[launched.dots[updating]] = 0.0
    return found


def _mean_passes(partials: Partials, passes: Floats) -> Floats:
    """The mean over the ops of each row."""
    spent = passes[partials.ops] * partials.trips
    whole = np.array(list(partials.rows.values()))
    return np.bincount(partials.row, weights=spent, minlength=len(whole)) / whole


def partial_sum_scratch(sums: PartialSums, stale: Bools) -> PartialSumScratch:
    """Working arrays for these rows."""
    rows = len(sums.weight)
    return PartialSumScratch(
        stale=stale,
        reduced=np.zeros(rows, dtype=np.int64),
        behind_loop=np.zeros(rows, dtype=np.bool_),
        seconds=np.zeros(rows),
        unfused_seconds=np.zeros(rows),
    )


def partial_sum_dependencies(sums: PartialSums, owners: OwningUnits) -> Pairs:
    """Sums depend on their items and results, and on those that they are added to."""
    cut, results, alike = sums.cut, rows_of(sums.result_start), rows_of(sums.alike_start)
    own = paired(
        (np.arange(len(cut)), np.where(cut >= 0, owners.tensor[cut], -1)),
        (rows_of(sums.item_start), owners.item[sums.item]),
        (results, owners.tensor[sums.computed]),
        (results, owners.tensor[sums.defined]),
        (alike, owners.tensor[sums.alike_one]),
        (alike, owners.tensor[sums.alike_other]),
    )
    added = (through(before, own) for before in (sums.added_to, sums.scattered_with))
    return np.concatenate([own, *added])


def _ops(sources: Sources, row: int) -> list[tuple[int, float]]:
    """The ops of a row that are summed, and how often each is."""
    partials = sources.listing.of(PARTIAL_SUMS)
    order, start = sources.once("partial_sums", lambda: _by_row(partials))
    some = order[start[row] : start[row + 1]]
    return list(zip(partials.ops[some].tolist(), partials.trips[some].tolist(), strict=True))


def _by_row(partials: Partials) -> tuple[Ints, Ints]:
    """The places of ops that are summed, row by row, and where each row begins."""
    summed = np.flatnonzero(partials.trips)
    order = summed[np.argsort(partials.row[summed], kind="stable")]
    return order, np.searchsorted(partials.row[order], np.arange(len(partials.rows) + 1))


def _fused(sources: Sources, row: int, _place: int) -> Runs:
    """The ops whose results would have been fused."""
    return Runs.listed([((op,), runs) for op, runs in _ops(sources, row)])


def _sent(sources: Sources, row: int, place: int) -> list[Sent]:
    """A result of each op of a row."""
    return [(sources.results(op)[place], (op,), runs) for op, runs in _ops(sources, row)]


def items_of(sums: PartialSums, row: int) -> Ints:
    """The items that a row sums over."""
    return sums.item[int(sums.item_start[row]) : int(sums.item_start[row + 1])]


def _bound(bounds: Bounds) -> None:
    """Sums whose items are of one unit; nothing for those that may be added to others before."""
    sums = bounds.tables.partial_sums
    for row in range(len(sums.weight)):
        for k in range(int(sums.result_start[row]), int(sums.result_start[row + 1])):
            source, target = int(sums.computed[k]), int(sums.defined[k])
            reduced = bounds.axes(items_of(sums, row), bounds.unit_of_tensor(source))
            if reduced is None:
                continue
            seconds = bounds.reshard(source, target, reduced, row=row)
            if sums.alike_start[row] < sums.alike_start[row + 1]:
                # what other units keep alike may move them behind the loop
                seconds *= min(1.0, float(sums.loop_share[row])) / sums.loop_trips[row]
            if max(sums.added_to[row], sums.scattered_with[row]) >= 0:
                seconds[reduced > 0] = 0.0
            unfused = _pass_over(bounds, target, float(sums.passes[row]))
            if sums.loop_trips[row] <= 1.0:
                seconds += (reduced > 0)[:, None] * unfused[None, :]
            bounds.add_move(source, target, sums.weight[row] * seconds)


def _pass_over(bounds: Bounds, tensor: int, passes: float) -> Floats:
    """Seconds of a pass over a sum by strategy of its unit, at least."""
    chip, size = bounds.tables.chip, bounds.local(tensor)
    if passes == 0.0:
        return np.zeros_like(size)
    moved = size * np.array([bounds.streamed(one) for one in size]) / chip.bandwidth
    width = max(float(bounds.tables.tensors.itemsize[tensor]), 1.0)
    return passes * np.maximum(moved, size / width * chip.each_element) + chip.overhead


PARTIAL_SUMS = Term(
    name="partial_sums",
    kernel="reshard.price_partial_sums",
    list_rows=partial_sum_rows,
    columns=partial_sum_columns,
    rows=lambda sums: len(sums.weight),
    dependencies=partial_sum_dependencies,
    scratch=partial_sum_scratch,
    entries=lambda sums: 6 * len(sums.computed),
    fused={Entry.UNFUSED: _fused},
    sent={Entry.PARTIAL: _sent},
    bound=_bound,
)
