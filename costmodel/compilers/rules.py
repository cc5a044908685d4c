"""What a compiler's profile holds: one record for each pass, one field for each key.

A pass of `costmodel/passes` reads its own record. Flags tell whether a compiler does something;
`Pass.off` of the same name says which flags leave the pass out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRules:
    """What is computed inside what reads it.

    `fuses`: anything at all. `fuses_into_dot`: products compute what feeds them and what is made of
    them; if not they read and write memory. `fuses_into_update`: a product whose only reader is an
    elementwise fusion is computed inside that, and never stored. `fuses_into_reduction`: so is one
    whose only reader is a reduction, with what is computed of it in between. `repeats_costly`:
    costly elementwise ops are computed again in each of several users, but `stores_narrow_erf`:
    error functions are not, where what several users read has 16 bits. `stores_reduced`: a
    reduction stores what it reads where at least `reduced_readers` ops read it. `stores_narrowest`:
    the chain behind a product is stored where it is narrowest, not as the product makes it.
    `stores_padded`: what is computed and then padded is stored before. `stores_strided`: so is what
    is padded between its elements, and the result, unless windows slide over that; and what a slice
    strides over, and what that takes along the last two dimensions, which lie in tiles.
    `stores_sliced`: so is what a slice and something else reads. `stores_looked_up`: a lookup of
    rows runs by itself, between a stored table and stored rows. What would be computed inside all
    others is stored for the lookup alone.

    `stores_repeated`: so is what a broadcast repeats for a product of several rows and columns.

    `packs_comparisons`: those of an error function between two products of a batch are packed
    beside the first and unpacked before the second.

    `launches_scalars`: what reads and makes nothing but scalars takes the time of a launch.

    `walks_broadcasts`: what repeats an array in memory goes tile by tile: beside its pass it takes
    the time that `element_rate` gives each element.

    `operand_cost` is how much longer it takes to read what feeds a product than to stream it. Over
    the time that `element_rate` of the chip gives an element, `element_cost` is what one takes that
    a fusion without a product reads or writes, `reducing_cost` one that it reads, and reduces or
    writes, where it reduces, or of a product of which it stores only that, and `narrowing_cost` one
    that is rounded inside a product (computed to feed it, or made by it in 16 bits), or that a
    convolution makes.
    """

    fuses: bool
    fuses_into_dot: bool
    fuses_into_update: bool
    fuses_into_reduction: bool
    repeats_costly: bool
    stores_narrow_erf: bool
    stores_reduced: bool
    reduced_readers: int
    stores_narrowest: bool
    stores_padded: bool
    stores_strided: bool
    stores_sliced: bool
    stores_looked_up: bool
    stores_repeated: bool
    packs_comparisons: bool
    launches_scalars: bool
    walks_broadcasts: bool
    operand_cost: float
    element_cost: float
    reducing_cost: float
    narrowing_cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantFoldingRules:
    """Constants of a program, and what is made of them before it runs.

    `stores_constants`: they lie whole on each device. What the compiler makes of them has up to
    `most_elements`.
    """

    stores_constants: bool
    most_elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterExpanderRules:
    """`expands`: a scatter of one element into each row of zeros is computed element by element.

    `keeps_places`: what pools maxima keeps where they were, for their gradient to scatter there.
    `adds_few_in_place`: a scatter of fewer rows than its table has tiles adds them in place, and
    devices keep their sum of such tables beside it. `scatter_launches`: windows that are placed in
    dimensions that they keep are scattered in a loop, with so many launches for each, and gathered
    with `gather_launches`; 0 where there is no loop.
    """

    expands: bool
    keeps_places: bool
    adds_few_in_place: bool
    scatter_launches: float
    gather_launches: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiOutputFusionRules:
    """`merges`: elementwise fusions of one shape that feed each other are one.

    `merges_readers`: so are those that read the same value of that shape.
    """

    merges: bool
    merges_readers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionFusionRules:
    """`merges`: reductions run beside the product, or the reduction, that reads the same.

    So is what widened rows of a product are reduced to where another reduction of these rows is
    needed; with `keeps_wide_rows` also what its rows as they are made are reduced to. With
    `joins_passes` reductions run beside what makes their operand element by element, too.
    """

    merges: bool
    joins_passes: bool
    keeps_wide_rows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgebraicSimplifierRules:
    """`cuts_products`: a product that one slice alone reads is made for the slice.

    `joins_reductions`: reductions of which only a reduction is read are one with that.
    """

    cuts_products: bool
    joins_reductions: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DotStrengthReductionRules:
    """`reduces_rows`: batches of products of one row are made on the vector unit."""

    reduces_rows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DotTilingRules:
    """How a product of two operands that do not stay on the chip is made.

    Block by block, and `rereads_operands`: each is read again for every row or column of blocks. A
    block has `block_elements`, less where others of its size share its room. Fewer rows than
    `least_rows` take the time of so many. A product of what stays on the chip starts after the part
    `launch` of what any other fusion takes to start.
    """

    rereads_operands: bool
    block_elements: float
    least_rows: int
    launch: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionTilingRules:
    """`fills_tiles`: convolutions take whole tiles of channels, and rows of their windows.

    Where a stride puts zeros between pixels, these are left out. What a convolution makes takes the
    time of what is rounded, in 32 bits too (`hands_over`).
    """

    fills_tiles: bool
    hands_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FourierTransformsRules:
    """`products`: on the matrix unit for a complex one of 32 bits, where it computes transforms."""

    products: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterFusionRules:
    """How large a sum of rows may be inside which these are made.

    On a device, in 32 bits and with `summed_rows` more of them, it takes up to `summed_bytes`; 0
    where nothing is made so.
    """

    summed_bytes: float
    summed_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CseRules:
    """`merges_identical_ops`: ops that do the same to the same operands, are one."""

    merges_identical_ops: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceCombinerRules:
    """`combines`: sums over the same axes in a run of one loop are sent together.

    One message takes at most `max_bytes`. `updates_late`: what the last message of a step sends is
    there from when it is made until the last sum of the step is.
    """

    combines: bool
    max_bytes: float
    updates_late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceReassociateRules:
    """`reassociates`: partial sums that are only added up are summed over devices once."""

    reassociates: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WhileLoopAllReduceMotionRules:
    """`moves`: what a loop only adds to a value that it carries is summed once, behind the loop.

    `sums_carried`: in the width of what is carried, not of what the op makes.
    """

    moves: bool
    sums_carried: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WhileLoopInvariantCodeMotionRules:
    """`moves`: what a loop makes of nothing that it changes is made before the loop."""

    moves: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceScatterCreatorRules:
    """Which sums over devices are not scattered, and how the others are ordered.

    `creates`: any are scattered. `keeps_cut_sums_whole`: not a sum of which a slice is cut in the
    layout that it is kept in. `keeps_sums_over_all_whole`: not over all axes of a mesh.
    `sums_by_dimension`: a sum over several dimensions runs over the axes of the first, then of the
    next, and not in the mesh's order. `flattens_unit_dims`: a product that is a matrix but for
    dimensions of 1 is made as one. `piece_share`: a matrix over n devices is cut into equal pieces
    of at most that part of `scoped_bytes` over 1 + log2(n), and at least an eighth of that; 0 where
    nothing is known of pieces.
    """

    creates: bool
    keeps_cut_sums_whole: bool
    keeps_sums_over_all_whole: bool
    sums_by_dimension: bool
    flattens_unit_dims: bool
    piece_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bf16NarrowingRules:
    """Which f32 are held or sent in 16 bits, and what of 16 bits is held in 32.

    `narrows_stored`: what only products and the reductions beside it read. `narrows_stacks`: what a
    loop stacks for products of another. `rounds_arguments`: besides, arguments that loops slice for
    products. `narrows_gathers`: what only products gather. `narrows_concatenations`: what is joined
    and then narrowed. `widens_errors`: error functions are stored as they are computed, in 32 bits,
    where more than a product is computed for them.
    """

    narrows_stored: bool
    narrows_stacks: bool
    rounds_arguments: bool
    narrows_gathers: bool
    narrows_concatenations: bool
    widens_errors: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutAssignmentRules:
    """How values lie in memory, and what is copied for that.

    `copies_arguments`: what an update reads of the arguments is copied to the layout of a product
    that lies otherwise, `copied_for`: one that is transposed as no order of operands makes it, or
    a convolution. `copies_all`: all such arguments and the results back, when the product is made;
    else one, from the start, in no time.

    `pads_values`: all values fill whole tiles. `pads_images`: what convolutions read and make
    does. `copies_images`: arguments that are convolved are copied to their tiles. `copies_padded`:
    images that are padded otherwise than alike on both sides are padded by themselves. The rows
    of a tile fill at least `column_bytes` of a column: few rows of narrow elements are padded.
    Groups of several channels that are convolved lie apart (`parts_groups`). What is multiplied in
    batches lies matrix by matrix (`lays_matrices`). What is looked up or added up lies row by row,
    and tables are copied for that (`turns_tables`), unless more than half of that is padding, and
    more than `most_padding` bytes; so is what is added up (`turns_added`). Parts of dimensions
    that are transposed, and then lie otherwise, are copied (`copies_parts`).
    """

    copies_arguments: bool
    copied_for: Literal["transposed_dots", "convolutions"]
    copies_all: bool
    pads_values: bool
    pads_images: bool
    copies_images: bool
    copies_padded: bool
    column_bytes: int
    parts_groups: bool
    lays_matrices: bool
    turns_tables: bool
    turns_added: bool
    copies_parts: bool
    most_padding: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceToBatchRules:
    """How few images are convolved.

    `convolves_in_blocks`: fewer than the rows of a tile in blocks of pixels. What a convolution
    reads is then stored in 16 bits and in `forms` copies, as zeros between blocks keep it from
    being computed there. An image that is normalised by example is normalised by as many others of
    32 bits. `blocking_cost` is how often each element of an image is handled: it is cut into
    blocks, padded, and put together with the edges of its neighbours.
    """

    convolves_in_blocks: bool
    forms: int
    blocking_cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferAssignmentRules:
    """`reuses_buffers`: values share a buffer where they can.

    An elementwise fusion writes over an input of its shape that dies with it, and loops and updates
    in place keep their buffers. `adds_in_place`: a fusion with a product writes over what it adds
    to that. `multiplies_at_once`: a product that its user would compute inside itself is made when
    it can be, so that what it is made of is let go of. `holes`: a buffer stays where it fits best
    when it is made, and of the holes that this leaves this part is counted.
    """

    reuses_buffers: bool
    adds_in_place: bool
    multiplies_at_once: bool
    holes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicUpdateSliceRules:
    """`fetches_buffer`: what reads a buffer behind an update of a part of it fetches it.

    That is from main memory, whatever fits on the chip.
    """

    fetches_buffer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySpaceAssignmentRules:
    """What waits in the memory on the chip between fusions.

    `assigns`: anything at all. Of a tensor up to `streamed_from` of that memory nothing is read
    from main memory, of one as large as all of it everything.

    A fusion that runs has `scoped_bytes` of it to itself. Main memory is spared as much as the rest
    of what is alive, for at most `stay_ratio` times what main memory takes to fill all of it.
    `collectives_on_chip`: also what collectives read and write. A copy to or from the chip finds
    where it goes in `table_bytes` of main memory.
    """

    assigns: bool
    streamed_from: float
    scoped_bytes: int
    stay_ratio: float
    collectives_on_chip: bool
    table_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RematerializationRules:
    """What is computed again where a program needs more memory than the device has.

    `recomputes`: elementwise values, reductions and copies in another layout, until they are
    read again; and the part `products` of products and of what is made of them. What has fewer than
    `least_bytes` on a device is kept.
    """

    recomputes: bool
    least_bytes: int
    products: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpmdPartitionerRules:
    """`packs`: a small fusion is launched beside each collective, in the mean.

    `gathers_complex`: partial sums of complex numbers are gathered, and each device adds them up.
    """

    packs: bool
    gathers_complex: bool
