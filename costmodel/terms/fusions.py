"""Fusions: what is launched, the products inside, and all that these move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toast.analysis.program import BARRIER, CONSTRAINT, LOOP_BEGIN, Floats, Ints, Program
from toast.costmodel.passes.algebraic_simplifier import parts
from toast.costmodel.passes.blocked_images import sums_apart
from toast.costmodel.passes.convolution_chains import TRAINED, Passage, passages
from toast.costmodel.passes.convolution_tiling import (
    NO_WINDOW,
    FilterWindow,
    convolution_sides,
    windows,
)
from toast.costmodel.passes.dynamic_update_slice import UPDATE_SLICE
from toast.costmodel.passes.error_functions import unpacked_values
from toast.costmodel.passes.fourier_transforms import is_made_real, steps_of
from toast.costmodel.passes.fusion import REDUCES, Fusion
from toast.costmodel.passes.fusion_chains import compute_inside
from toast.costmodel.passes.fusion_kernel import read_inside
from toast.costmodel.passes.layout_assignment import copied_values
from toast.costmodel.passes.lone_broadcasts import lone_broadcasts
from toast.costmodel.passes.output_fusion import updates_inside
from toast.costmodel.passes.row_layouts import RowLayouts
from toast.costmodel.passes.scatter_expander import INDICES, POOLING, launches_each
from toast.costmodel.passes.scatter_fusion import NOT_ADDED, sum_tensors
from toast.costmodel.passes.space_to_batch import given_images
from toast.costmodel.passes.transposed_parts import parted_values
from toast.costmodel.program.arrays import flags, flat, floats, ints, spans, starts
from toast.costmodel.program.buffers import loop_copies
from toast.costmodel.program.contractions import AS_GIVEN, AS_STORED, ROUNDED, WIDE, Sides
from toast.costmodel.program.dataflow import Bools, named
from toast.costmodel.program.distinct import distinct, distinct_rows
from toast.costmodel.program.launches import LaunchedFusion, LaunchedFusions
from toast.costmodel.program.lookups import NO_ROWS, ROWS
from toast.costmodel.program.op_traits import Role, is_priced_elsewhere
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.dependents import OwningUnits, Pairs, paired, rows_of
from toast.costmodel.terms.journal import Entry
from toast.costmodel.terms.reshards import Edges, Widths, reduced
from toast.costmodel.terms.rows import CUTTING, SLICING, UPDATING, WeightedRows, of_role
from toast.costmodel.terms.sources import Runs, Sources
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.bounds import Bounds, Sum
    from toast.costmodel.terms.listing import Listing

Operand = tuple[int, int, float, float, bool]


class Dot(NamedTuple):
    """A contraction: its unit, the tensor made, its seconds, (side, size) of each factor.

    Where a slice is all that is read of it these are of that `part`, and `whole` are the factors
    otherwise: a state decides which of the two a device makes (`made_whole`).
    `window` and `passage` are a convolution's, on a TPU. `operands` are (tensor stored, tensor
    read, bytes in memory relative to the operand's own of what it is computed of, and of the
    operand where it is brought there from another layout, if arithmetic makes it inside).
    """

    unit: int
    made: int
    seconds: float
    sides: Sides
    part: float
    whole: Sides
    operands: tuple[Operand, ...]
    window: FilterWindow
    passage: Passage


Placed = tuple[int, float]
"""A tensor of indices, and the launches for each of its elements."""
Parted = tuple[int, int]
"""A tensor whose parts are copied, and how often the tiles of the copy could hold them."""
Transformed = tuple[int, int]
"""A tensor of a Fourier transform, and the steps that it takes."""


class Moved(NamedTuple):
    """A tensor that is read or written, and the one that it is a part of in memory, or itself.

    It may be made inside a sum of rows, `within`, or -1. It `lies` there as it is stored, but an
    f32 may be `ROUNDED` to 16 bits as it is written, and an image may be an argument of the program
    (`AS_GIVEN`). All that a loop cuts slices of, or updates, takes `beside` times the bytes of the
    whole.
    """

    tensor: int
    whole: int
    within: int = NOT_ADDED
    lies: int = AS_STORED
    beside: float = 1.0


class LaunchedRow(NamedTuple):
    """What a fusion writes, what it reads, and its contractions.

    `reduced` are, of its reductions, the tensors that each may read, its own first; `copied` those
    that are copied to another memory layout or buffer, or back. `placed` are the indices by which a
    loop places windows, `transformed` what Fourier transforms take or make. `by_row` says how all
    that it moves lies (see `lookups`); `turned` are copied into rows or out of them; of `unpacked`
    the comparisons of error functions are unpacked; of images that are `summed` each pass reads one
    again, if it lies in blocks; `rounded` arguments are so before a loop; of `parted` tensors the
    parts are copied. `updating`: it is an update that a product runs inside; `pooling`: it pools
    windows; `repeating`: it is a broadcast by itself.
    """

    written: tuple[Moved, ...] = ()
    read: tuple[Moved, ...] = ()
    dots: tuple[Dot, ...] = ()
    reduced: tuple[tuple[int, ...], ...] = ()
    copied: tuple[int, ...] = ()
    placed: tuple[Placed, ...] = ()
    transformed: tuple[Transformed, ...] = ()
    turned: tuple[int, ...] = ()
    unpacked: tuple[int, ...] = ()
    summed: tuple[int, ...] = ()
    rounded: tuple[int, ...] = ()
    parted: tuple[Parted, ...] = ()
    by_row: int = NO_ROWS
    updating: bool = False
    pooling: bool = False
    repeating: bool = False


class Fusions(NamedTuple):
    """The rows as columns; `X_start` has one entry more than there are X.

    By fusion: `weight`, the tensors that it writes (the first `writes`) and reads, each a part of
    `whole` in memory, or made `within` a sum of rows (-1: of none), how it `lies` there and what is
    `beside` it (see `Moved`); `copied` tensors; those that `placed` windows with `placed_launches`
    for each element; tensors that are `transformed` in so many `transform_steps`; how all that it
    moves lies (`by_row`), `turned` tensors, `unpacked`, `summed` and `rounded` ones; `parted`
    ones with how often the tiles of a copy could hold them (`parted_times`); whether it is an
    update that a product runs inside (`updating`), pools (`pooling`), or is a broadcast by itself
    (`repeating`); its contractions, from `dot_start` on; its reductions, from `reduced_start` on,
    and of each the tensors that it may read: as it does alone, and as others want what it reads.
    By contraction: `dot_unit`, the tensor that it makes (`dot_sums`), its seconds on one device and
    the part of it that these are of (`dot_part`), its `window` and `passage` (a TPU's
    convolutions), the sides of its factors from `side_start` on, their sizes, and those of the
    whole; of its operands [contractions, 2] the tensors stored and read,
    the widths of elements as they are stored and as they are brought from another layout, and
    whether arithmetic inside the fusion makes them.
    """

    weight: Floats
    writes: Ints
    tensor_start: Ints
    tensor: Ints
    whole: Ints
    within: Ints
    lies: Ints
    beside: Floats
    dot_start: Ints
    dot_unit: Ints
    dot_sums: Ints
    dot_seconds: Floats
    dot_part: Floats
    dot_operand: Ints
    dot_width: Floats
    dot_computed: Ints
    dot_window: Ints
    dot_passage: Ints
    side_start: Ints
    side_of: Ints
    side_size: Ints
    side_whole: Ints
    reduced_start: Ints
    reduced_tensor_start: Ints
    reduced_tensor: Ints
    copied_start: Ints
    copied: Ints
    placed_start: Ints
    placed: Ints
    placed_launches: Floats
    transformed_start: Ints
    transformed: Ints
    transform_steps: Floats
    turned_start: Ints
    turned: Ints
    unpacked_start: Ints
    unpacked: Ints
    summed_start: Ints
    summed: Ints
    rounded_start: Ints
    rounded: Ints
    parted_start: Ints
    parted: Ints
    parted_times: Floats
    by_row: Ints
    updating: Ints
    pooling: Ints
    repeating: Ints


class FusionScratch(NamedTuple):
    """`stale` rows are to be priced again; `seconds` of each."""

    stale: Bools
    seconds: Floats


def fusion_rows(listing: Listing) -> WeightedRows[LaunchedRow]:
    """All that is launched; the sources are the numbers of fusions.

    The row of one is made of those that do the same to the same tensors, as those of layers do.
    """
    program, layouts, fusion = listing.program, listing.layouts, listing.fusion
    launched = fusion.launched
    again = _again(program, launched, listing.first_op)
    kept = np.flatnonzero(~reduced(np.logical_and, again[launched.ops], launched.op_start))
    working = fusion.flow.role[launched.first_op] != Role.NOTHING
    working &= ~_passing_on(program, launched)
    if not fusion.profile.fusion.launches_scalars:
        working &= ~_on_scalars(program, launched)
    maker = RowMaker(
        program,
        layouts,
        fusion,
        listing.seconds,
        listing.wanted,
        listing.widths,
        copied_values(program, fusion, listing.other_layouts),
        listing.row_layouts,
        listing.within,
        unpacked_values(program, fusion),
        sums_apart(program, fusion),
        parted_values(program, fusion),
        again,
        listing.device.tile[1],
    )
    leaving, entering = loop_copies(program), _rounded(fusion)
    known: dict[LaunchedRow, int] = {}
    apart = np.isin(launched.first_op, [*leaving, *entering]) & ~working
    identity = (*maker.identity(), np.where(apart, np.arange(len(apart)), working - 2))
    number, first = distinct_rows(*(column[kept] for column in identity))
    made: list[list[int]] = []
    for n in kept[first].tolist():
        if working[n]:
            rows = [maker.row(n), *maker.before(n)]
        else:
            op = int(launched.first_op[n])
            copied, rounded = (_tensors(layouts, of.get(op, ())) for of in (leaving, entering))
            rows = [LaunchedRow(copied=(tensor,)) for tensor in copied]
            rows += [LaunchedRow(rounded=(tensor,)) for tensor in rounded]
        made.append([known.setdefault(row, len(known)) for row in rows])
    counts = ints([len(rows) for rows in made])
    starts = np.concatenate([[0], np.cumsum(counts)])
    row = flat(made)[spans(starts[number], counts[number])]
    source = np.repeat(kept, counts[number])
    weights = program.op_trips[launched.first_op][source]
    return WeightedRows.of(list(known), row, weights, source)


def _rounded(fusion: Fusion) -> dict[int, list[int]]:
    """For loops, by the ops at which they begin, the arguments that are rounded before them."""
    found: dict[int, list[int]] = {}
    for value, (begin, _) in fusion.rounded.items():
        found.setdefault(begin, []).append(value)
    return found


def _passing_on(program: Program, launched: LaunchedFusions) -> Bools:
    """Launches that are a barrier, or one constraint on a value in memory.

    Compilers leave nothing of these.
    """
    first = launched.first_op
    single = (np.diff(launched.op_start) == 1) & (np.diff(launched.read_start) == 1)
    constraint = named(program, frozenset({CONSTRAINT}))[first]
    found = single & constraint
    at = launched.read_start[:-1][found]
    found[found] = launched.reads[at] == program.op_uses[first[found]]
    found |= named(program, frozenset({BARRIER}))[first]
    return found


def _on_scalars(program: Program, launched: LaunchedFusions) -> Bools:
    """Fusions that read and make nothing but scalars, as the counters of loops."""
    arrays = program.of_shapes(len, np.int64) > 0
    found = np.ones(len(launched), dtype=np.bool_)
    found[launched.rows(launched.read_start)[arrays[program.use_value[launched.reads]]]] = False
    makes = np.zeros(program.ops, dtype=np.bool_)
    makes[program.value_op[arrays]] = True
    found[launched.rows(launched.op_start)[makes[launched.ops]]] = False
    return found


def _again(program: Program, launched: LaunchedFusions, equal: Ints) -> Bools:
    """For each op whether it writes what another has written before."""
    writes = flags(program.ops, launched.ops.tolist())
    found: Bools = writes & (equal != np.arange(program.ops)) & writes[equal]
    return found


def _tensors(layouts: Layouts, values: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(int(layouts.value_tensor[value]) for value in values))


@dataclass(frozen=True)
class RowMaker:
    """Makes the rows of fusions, and tells before that which are sure to be equal."""

    program: Program
    layouts: Layouts
    fusion: Fusion
    seconds: dict[int, float]
    wanted: Edges
    widths: Widths
    copied_values: dict[int, list[int]]
    in_rows: RowLayouts
    within: Ints
    unpacked: dict[int, list[int]]
    summed: dict[int, list[int]]
    parted: dict[int, list[tuple[int, int]]]
    again: Bools
    tile: int

    @cached_property
    def _narrow(self) -> Bools:
        """For each use if what it wants travels in 16 bits."""
        found = np.zeros(len(self.program.use_value), dtype=np.bool_)
        found[self.wanted.uses] = np.repeat(self.widths.narrow, np.diff(self.wanted.use_start))
        return found

    @cached_property
    def _updating(self) -> Bools:
        """For each fusion if it is an update that a product runs inside."""
        return updates_inside(self.program, self.fusion.launched)

    @cached_property
    def _repeating(self) -> Bools:
        """For each fusion if it is a broadcast by itself."""
        return lone_broadcasts(self.program, self.fusion)

    @cached_property
    def _read(self) -> Floats:
        return _bytes_read(self.program, self.fusion)

    @cached_property
    def _computed(self) -> Bools:
        """For each value if arithmetic inside what reads it makes it."""
        flow, found = self.fusion.flow, np.zeros(self.program.values, dtype=np.bool_)
        passing = flow.layout | named(self.program, CUTTING)
        compute_inside(flow, self.fusion.written, passing, found)
        return found

    @cached_property
    def _parts(self) -> dict[int, float]:
        """Of each product of which only a slice is read how much that is."""
        return parts(self.program, self.fusion.cut)

    @cached_property
    def _convolved(self) -> dict[int, Sides]:
        return convolution_sides(self.program, self.fusion.profile.convolution_tiling)

    @cached_property
    def _windows(self) -> dict[int, FilterWindow]:
        return windows(self.program, self.fusion.profile.convolution_tiling)

    @cached_property
    def _passages(self) -> dict[int, Passage]:
        return passages(self.program)

    @cached_property
    def _given(self) -> set[int]:
        """Arguments of the program that are images."""
        return set(given_images(self.program))

    @cached_property
    def _passing(self) -> Ints:
        """For each op a number by the passage of what it convolves."""
        found = np.full(self.program.ops, -1)
        for op, one in self._passages.items():
            found[op] = 8 * one.given + 4 * one.enters + 2 * one.leaves + one.handed
        return found

    def identity(self) -> list[Ints]:
        """Of each fusion numbers that together are equal only where its row is."""
        launched = self.fusion.launched
        return [
            distinct(launched.op_start, self._op_number[launched.ops])[0],
            distinct(launched.read_start, self._of_uses()[launched.reads])[0],
            distinct(launched.dot_start, self._of_operands()[launched.dots])[0],
            self._sets(self.copied_values),
            self.in_rows.moving,
            self._sets(self.in_rows.turned),
            self._sets(self.in_rows.tables),
            self._sets(self.unpacked),
            self._sets(self.summed),
            self._parted(),
            self._added(),
            self._updating.astype(np.int64),
            self._repeating.astype(np.int64),
        ]

    def _added(self) -> Ints:
        """For each fusion the tensor that is copied into rows to be added up, or -1."""
        found = np.full(len(self.fusion.launched), -1)
        for number, use in self.in_rows.added.items():
            found[number] = self.layouts.use_tensor[use]
        return found

    def _parted(self) -> Ints:
        """A number for each fusion by the tensors whose parts it copies."""
        found = np.full(len(self.fusion.launched), -1)
        known: dict[tuple[Parted, ...], int] = {}
        for number in self.parted:
            found[number] = known.setdefault(self._copied_parts(number), len(known))
        return found

    def _copied_parts(self, number: int) -> tuple[Parted, ...]:
        tensor, some = self.layouts.value_tensor, self.parted.get(number, ())
        return tuple(sorted((int(tensor[value]), times) for value, times in some))

    def _sets(self, values: dict[int, list[int]]) -> Ints:
        """A number for each fusion by the tensors of some values that are kept by its number."""
        found = np.full(len(self.fusion.launched), -1)
        known: dict[tuple[int, ...], int] = {}
        for number, some in values.items():
            tensors = _tensors(self.layouts, some)
            found[number] = known.setdefault(tensors, len(known))
        return found

    @cached_property
    def _op_number(self) -> Ints:
        """A number for each op by what it does to what tensors, and which results are written."""
        program, layouts = self.program, self.layouts
        of_use, _ = distinct_rows(
            layouts.use_tensor,
            program.constant[program.use_value],
            self._of_targets(),
            self._sums[program.use_value],
            flags(program.values, self._given)[program.use_value],
        )
        of_value, _ = distinct_rows(
            layouts.value_tensor,
            layouts.result_tensor,
            self.fusion.written,
            self._sums,
            self.fusion.narrow,
        )
        number, _ = distinct_rows(
            program.op_signature,
            layouts.op_unit,
            distinct(program.op_uses, of_use)[0],
            distinct(program.op_values, of_value)[0],
            self.again,
        )
        return number

    def _of_targets(self) -> Ints:
        """A number for each use by all tensors that its value is wanted as."""
        wanted, found = self.wanted, np.full(self.program.values, -1)
        order = np.lexsort((wanted.tensor, wanted.row))
        found[wanted.valued], _ = distinct(wanted.start, wanted.tensor[order])
        return found[self.program.use_value]

    def _of_uses(self) -> Ints:
        """A number for each use by what its op reads through it."""
        program = self.program
        place = np.arange(len(program.use_value)) - program.op_uses[program.use_op]
        number, _ = distinct_rows(self._op_number[program.use_op], place)
        return number

    def _of_operands(self) -> Ints:
        """A number for each contraction by how its operands come."""
        program, value = self.program, self.program.use_value
        of_use, _ = distinct_rows(
            self.layouts.value_tensor[value],
            self._read[value].view(np.int64),
            self._narrow,
            self._computed[value],
        )
        uses, _ = distinct(program.op_uses, of_use)
        number, _ = distinct_rows(self._op_number, uses, self._passing)
        return number

    def row(self, number: int) -> LaunchedRow:
        """The row of a fusion."""
        program, layouts, fusion = self.program, self.layouts, self.fusion
        one = fusion.launched[number]
        dots = tuple(
            Dot(
                unit=int(layouts.op_unit[op]),
                made=int(layouts.result_tensor[program.values_of(op)[0]]),
                seconds=self.seconds[op],
                sides=(sides := fusion.sides.get(op, ()) or self._convolved.get(op, ())),
                part=self._parts.get(op, 1.0),
                whole=fusion.whole.get(op, sides),
                operands=self._operands(op),
                window=self._windows.get(op, NO_WINDOW),
                passage=self._passages.get(op, TRAINED),
            )
            for op in one.contractions
        )
        return LaunchedRow(
            written=tuple(sorted(self._written(one))),
            read=tuple(sorted(self._read_by(one))),
            dots=dots,
            reduced=self._reduced(one),
            copied=_tensors(layouts, self.copied_values.get(number, ())),
            placed=self._placed(one),
            transformed=self._transformed(one),
            turned=_tensors(layouts, self.in_rows.turned.get(number, ())),
            unpacked=_tensors(layouts, self.unpacked.get(number, ())),
            summed=_tensors(layouts, self.summed.get(number, ())),
            parted=self._copied_parts(number),
            by_row=int(self.in_rows.moving[number]),
            updating=bool(self._updating[number]),
            pooling=any(program.kind(op) == POOLING for op in one.ops),
            repeating=bool(self._repeating[number]),
        )

    def before(self, number: int) -> list[LaunchedRow]:
        """What runs before a fusion by itself: copies into rows, of tables and of what is added."""
        tables = _tensors(self.layouts, self.in_rows.tables.get(number, ()))
        found = [LaunchedRow(turned=tables)] if tables else []
        if number in self.in_rows.added:
            tensor = int(self.layouts.use_tensor[self.in_rows.added[number]])
            found.append(LaunchedRow(turned=(tensor,), by_row=ROWS))
        return found

    def _reduced(self, one: LaunchedFusion) -> tuple[tuple[int, ...], ...]:
        """For each reduction of a fusion the tensors of its operand, as others want it as well."""
        program, layouts, source = self.program, self.layouts, self.program.use_value
        uses = [int(program.op_uses[op]) for op in one.ops if program.kind(op) in REDUCES]
        return tuple(
            (int(layouts.use_tensor[use]), *sorted(self.wanted.get(int(source[use]), ())))
            for use in uses
        )

    def _placed(self, one: LaunchedFusion) -> tuple[Placed, ...]:
        """The indices by which loops place what a fusion finds or adds up."""
        program, rules = self.program, self.fusion.profile.scatter_expander
        each = {op: launches_each(program, op, rules) for op in one.ops}
        return tuple(
            (int(self.layouts.use_tensor[program.uses_of(op)[INDICES]]), launches)
            for op, launches in each.items()
            if launches
        )

    def _transformed(self, one: LaunchedFusion) -> tuple[Transformed, ...]:
        """What a fusion transforms: the larger of what it takes and makes."""
        program, layouts, found = self.program, self.layouts, []
        if not self.fusion.profile.fourier_transforms.products:
            return ()
        for op in one.ops:
            if steps := steps_of(program, op, self.tile):
                made = layouts.result_tensor[program.values_of(op)[0]]
                taken = layouts.use_tensor[program.uses_of(op)[0]]
                found.append((int(made if is_made_real(program, op) else taken), steps))
        return tuple(found)

    def _read_by(self, one: LaunchedFusion) -> list[Moved]:
        """Tensors that a fusion reads; of what is only sliced, the slice that comes out."""
        program, layouts, read = self.program, self.layouts, list[Moved]()
        for use in one.reads:
            op, source = program.user(use), program.sources[use]
            if is_priced_elsewhere(program.kind(op)):
                continue
            kind, tensor = program.kind(op), int(layouts.use_tensor[use])
            sliced = kind in SLICING or kind in UPDATING
            if not (sliced and use == program.op_uses[op]):
                lies = AS_GIVEN if source in self._given else AS_STORED
                read.append(Moved(tensor, tensor, self._sum(source), lies))
            elif kind in SLICING:
                part = int(layouts.result_tensor[program.values_of(op)[0]])
                beside = self._stacks.get(source, 1.0)
                read.append(Moved(part, tensor if kind in CUTTING else part, beside=beside))
        return read

    def _written(self, one: LaunchedFusion) -> list[Moved]:
        """Tensors that a fusion writes; of what is updated in place, the update."""
        program, layouts, found = self.program, self.layouts, list[Moved]()
        for op in one.ops:
            if is_priced_elsewhere(program.kind(op)) or self.again[op]:
                continue
            kind, first = program.kind(op), int(program.op_uses[op])
            if kind in UPDATING and self.fusion.flow.role[op] == Role.UPDATE:
                part, whole = (int(layouts.use_tensor[first + n]) for n in (UPDATING[kind], 0))
                within = self._sum(program.sources[first + UPDATING[kind]])
                whole = whole if kind == UPDATE_SLICE else part
                beside = self._stacks.get(program.sources[first], 1.0)
                found.append(Moved(part, whole, within, beside=beside))
            else:
                for value in program.values_of(op):
                    if self.fusion.written[value]:
                        tensor = int(layouts.value_tensor[value])
                        lies = ROUNDED if self.fusion.narrow[value] else AS_STORED
                        found.append(Moved(tensor, tensor, self._sum(value), lies))
        return found

    @cached_property
    def _stacks(self) -> dict[int, float]:
        """The bytes of all that a loop cuts or updates, over those of each value of it."""
        program, fusion, found = self.program, self.fusion, dict[int, float]()
        cutting = program.ops_named(*CUTTING, UPDATE_SLICE)
        cut = {program.sources[program.op_uses[op]] for op in cutting}
        sizes = fusion.bytes * np.where(fusion.narrow, 0.5, 1.0)
        for op in program.ops_named(LOOP_BEGIN):
            stacks = ints([value for value in program.values_of(op) if value in cut])
            stacks = stacks[sizes[stacks] > 0.0]
            beside = sizes[stacks].sum() / sizes[stacks]
            found |= dict(zip(stacks.tolist(), beside.tolist(), strict=True))
        return found

    def _sum(self, value: int) -> int:
        """The tensor of the sum of rows inside which a value may be made, or -1."""
        return int(self._sums[value])

    @cached_property
    def _sums(self) -> Ints:
        """The same for each value."""
        return sum_tensors(self.layouts, self.within)

    def _operands(self, op: int) -> tuple[Operand, ...]:
        """What a contraction reads, and in what width things travel."""
        program, layouts, found = self.program, self.layouts, []
        for use in program.uses_of(op):
            value, tensor = program.sources[use], int(layouts.use_tensor[use])
            width = float(self._read[value])
            moved = 0.5 if self._narrow[use] else width
            stored = int(layouts.value_tensor[value])
            found.append((stored, tensor, width, moved, bool(self._computed[value])))
        return tuple(found)


def _bytes_read(program: Program, fusion: Fusion) -> Floats:
    """Over the own bytes of each operand, what a product reads for it: all it is computed of."""
    products = of_role(program, Role.CONTRACTION)
    operands = np.unique(program.use_value[products[program.use_op]])
    spent, sizes = np.zeros(len(operands)), np.maximum(fusion.bytes, 1.0)
    read_inside(
        operands,
        program.op_uses,
        program.use_value,
        program.value_op,
        fusion.written | products[program.value_op],
        program.constant,
        fusion.flow.elements,
        sizes * np.where(fusion.narrow, 0.5, 1.0),
        np.full(program.values, -1),
        np.zeros(1 + int(np.diff(program.op_uses)[program.value_op].sum()), dtype=np.int64),
        spent,
    )
    found = np.zeros(program.values)
    found[operands] = spent / sizes[operands]
    return found


def fusion_columns(rows: WeightedRows[LaunchedRow], _listing: Listing) -> Fusions:
    """The rows as columns."""
    dots = [row.dots for row in rows]
    factors = [dot.sides for row in dots for dot in row]
    moved, reductions = [row.written + row.read for row in rows], [row.reduced for row in rows]
    placed, changed = ([getattr(row, name) for row in rows] for name in ("placed", "transformed"))
    return Fusions(
        weight=floats(list(rows.values())),
        writes=ints([len(row.written) for row in rows]),
        tensor_start=starts(moved),
        tensor=flat([[tensor for tensor, *_ in row] for row in moved]),
        whole=flat([[whole for _, whole, *_ in row] for row in moved]),
        within=flat([[within for _, _, within, *_ in row] for row in moved]),
        lies=flat([[lies for *_, lies, _ in row] for row in moved]),
        beside=floats([beside for row in moved for *_, beside in row]),
        dot_start=starts(dots),
        dot_sums=ints([dot.made for row in dots for dot in row]),
        dot_unit=ints([dot.unit for row in dots for dot in row]),
        dot_seconds=floats([dot.seconds for row in dots for dot in row]),
        dot_part=floats([dot.part for row in dots for dot in row]),
        dot_operand=_pairs([dot.operands for row in dots for dot in row]),
        dot_computed=_computed([dot.operands for row in dots for dot in row]),
        dot_window=ints([n for row in dots for dot in row for n in dot.window]).reshape(
            -1, len(NO_WINDOW)
        ),
        dot_passage=ints([n for row in dots for dot in row for n in dot.passage]).reshape(
            -1, len(TRAINED)
        ),
        dot_width=_widths([dot.operands for row in dots for dot in row]),
        reduced_start=starts(reductions),
        reduced_tensor_start=starts([tensors for row in reductions for tensors in row]),
        reduced_tensor=flat([tensors for row in reductions for tensors in row]),
        copied_start=starts([row.copied for row in rows]),
        copied=flat([row.copied for row in rows]),
        placed_start=starts(placed),
        placed=ints([tensor for row in placed for tensor, _ in row]),
        placed_launches=floats([launches for row in placed for _, launches in row]),
        transformed_start=starts(changed),
        transformed=ints([tensor for row in changed for tensor, _ in row]),
        transform_steps=floats([steps for row in changed for _, steps in row]),
        turned_start=starts([row.turned for row in rows]),
        turned=flat([row.turned for row in rows]),
        unpacked_start=starts([row.unpacked for row in rows]),
        unpacked=flat([row.unpacked for row in rows]),
        summed_start=starts([row.summed for row in rows]),
        summed=flat([row.summed for row in rows]),
        rounded_start=starts([row.rounded for row in rows]),
        rounded=flat([row.rounded for row in rows]),
        parted_start=starts([row.parted for row in rows]),
        parted=ints([tensor for row in rows for tensor, _ in row.parted]),
        parted_times=floats([times for row in rows for _, times in row.parted]),
        by_row=ints([row.by_row for row in rows]),
        updating=ints([row.updating for row in rows]),
        pooling=ints([row.pooling for row in rows]),
        repeating=ints([row.repeating for row in rows]),
        side_start=starts(factors),
        side_of=ints([side for sides in factors for side, _ in sides]),
        side_size=ints([size for sides in factors for _, size in sides]),
        side_whole=ints([size for row in dots for dot in row for _, size in dot.whole]),
    )


Operands = Sequence[tuple[Operand, ...]]


def _pairs(dots: Operands) -> Ints:
    """[contractions, operands, (stored, read)] tensors of the first two operands."""
    found = [[[stored, read] for stored, read, *_ in operands[:2]] for operands in dots]
    return np.asarray(found, dtype=np.int64).reshape(-1, 2, 2)


def _computed(dots: Operands) -> Ints:
    """[contractions, operands] if arithmetic inside the fusion makes an operand."""
    found = [[computed for *_, computed in operands[:2]] for operands in dots]
    return np.asarray(found, dtype=np.int64).reshape(-1, 2)


def _widths(dots: Operands) -> Floats:
    """[contractions, operands, (as stored, brought from another layout)] widths of elements."""
    found = [[[width, moved] for _, _, width, moved, _ in operands[:2]] for operands in dots]
    return np.asarray(found, dtype=np.float64).reshape(-1, 2, 2)


def fusion_scratch(fusions: Fusions, stale: Bools) -> FusionScratch:
    """Working arrays for these rows."""
    return FusionScratch(stale=stale, seconds=np.zeros(len(fusions.weight)))


def fusion_dependencies(fusions: Fusions, owners: OwningUnits) -> Pairs:
    """A fusion depends on what it reads, writes and multiplies, and on tables of what it moves."""
    moved, dots = rows_of(fusions.tensor_start), rows_of(fusions.dot_start)
    reductions = rows_of(fusions.reduced_start)[rows_of(fusions.reduced_tensor_start)]
    return paired(
        (moved, owners.tensor[fusions.tensor]),
        (moved, owners.tensor[fusions.whole]),
        (moved, owners.table[fusions.tensor]),
        (moved, owners.tensor[np.where(fusions.within < 0, fusions.tensor, fusions.within)]),
        (reductions, owners.tensor[fusions.reduced_tensor]),
        (rows_of(fusions.copied_start), owners.tensor[fusions.copied]),
        (rows_of(fusions.turned_start), owners.tensor[fusions.turned]),
        (rows_of(fusions.turned_start), owners.table[fusions.turned]),
        (rows_of(fusions.unpacked_start), owners.tensor[fusions.unpacked]),
        (rows_of(fusions.summed_start), owners.tensor[fusions.summed]),
        (rows_of(fusions.rounded_start), owners.tensor[fusions.rounded]),
        (rows_of(fusions.parted_start), owners.tensor[fusions.parted]),
        (rows_of(fusions.placed_start), owners.tensor[fusions.placed]),
        (rows_of(fusions.transformed_start), owners.tensor[fusions.transformed]),
        (dots, fusions.dot_unit),
        (dots, owners.tensor[fusions.dot_sums]),
        (np.repeat(dots, 4), owners.tensor[fusions.dot_operand.ravel()]),
    )


def _fused(sources: Sources, row: int, _place: int) -> Runs:
    """The ops of each fusion of a row, contractions first."""
    rows = sources.once("fusions", lambda: sources.listing.of(FUSIONS).grouped())
    fusions, (numbers, runs) = sources.listing.fusion.launched, rows[row]

    def ops(number: int) -> tuple[int, ...]:
        fusion = fusions[int(numbers[number])]
        return *fusion.contractions, *fusion.ops

    return Runs(first=fusions.heads[numbers], runs=runs, ops=ops)


def _bound(bounds: Bounds) -> None:
    """The roofline of each fusion, without what is read again, reduced or behind a product.

    Or what may be made inside a sum of rows.
    """
    fusions, chip = bounds.tables.fusions, bounds.tables.chip
    for row in range(len(fusions.weight)):
        weight = float(fusions.weight[row])
        dots = int(fusions.dot_start[row + 1] - fusions.dot_start[row])
        bounds.add_constant(weight * (chip.product_overhead if dots else chip.overhead))
        bounds.add_roofline(_roofline(bounds, row), weight)


def _roofline(bounds: Bounds, row: int) -> list[Sum]:
    """Of a fusion the seconds of bytes, of arithmetic and of elements that are handled."""
    fusions, tensors, chip = bounds.tables.fusions, bounds.tables.tensors, bounds.tables.chip
    moved = np.arange(int(fusions.tensor_start[row]), int(fusions.tensor_start[row + 1]))
    writes = int((fusions.within[moved][: int(fusions.writes[row])] < 0).sum())
    moved = moved[fusions.within[moved] < 0]
    dots = range(int(fusions.dot_start[row]), int(fusions.dot_start[row + 1]))
    tensor, whole = fusions.tensor[moved].tolist(), fusions.whole[moved].tolist()
    unit, feeding = bounds.unit_of_tensor, chip.feeding if dots else 1.0

    def handled(x: int, seconds: float) -> tuple[int, Floats]:
        return unit(x), bounds.local(x) * (seconds / max(tensors.itemsize[x], 1))

    read = [
        (unit(x), bounds.local(x) * _streamed(bounds, x, part) * feeding)
        for x, part in zip(tensor, whole, strict=True)
    ]
    arithmetic = [
        (number, fusions.dot_seconds[dot] / bounds.shards(number).prod(axis=1))
        for dot in dots
        for number in [int(fusions.dot_unit[dot])]
    ]
    if not dots:
        counted = tensor[:writes] if fusions.pooling[row] else tensor
        return [read, [handled(x, chip.each_element) for x in counted]]
    narrow = [x for x in tensor[:writes] if tensors.itemsize[x] < WIDE]
    return [read, arithmetic, *([handled(x, chip.each_rounded)] for x in narrow)]


def _streamed(bounds: Bounds, tensor: int, whole: int) -> Floats:
    """Seconds a byte of a part of `whole` under each strategy of its own unit, at least."""
    parts = np.array([bounds.streamed(size) for size in bounds.local(whole)])
    apart = bounds.unit_of_tensor(tensor) != bounds.unit_of_tensor(whole)
    return (parts.min() if apart else parts) / bounds.tables.chip.bandwidth


FUSIONS = Term(
    name="fusions",
    kernel="compute.price_fusions",
    list_rows=fusion_rows,
    columns=fusion_columns,
    rows=lambda fusions: len(fusions.weight),
    dependencies=fusion_dependencies,
    scratch=fusion_scratch,
    entries=lambda fusions: len(fusions.weight),
    fused={Entry.ROOT: _fused},
    bound=_bound,
)
