"""Which values reach memory once the compiler has fused, and which op reads them.

A value is *fused* when all its users compute it inside themselves: it costs neither memory nor
traffic. Every op that writes a value is the *root* of a fusion and reads each value that its fused
producers need once. With several users a value is computed again in each of them where that moves
fewer bytes than storing it. What a contraction computes is stored once, at the narrowest place of
the chain of elementwise ops behind it. Elementwise roots of one shape that feed each other become
one fusion with several results, as optimizer updates do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.compilers.profile import CompilerProfile
from toast.costmodel.compilers.rules import (
    Bf16NarrowingRules,
    FusionRules,
    MultiOutputFusionRules,
)
from toast.costmodel.passes.algebraic_simplifier import cut_products, cut_sides, cutting
from toast.costmodel.passes.bf16_narrowing import LoopReads, Rounded, widened_errors
from toast.costmodel.passes.fusion_chains import (
    NEVER,
    keep_updates,
    narrow_values,
    run_early,
    store_chains,
)
from toast.costmodel.passes.fusion_kernel import Bools, FusionGraph, Needs, fuse_values
from toast.costmodel.passes.multi_output_fusion import Merged, Merging, Roots, merge
from toast.costmodel.passes.output_fusion import elementwise, join_products, made_by_products
from toast.costmodel.passes.reduction_fusion import merge_reductions
from toast.costmodel.passes.repeated_operands import (
    JOIN,
    joined_parts,
    repeated_operands,
    split_operands,
)
from toast.costmodel.passes.scatter_expander import SCATTER, expand_scatters
from toast.costmodel.program.contractions import BATCH, Sides, product_sides
from toast.costmodel.program.dataflow import Flow, flow_of, named
from toast.costmodel.program.launches import LaunchedFusions
from toast.costmodel.program.lookups import looked_up
from toast.costmodel.program.op_traits import CHEAP, ERRORS, EXPENSIVE, LAYOUT, Role

PADS = frozenset({"stablehlo.pad"})
SELECT = frozenset({"stablehlo.select"})
SLICES = frozenset({"stablehlo.slice"})
WINDOWS = frozenset({"stablehlo.convolution", "stablehlo.reduce_window"})
SCATTERS = frozenset({SCATTER})
REDUCES = frozenset({"stablehlo.reduce"})
TILED_DIMENSIONS = 2
"""So many last dimensions lie in tiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """`written[v]` tells whether value v reaches memory; `roots` are in program order.

    `light[v]` tells of a fused value whether no arithmetic made it; of a stored one `narrow[v]`
    whether its 32 bits are stored as 16, and `wide[v]` whether its 16 are as 32. `rounded` are
    arguments kept narrow besides, while loops run.

    `inside[use]` tells whether the op of a use computes the value inside itself: where it is not
    written, or written for lookups in it alone.

    `flow` is the program as kernels read it, `launched` are its fusions; `position[op]` is when an
    op's fusion runs: its index in the schedule. `bytes` are those of every value, `sides` of
    every matrix product as it is made; `cut` are those of which only a slice is, with the slice,
    and `whole` their sides otherwise.
    """

    profile: CompilerProfile
    flow: Flow
    sides: dict[int, Sides]
    cut: dict[int, int]
    whole: dict[int, Sides]
    bytes: Floats
    written: Bools
    inside: Bools
    light: Bools
    narrow: Bools
    wide: Bools
    rounded: Rounded
    roots: LaunchedFusions
    launched: LaunchedFusions
    position: Ints


def fuse(program: Program, profile: CompilerProfile) -> Fusion:
    """Fuse as XLA's instruction and multi-output fusion do, by roles, users and bytes."""
    flow = flow_of(program)
    if profile.scatter_expander.expands:
        flow = expand_scatters(program, flow)
    if profile.fusion.stores_looked_up:
        flow = flow._replace(role=np.where(looked_up(program), int(Role.OPAQUE), flow.role))
    if profile.fusion.stores_strided:
        flow = flow._replace(role=np.where(moved_in_tiles(program), int(Role.OPAQUE), flow.role))
    sides = product_sides(program)
    cut = cut_products(program, flow, sides, profile.algebraic_simplifier)
    stored = _stored_operands(program, profile.fusion, sides)
    needs = _needs(program, flow, profile.fusion, cutting(program, cut), stored)
    roots = _roots(needs)
    launched = merge_roots(flow, roots, profile.multi_output_fusion)
    if profile.fusion.fuses_into_update:
        launched = join_products(program, flow, roots, launched)
    launched = merge_reductions(program, flow, launched, needs.once, profile.reduction_fusion)
    parts = joined_parts(program, stored)
    narrow, rounded = _narrow(program, flow, profile.bf16_narrowing, needs.written, parts)
    wide = np.zeros_like(narrow)
    if profile.bf16_narrowing.widens_errors:
        wide = widened_errors(program, flow, needs.written)
    return Fusion(
        profile=profile,
        flow=flow,
        sides=cut_sides(program, sides, cut),
        cut=cut,
        whole={op: sides[op] for op in cut},
        bytes=flow.bytes,
        written=needs.written,
        inside=_inside(program, flow, needs),
        light=program.constant | (~needs.written & needs.light[program.value_op]),
        narrow=narrow,
        wide=wide,
        rounded=rounded,
        roots=roots,
        launched=launched,
        position=_schedule(program, flow, roots),
    )


@lru_cache(maxsize=1 << 12)
def batch_dims(sides: Sides) -> int:
    """How many dimensions of a product are of a batch; -1 for what is no product of matrices."""
    return sum(side == BATCH and size > 1 for side, size in sides) if sides else -1


def chain_ends(program: Program, flow: Flow, rules: FusionRules, cutting: Bools) -> Bools:
    """For each value whether it is where the chain behind a contraction is stored.

    A slice that is all that is made of a contraction (`cutting`) is stored in its place.

    What a reduction and something else reads is written by the reduction, as it reads it; on a
    GPU only where two others read it too. A TPU stores nothing where one reduction is all that
    reads it. Otherwise a GPU stores what the contraction itself made, a TPU the last of the
    narrowest.
    """
    if not rules.fuses:
        return np.ones(program.values, dtype=np.bool_)
    taken, stored = (np.zeros(len(flow.maker), dtype=np.bool_) for _ in range(2))
    fewest = rules.reduced_readers if rules.stores_reduced else NEVER
    reduces = named(program, REDUCES) & rules.fuses_into_reduction
    store_chains(flow, fewest, rules.stores_narrowest, reduces, cutting, taken, stored)
    return stored


def _needs(
    program: Program, flow: Flow, rules: FusionRules, cutting: Bools, repeated: Bools
) -> Needs:
    """Which values are written, and what computing the others needs."""
    graph = FusionGraph(
        flow=flow,
        costly=named(program, EXPENSIVE),
        cheap=named(program, CHEAP | LAYOUT),
        matrix=named(program, frozenset({"stablehlo.dot_general"})),
        reads_stored=_read_stored(program, flow, rules),
        repeated=repeated,
        lookup=looked_up(program) & rules.stores_looked_up,
        once=named(program, ERRORS) & rules.stores_narrow_erf,
        single=_single(program),
        stored=chain_ends(program, flow, rules, cutting),
        fuses_into_dot=rules.fuses_into_dot,
        repeats_costly=rules.repeats_costly,
    )
    room = 4 * len(program.use_value) + program.ops
    while not fuse_values(graph, found := new_needs(program, room)):
        room *= 2
    return found


def _stored_operands(program: Program, rules: FusionRules, sides: dict[int, Sides]) -> Bools:
    """For each use whether a product reads what is stored for it."""
    found = repeated_operands(program, sides) & rules.stores_repeated
    return found | (split_operands(program, sides, slicing_shared(program)) & rules.stores_sliced)


def _read_stored(program: Program, flow: Flow, rules: FusionRules) -> Bools:
    """For each use whether its op reads it as it is stored."""
    every = (flow.role == Role.UPDATE) & named(program, SCATTERS) & rules.stores_looked_up
    first = named(program, PADS) & rules.stores_padded
    first |= (program.op_strided > 0) & rules.stores_strided
    first |= slicing_shared(program) & rules.stores_sliced
    found = every[program.use_op]
    found[program.op_uses[:-1][first]] = True
    return found


def slicing_shared(program: Program) -> Bools:
    """For each op whether it is a slice of what other ops read too."""
    found = named(program, SLICES)
    readers = np.bincount(program.use_value, minlength=program.values)
    some = np.flatnonzero(found)
    found[some] = readers[program.use_value[program.op_uses[some]]] > 1
    return found


def moved_in_tiles(program: Program) -> Bools:
    """For each op whether it is a pad between elements, or a slice that strides over tiles.

    Not a pad that windows alone read: these slide over what is padded between.
    """
    inside = (program.op_strided > 0) & (program.op_strided <= TILED_DIMENSIONS)
    found = inside | (named(program, PADS) & (program.op_strided > 0))
    others = np.zeros(program.values, dtype=np.bool_)
    others[program.use_value[~named(program, WINDOWS)[program.use_op]]] = True
    pads = np.flatnonzero(found & named(program, PADS))
    found[pads] = others[program.op_values[pads]]
    return found


def _inside(program: Program, flow: Flow, needs: Needs) -> Bools:
    """For each use whether its op computes the value inside itself."""
    tables = flow.uses[:-1][looked_up(program)]
    again = needs.for_lookups[program.use_value]
    again[tables] = False
    return again | ~needs.written[program.use_value]


def _single(program: Program) -> Bools:
    """For each value whether it is of single precision."""
    wide = np.array([dtype == "f32" for dtype in program.dtypes], dtype=np.bool_)
    return wide[program.value_type]


def _narrow(
    program: Program, flow: Flow, rules: Bf16NarrowingRules, written: Bools, parts: Bools
) -> tuple[Bools, Rounded]:
    """What only products and the reductions beside it read, a TPU rounds as it stores it.

    Its matrix unit would round it otherwise. So it does with stacks for products, and besides with
    those that are arguments. So too with `parts` that only a product joins.
    """
    narrow, readers = np.zeros_like(written), np.zeros(program.values, dtype=np.int64)
    if not (rules.narrows_stored or rules.narrows_stacks or rules.rounds_arguments):
        return narrow, {}
    single = _single(program)
    moving = flow.layout | named(program, PADS | SELECT)
    rounding = np.isin(flow.role, (Role.FUSIBLE, Role.CONTRACTION)) | looked_up(program)
    narrow_values(flow, moving, rounding, written, single, readers, narrow)
    if parts.any():
        joined, joins = np.zeros_like(narrow), moving | named(program, frozenset({JOIN}))
        narrow_values(flow, joins, rounding, written, single, np.zeros_like(readers), joined)
        narrow |= joined & parts
    narrow &= rules.narrows_stored
    reads = LoopReads(program, flow, moving, single, readers)
    if rules.narrows_stacks:
        narrow |= reads.narrow_stacks()
        narrow |= reads.narrow_inputs(written & rounding[program.value_op])
    rounded = reads.rounded_arguments() if rules.rounds_arguments else {}
    return narrow, rounded


def new_needs(program: Program, room: int) -> Needs:
    """Room for what `fuse_values` finds."""
    ops, uses, values = program.ops, len(program.use_value), program.values

    def flags(count: int) -> Bools:
        return np.zeros(count, dtype=np.bool_)

    def numbers(count: int) -> Ints:
        return np.zeros(count, dtype=np.int64)

    return Needs(
        written=flags(values),
        for_lookups=flags(values),
        root=flags(ops),
        use_start=numbers(ops),
        use_end=numbers(ops),
        use=numbers(room),
        dot_start=numbers(ops),
        dot_end=numbers(ops),
        dot=numbers(room),
        expensive=flags(ops),
        once=flags(ops),
        light=flags(ops),
        cheap=flags(ops),
        use_stamp=numbers(uses),
        value_stamp=numbers(values),
        dot_stamp=numbers(ops),
    )


def _roots(needs: Needs) -> LaunchedFusions:
    """The ops that write, with what they read."""
    ops = np.flatnonzero(needs.root)
    return LaunchedFusions.of(
        (ops, np.arange(len(ops)), np.arange(1, len(ops) + 1)),
        (needs.use, needs.use_start[ops], needs.use_end[ops]),
        (needs.dot, needs.dot_start[ops], needs.dot_end[ops]),
    )


def merge_roots(
    flow: Flow, roots: LaunchedFusions, rules: MultiOutputFusionRules
) -> LaunchedFusions:
    """Join each elementwise root with those that it reads, where nothing outside lies between."""
    count, ops, values = len(roots), len(flow.role), len(flow.maker)

    def numbers(size: int) -> Ints:
        return np.full(size, -1)

    number = numbers(ops)
    number[roots.ops] = np.arange(count)
    given = Roots(
        op=roots.ops,
        read_start=roots.read_start,
        reads=roots.reads,
        dot_start=roots.dot_start,
        dots=roots.dots,
        loop=(flow.role[roots.ops] == Role.FUSIBLE)
        & (np.diff(roots.dot_start) == 0)
        & rules.merges,
        number=number,
    )
    work = Merging(
        group=numbers(count),
        after=numbers(count),
        head=numbers(count),
        tail=numbers(count),
        inside=numbers(ops),
        seen=numbers(ops),
        stack=numbers(ops),
        read=numbers(values),
        reader=np.full(values, -1),
    )
    sizes = (count, len(roots.reads), len(roots.dots))
    room = (np.zeros(size, dtype=np.int64) for most in sizes for size in (count + 1, most))
    out = Merged(*room)
    kept = merge(flow, given, work, out, rules.merges_readers)
    return LaunchedFusions(
        op_start=out.op_start[: kept + 1],
        ops=out.ops,
        read_start=out.read_start[: kept + 1],
        reads=out.reads[: out.read_start[kept]],
        dot_start=out.dot_start[: kept + 1],
        dots=out.dots[: out.dot_start[kept]],
    )


def _schedule(program: Program, flow: Flow, roots: LaunchedFusions) -> Ints:
    """When each op runs: in program order, but results of `main` as soon as their inputs exist.

    So does what leads to results alone, with nothing but elementwise ops and reductions between.
    That is how a compiler schedules optimizers, to free the gradients.
    """
    returned, updates = (np.full(program.values, start) for start in (False, True))
    returned[program.use_value[[result.use for result in program.results]]] = True
    keep_updates(flow, updates, np.zeros(program.values, dtype=np.bool_))
    position = np.arange(program.ops, dtype=np.int64)
    reads, products = (roots.read_start, roots.reads), (roots.dot_start, roots.dots)
    run_early(flow, roots.ops, *reads, *products, returned | updates, position)
    return position


def fused_into_update(program: Program, fusion: Fusion) -> set[int]:
    """Stored products whose only reader is one elementwise fusion: computed inside it.

    That has no product of its own, but may have been joined with this one. They are stored all the
    same where their partial sums are added up over devices, and where a reduction reads them, even
    one that runs beside the product.
    """
    if not fusion.profile.fusion.fuses_into_update:
        return set()
    launched, roots, source = fusion.launched, fusion.roots, program.use_value
    readers = np.bincount(source[launched.reads], minlength=program.values)
    made = made_by_products(program, roots)
    reduces = (fusion.flow.role[roots.ops] == Role.REDUCE)[roots.rows(roots.read_start)]
    kept = np.zeros(program.values, dtype=np.bool_)
    kept[source[[result.use for result in program.results]]] = True
    kept[source[roots.reads[reduces]]] = True
    alone = elementwise(fusion.flow, launched) & (np.diff(launched.dot_start) == 0)
    inside = alone[launched.rows(launched.read_start)]
    values = source[launched.reads[inside]]
    computed = (readers[values] == 1) & ~kept[values] & made[program.value_op[values]]
    joined = np.zeros(program.ops, dtype=np.bool_)
    joined[roots.ops] = True
    joined[launched.ops] = False
    inner = np.flatnonzero(joined[program.value_op] & fusion.written & ~kept)
    return set(values[computed].tolist()) | set(inner.tolist())
