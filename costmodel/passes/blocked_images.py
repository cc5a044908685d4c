"""What a TPU keeps of few images besides, where it convolves them in blocks of pixels.

Zeros lie between blocks, so that a convolution does not compute what it reads: that is stored as
the matrix unit takes it, in 16 bits. libtpu stores what a group norm subtracts and multiplies by as
images too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from toast.analysis.program import Ints, Program
from toast.analysis.types import itemsize
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.passes.layout_assignment import Beside
from toast.costmodel.passes.space_to_batch import (
    BROADCAST,
    CONVOLUTION,
    Image,
    Shape,
    filter_gradients,
    images,
    is_given,
    normalising,
    turned_from,
)

SUBTRACT = "stablehlo.subtract"


def kept_in_blocks(program: Program, fusion: Fusion, launched: Ints, read: Ints) -> list[Beside]:
    """All that is kept besides images while they are convolved in blocks.

    `launched` is by op when it reads, as in `launched_at`, and `read` by value its last use.
    """
    if not fusion.profile.space_to_batch.convolves_in_blocks:
        return []
    found = images(program, fusion.profile.layout_assignment)
    at = launched.copy()
    at[fusion.roots.dots] = launched[fusion.roots.ops[fusion.roots.rows(fusion.roots.dot_start)]]
    return [*_convolved(program, fusion, found, at), *_normalised(program, fusion, found, at, read)]


def sums_apart(program: Program, fusion: Fusion) -> dict[int, list[int]]:
    """Of fusions with a convolution the images whose pixels they sum up, by example.

    Without a gradient: then an image in blocks is read again for each sum.
    """
    if not fusion.profile.space_to_batch.convolves_in_blocks or len(filter_gradients(program)):
        return {}
    found = images(program, fusion.profile.layout_assignment)
    summing, summed = set(normalising(program, found)), dict[int, list[int]]()
    for number in np.flatnonzero(np.diff(fusion.launched.dot_start)).tolist():
        one = fusion.launched[number]
        if any(program.kind(op) == CONVOLUTION for op in one.contractions):
            sums = [op for op in one.ops if op in summing]
            summed[number] = [program.sources[program.uses_of(op)[0]] for op in sums]
    return summed


def _convolved(
    program: Program, fusion: Fusion, found: dict[Shape, Image], at: Ints
) -> Iterator[Beside]:
    """What convolutions read, in 16 bits and in `forms` copies, from the first to the last.

    One of these is what is stored in any case, where nothing else reads it.
    """
    readers: dict[int, list[int]] = {}
    for op in program.ops_named(CONVOLUTION):
        for use in list(program.uses_of(op))[:2]:
            value = program.sources[use]
            if program.shape(value) in found and not program.constant[value]:
                readers.setdefault(value, []).append(op)
    for value, ops in readers.items():
        given = is_given(program, turned_from(program, value))
        stored = given or (fusion.written[value] and fusion.narrow[value])
        forms = max(fusion.profile.space_to_batch.forms - stored, 0)
        width = min(1.0, 2.0 / itemsize(program.dtype(value)))
        yield value, (int(at[ops].min()), int(at[ops].max())), forms * width


def _normalised(
    program: Program, fusion: Fusion, found: dict[Shape, Image], at: Ints, read: Ints
) -> Iterator[Beside]:
    """What images are normalised by, in 32 bits, until the next convolution.

    Where the gradient of one is made it stays until then. An image that is less its mean already
    when its variance is taken is stored so, and not the mean.
    """
    gradients = at[filter_gradients(program)]
    backward = int(gradients.min()) if len(gradients) else program.ops
    convolutions = np.sort(at[list(program.ops_named(CONVOLUTION))])
    first: dict[int, int] = {}
    centred: set[int] = set()
    for op in normalising(program, found):
        root, less = _stored_root(program, fusion, program.sources[program.uses_of(op)[0]])
        first[root] = min(first.get(root, program.ops), int(at[op]))
        centred |= {root} if less else set()
    for value, begin in first.items():
        following = convolutions[np.searchsorted(convolutions, begin) :]
        end = int(following[0]) - 1 if len(following) else begin
        last = int(read[value]) if read[value] >= backward else max(begin, end)
        count = max(fusion.profile.space_to_batch.forms - (value in centred), 0)
        yield value, (begin, last), count * 4.0 / itemsize(program.dtype(value))


def _stored_root(program: Program, fusion: Fusion, value: int) -> tuple[int, bool]:
    """The stored value of its size that a value is computed of, and if it is less its mean."""
    less = False
    while not fusion.written[value]:
        maker, size = program.makers[value], np.prod(program.shape(value))
        alike = [
            source
            for source in (program.sources[use] for use in program.uses_of(maker))
            if np.prod(program.shape(source)) == size
            and program.kind(program.makers[source]) != BROADCAST
            and not program.constant[source]
        ]
        if not alike:
            break
        less |= program.kind(maker) == SUBTRACT
        value = alike[0]
    return value, less
