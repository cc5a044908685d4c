"""Kernels for computation: the roofline of everything that is launched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toast.analysis.jit import inner
from toast.analysis.program import Floats, Ints
from toast.costmodel.kernels.convolution import (
    HANDED,
    LEAVES,
    WIDEST,
    blocking,
    grouped,
    into_tiles,
    reversing,
    turned,
)
from toast.costmodel.kernels.incremental import (
    in_blocks,
    in_rows,
    side,
    streamed,
    sums_inside,
    total,
)
from toast.costmodel.kernels.journal import note
from toast.costmodel.kernels.products import (
    behind,
    made_whole,
    product_tiling,
    reducing,
    updating,
    waiting,
)
from toast.costmodel.passes.space_to_batch import FORMS, NORMED
from toast.costmodel.program.contractions import AS_GIVEN, ROUNDED, WIDE
from toast.costmodel.program.lookups import NO_ROWS, ROWS, TABLE
from toast.costmodel.terms.journal import ROOT, Bound

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

ARITHMETIC, BYTES, ELEMENTS = (int(bound) for bound in Bound)
READ_AND_MADE, READ_TWICE_AND_WRITTEN = 2.0, 3.0
"""How often a pass handles each element: of a sum or a copy, and of a norm with its factors as an
image."""


@inner
def _copying(t: Tables, s: Scratch, row: int) -> float:
    """Seconds to copy what a fusion needs in another memory layout, and to bring back the rest."""
    spent = 0.0
    for k in range(t.fusions.copied_start[row], t.fusions.copied_start[row + 1]):
        tensor = t.fusions.copied[k]
        size = s.tensors.stored[tensor]
        moved = 2.0 * size * streamed(t.chip.on_chip, t.chip.streamed_from, size) / t.chip.bandwidth
        spent += max(moved, _elements(t, s, tensor) / t.chip.element_rate) + t.chip.overhead
    return spent


@inner
def _parting(t: Tables, s: Scratch, row: int) -> float:
    """Seconds to copy what has 16 bits and lies in other parts of its dimensions.

    Each element takes the time of a copy in 32 bits, and that of a pass that reads it.
    """
    spent = 0.0
    for k in range(t.fusions.parted_start[row], t.fusions.parted_start[row + 1]):
        elements = _elements(t, s, t.fusions.parted[k]) * t.fusions.parted_times[k]
        spent += elements * (1.0 / t.chip.element_rate + t.chip.each_element) + t.chip.overhead
    return spent


@inner
def _rounding(t: Tables, s: Scratch, row: int) -> float:
    """Seconds to round arguments before a loop, by ops that run by themselves."""
    spent = 0.0
    for k in range(t.fusions.rounded_start[row], t.fusions.rounded_start[row + 1]):
        handled = READ_AND_MADE * _elements(t, s, t.fusions.rounded[k])
        spent += handled / t.chip.element_rate + t.chip.overhead
    return spent


@inner
def _turning(t: Tables, s: Scratch, row: int) -> float:
    """Seconds to copy into rows what a fusion needs, and to bring back the rest.

    It takes none where that lies in rows as it fills tiles best. What has one column is made a
    vector, of rows that fill a tile one by one.
    """
    spent = 0.0
    for k in range(t.fusions.turned_start[row], t.fusions.turned_start[row + 1]):
        tensor = t.fusions.turned[k]
        table = t.fusions.by_row[row] != ROWS
        size, rows = float(s.tensors.stored[tensor]), in_rows(t, s, tensor, table)
        if side(t, s, tensor, t.tensors.start[tensor + 1] - t.tensors.start[tensor] - 1) == 1:
            size *= 1 + t.chip.tile_rows
        elif rows > size:
            size += rows * streamed(t.chip.on_chip, t.chip.streamed_from, rows)
        else:
            continue
        elements = size / max(t.tensors.itemsize[tensor], 1.0)
        spent += elements / t.chip.element_rate + t.chip.overhead
    return spent


@inner
def _arranging(t: Tables, s: Scratch, row: int) -> float:
    """Seconds to lay images as a fusion convolves them.

    In tiles, in blocks of pixels, with groups apart, or backwards.
    """
    spent = 0.0
    for k in range(t.fusions.dot_start[row], t.fusions.dot_start[row + 1]):
        spent += blocking(t, s, k) + reversing(t, s, k) + grouped(t, s, k)[1] / t.chip.element_rate
        spent += _leaving(t, s, row, k) + READ_AND_MADE * into_tiles(t, s, k) * t.chip.each_rounded
    return spent


@inner
def _leaving(t: Tables, s: Scratch, row: int, dot: int) -> float:
    """Seconds to copy an image that no other convolution takes out of its tiles.

    Where it lies in blocks that is part of bringing it out of them. One that is only summed up
    stays where it is.
    """
    image, passage = t.fusions.dot_sums[dot], t.fusions.dot_passage[dot]
    if t.fusions.dot_window[dot, WIDEST] <= 1 or not passage[LEAVES]:
        return 0.0
    if t.tensors.image[image, 0] < 0 or in_blocks(t, s, image) > 0.0:
        return 0.0
    first = t.fusions.tensor_start[row]
    for k in range(first, first + t.fusions.writes[row]):
        if _own_elements(t, s, t.fusions.tensor[k]) == _own_elements(t, s, image):
            return _elements(t, s, image) * t.chip.each_rounded
    return 0.0


@inner
def _own_elements(t: Tables, s: Scratch, tensor: int) -> float:
    """Elements of a tensor on one device."""
    return float(s.tensors.local[tensor] / max(t.tensors.itemsize[tensor], 1.0))


@inner
def _numbers(t: Tables, s: Scratch, row: int, starts: Ints, tensors: Ints, times: Floats) -> float:
    """Elements on one device of tensors in a column of a fusion, each counted so many times."""
    found = 0.0
    for k in range(starts[row], starts[row + 1]):
        found += times[k] * s.tensors.local[tensors[k]] / t.tensors.itemsize[tensors[k]]
    return found


@inner
def _placing(t: Tables, s: Scratch, row: int) -> float:
    """Seconds of loops that place windows one after another."""
    f = t.fusions
    launches = _numbers(t, s, row, f.placed_start, f.placed, f.placed_launches)
    return launches * t.chip.overhead


@inner
def _transforming(t: Tables, s: Scratch, row: int) -> float:
    """Seconds of the products of Fourier transforms."""
    f = t.fusions
    steps = _numbers(t, s, row, f.transformed_start, f.transformed, f.transform_steps)
    return steps * t.chip.each_transformed


@inner
def _unpacking(t: Tables, s: Scratch, row: int) -> float:
    """Seconds to unpack comparisons: those of rounding an element of 16 bits, twice for 32."""
    size = 0.0
    for k in range(t.fusions.unpacked_start[row], t.fusions.unpacked_start[row + 1]):
        size += s.tensors.stored[t.fusions.unpacked[k]]
    return size / 2.0 * t.chip.each_rounded


@inner
def _epilogue(t: Tables, s: Scratch, row: int) -> float:
    """Seconds of the reductions of what a product of a fusion makes, run behind it.

    Where others want the whole of what they reduce, they reduce that.
    """
    handled = 0.0
    for reduction in range(t.fusions.reduced_start[row], t.fusions.reduced_start[row + 1]):
        most = 0.0
        for k in range(
            t.fusions.reduced_tensor_start[reduction],
            t.fusions.reduced_tensor_start[reduction + 1],
        ):
            most = max(most, _elements(t, s, t.fusions.reduced_tensor[k]))
        handled += most
    return handled / t.chip.element_rate


@inner
def _norms(t: Tables, s: Scratch, row: int) -> float:
    """Seconds of passes over images in blocks: for each sum of pixels, and for what is normed.

    A convolution takes what is normalised from memory. In training that is part of its forms.
    """
    spent = 0.0
    for k in range(t.fusions.summed_start[row], t.fusions.summed_start[row + 1]):
        image = t.fusions.summed[k]
        if in_blocks(t, s, image) > 0.0:
            handled = READ_AND_MADE * _elements(t, s, image)
            spent += handled * t.chip.each_reduced + t.chip.overhead
    for k in range(t.fusions.dot_start[row], t.fusions.dot_start[row + 1]):
        image = t.fusions.dot_operand[k, 0, 1]
        trained = t.fusions.dot_window[k, WIDEST] == 0 or t.fusions.dot_passage[k, HANDED]
        if trained or not t.fusions.dot_computed[k, 0] or t.tensors.image[image, 0] < 0:
            continue
        if t.tensors.image[image, NORMED] and in_blocks(t, s, image) > 0.0:
            handled = READ_TWICE_AND_WRITTEN * _elements(t, s, image)
            spent += handled * t.chip.each_element + t.chip.overhead
    return spent


@inner
def _crowded_out(t: Tables, s: Scratch, row: int) -> float:
    """The part of the largest f32 that products multiply for which the chip has no room."""
    largest = t.chip.on_chip
    for k in range(t.fusions.dot_start[row], t.fusions.dot_start[row + 1]):
        for tensor in t.fusions.dot_operand[k, :, 0]:
            if t.tensors.itemsize[tensor] >= WIDE:
                largest = max(largest, s.tensors.stored[tensor])
    return 1.0 - t.chip.on_chip / max(largest, 1.0)


@inner
def _most_reduced(t: Tables, s: Scratch, row: int) -> float:
    """Elements of the largest tensor that a fusion reduces; it reduces all of them side by side."""
    most = 0.0
    for reduction in range(t.fusions.reduced_start[row], t.fusions.reduced_start[row + 1]):
        own = t.fusions.reduced_tensor_start[reduction]
        most = max(most, _elements(t, s, t.fusions.reduced_tensor[own]))
    return most


@inner
def _arithmetic(t: Tables, s: Scratch, row: int) -> tuple[float, float, float, float, bool]:
    """Of the products of a fusion: seconds on the matrix and on the vector unit, and more.

    Bytes of partial sums, elements computed for the products, and whether there are such sums.
    """
    seconds, again, sums, fed, partial = 0.0, 0.0, 0.0, 0.0, False
    reduced = 0.0
    for k in range(t.fusions.dot_start[row], t.fusions.dot_start[row + 1]):
        shards = 1
        unit = t.fusions.dot_unit[k]
        for i in range(t.units.start[unit], t.units.start[unit + 1]):
            shards *= s.units.shards[i]
        padding, shape, summed = product_tiling(t, s, k)
        alone = reducing(t, s, row, k)
        reduced += alone
        whole = made_whole(t, s, k)
        if alone == 0.0:
            one = t.fusions.dot_seconds[k] / shards * padding
            one /= t.fusions.dot_part[k] if whole else 1.0
            seconds += one
            if shape[0] > 0.0:
                again += waiting(t, s, row, k, shape, one, summed)
        if summed or whole:
            partial |= summed
            size = s.tensors.stored[t.fusions.dot_sums[k]]
            sums += size * streamed(t.chip.on_chip, t.chip.streamed_from, size)
        handed = t.chip.hands_over and t.fusions.dot_passage[k, HANDED]
        if t.fusions.dot_window[k, WIDEST] > 0 and handed:
            made = t.fusions.dot_sums[k]
            fed = max(fed, _elements(t, s, made), grouped(t, s, k)[0])
        reduced += turned(t, s, k) * t.chip.each_reduced
        for operand in range(2):
            if t.fusions.dot_computed[k, operand]:
                fed = max(fed, _elements(t, s, t.fusions.dot_operand[k, operand, 1]))
    return seconds + again, reduced, sums, fed, partial


@inner
def _elements(t: Tables, s: Scratch, tensor: int) -> float:
    """Elements of a tensor on one device, with those that fill its tiles up."""
    return _moved(t, s, tensor) / max(t.tensors.itemsize[tensor], 1.0)


@inner
def _moved(t: Tables, s: Scratch, tensor: int) -> float:
    """Bytes that a fusion moves of a tensor: of one in blocks its forms and its norms as well."""
    size, image = float(s.tensors.stored[tensor]), t.tensors.image[tensor]
    if image[0] < 0 or in_blocks(t, s, tensor) == 0.0:
        return size
    return size * image[FORMS]


@inner
def _fetched(t: Tables, whole: float, beside: float) -> float:
    """The part of a tensor that comes from main memory, where so much of its size is `beside` it.

    As much of what a loop cuts or updates is on the chip as there is room for all of it together.
    """
    part = streamed(t.chip.on_chip, t.chip.streamed_from, whole)
    together = max(beside * whole, t.chip.on_chip_buffers, 1.0)
    room = t.chip.on_chip_buffers / together
    return float(max(part, 1.0 - room) if beside > 1.0 else part)


@inner
def _traffic(t: Tables, s: Scratch, row: int) -> tuple[float, float, float, float, float]:
    """Bytes moved and of these written, elements read and written, and most of a narrow result.

    What is made inside a sum of rows is neither.
    """
    first = t.fusions.tensor_start[row]
    moved, wrote, elements, made, narrow = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(first, t.fusions.tensor_start[row + 1]):
        tensor = t.fusions.tensor[k]
        if sums_inside(t, s, t.fusions.within[k]):
            continue
        size, whole = _moved(t, s, tensor), s.tensors.stored[t.fusions.whole[k]]
        if t.fusions.lies[k] == AS_GIVEN:
            size = whole = s.tensors.given[tensor]
        if t.fusions.by_row[row] != NO_ROWS:
            size = max(size, in_rows(t, s, tensor, t.fusions.by_row[row] == TABLE))
            whole = max(whole, size)
        handled = size / max(t.tensors.itemsize[tensor], 1.0)
        moved += size * _fetched(t, whole, t.fusions.beside[k])
        elements += handled
        if k < first + t.fusions.writes[row]:
            rounded = t.fusions.lies[k] == ROUNDED or t.tensors.itemsize[tensor] < WIDE
            narrow = max(narrow, handled if rounded else 0.0)
            wrote, made = moved, elements
    return moved, wrote, elements - made, made, narrow


@inner
def price_fusions(t: Tables, s: Scratch) -> float:
    """Roofline of every fusion: arithmetic, bytes moved, or elements handled.

    Each element that is read or written passes through the vector unit, and so do those that fill
    up the tiles of an image; of windows that it pools only those that it makes count, twice. It
    reduces elements while it writes others, and handles all of them more slowly then. A broadcast
    by itself goes from tile to tile, which takes time for each element that it makes. In a fusion
    of a product only those take time that are rounded: they were computed for the product, or leave
    it in 16 bits; and those of which it stores a reduction alone, once their operands are there. As
    far as an f32 of these has no room on the chip it is rounded block by block, and they are
    reduced behind the block. A product writes its partial sums in place of what it would make of
    them, and reductions beside it run behind it; an update that it runs inside handles those of its
    elements that are not on the chip behind each block.
    """
    for row in range(len(t.fusions.weight)):
        if not s.fusions.stale[row]:
            continue
        arithmetic, reduced, sums, fed, partial = _arithmetic(t, s, row)
        moved, wrote, read, made, narrow = _traffic(t, s, row)
        moved += max(sums - wrote, 0.0)
        spent = moved / t.chip.bandwidth
        multiplies = t.fusions.dot_start[row] < t.fusions.dot_start[row + 1]
        if multiplies:
            late = behind(t, s, row, moved) if partial and t.fusions.updating[row] else 0.0
            spent = (moved - late) / t.chip.bandwidth * t.chip.feeding
            only = _most_reduced(t, s, row)
            only = only if only > made else 0.0
            spent += only * t.chip.each_reduced
            arithmetic += only * t.chip.each_reduced * _crowded_out(t, s, row)
            handling = max(max(narrow, fed) * t.chip.each_rounded, reduced)
        else:
            reduced = _most_reduced(t, s, row)
            each = t.chip.each_reduced if reduced > 0.0 else t.chip.each_element
            read = min(read, made) if t.fusions.pooling[row] else read
            handling = (read + max(made, reduced)) * each
            handling += made / t.chip.element_rate if t.fusions.repeating[row] else 0.0
        seconds = max(arithmetic, spent, handling)
        bound = ARITHMETIC if seconds == arithmetic else ELEMENTS
        bound = BYTES if seconds == spent else bound
        if t.fusions.updating[row]:
            seconds += updating(t, s, row, late + sums, partial)
        if partial:
            seconds += _epilogue(t, s, row)
        weight = t.fusions.weight[row]
        seconds += _copying(t, s, row) + _rounding(t, s, row) + _turning(t, s, row)
        seconds += _arranging(t, s, row) + _placing(t, s, row) + _transforming(t, s, row)
        seconds += _unpacking(t, s, row) + _norms(t, s, row) + _parting(t, s, row)
        starts = t.chip.product_overhead if multiplies and moved == 0.0 else t.chip.overhead
        spent = weight * (seconds + starts)
        note(s.journal, ROOT, row, 0, bound, 0, weight, weight * moved, spent)
        s.fusions.seconds[row] = spent
    return total(s.fusions.seconds)
