"""Convolutions whose channels are in groups, each of which is convolved by itself."""

from __future__ import annotations

from typing import NamedTuple

from toast.analysis.program import Program
from toast.costmodel.program.contractions import BATCH, sides_of


class ChannelGroup(NamedTuple):
    """The channels that one group reads, and those that it makes of them."""

    read: int
    made: int


ONE = ChannelGroup(1, 1)


def is_grouped(program: Program, op: int) -> bool:
    """Whether both operands and the result of a convolution have a dimension in common."""
    return bool(_common(program, op))


def group_of(program: Program, op: int) -> ChannelGroup:
    """A group of a convolution with groups, or of the gradient of its filter.

    A filter has as many input channels as a group reads. What is common to all three may be the
    minor part of pixels too, where there are strides.
    """
    left, right, made = names_of(program, op)
    name = next(one for one in right if one in _common(program, op))
    image, other = (program.shape(program.sources[use]) for use in program.uses_of(op)[:2])
    channels, found = image[left.index(name)], other[right.index(name)]
    value = program.values_of(op)[0]
    dims = (
        *zip(other, right, strict=True),
        *zip(program.shape(value), made, strict=True),
    )
    sizes = {size for size, one in dims if one < 0 or one not in left}
    batch = [size for side, size in sides_of(program, [op])[op] if side == BATCH and size > 1]
    groups = next((size for size in batch if channels // size in sizes), max(batch, default=1))
    return ChannelGroup(read=channels // groups, made=found // groups)


def names_of(program: Program, op: int) -> tuple[list[int], list[int], list[int]]:
    """The names of the dimensions of both operands and the result."""
    left, right = (program.use_names(use).tolist() for use in program.uses_of(op)[:2])
    return left, right, program.def_names(program.values_of(op)[0]).tolist()


def _common(program: Program, op: int) -> set[int]:
    left, right, made = names_of(program, op)
    return {name for name in {*left} & {*right} & {*made} if name >= 0}
