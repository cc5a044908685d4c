"""How convolutions fill a TPU's matrix unit: their sides as of products, and their windows."""

from __future__ import annotations

import math
from typing import NamedTuple

from toast.analysis.program import Program
from toast.costmodel.compilers.rules import ConvolutionTilingRules
from toast.costmodel.passes.convolution_groups import group_of, is_grouped, names_of
from toast.costmodel.passes.space_to_batch import CONVOLUTION, filter_gradients, pixel_dims
from toast.costmodel.program.contractions import Sides, sides_of


class FilterWindow(NamedTuple):
    """Of a convolution how many pixels of its window are contracted in one go with the channels.

    That is a row of the window, and 0 where pixels themselves are contracted, as in the gradient of
    a filter. `widest` is the longest side of the window, 0 for what is no convolution. `apart` is
    how far apart pixels are put that are read, with zeros between, as where a stride is undone: at
    most along one side, and `spread` along all of them; `splits` says how these fall into blocks
    (`Program.op_splits`). Each group of channels, where there are groups, makes `made` channels of
    `contracted`. `whole` are the pixels of the whole window, which few channels are contracted
    with. The gradient of the filter of a transposed convolution `reverses` one of its images.
    """

    row: int = 0
    widest: int = 0
    apart: int = 1
    spread: int = 1
    splits: int = 0
    contracted: int = 0
    made: int = 0
    whole: int = 0
    reverses: int = 0


NO_WINDOW = FilterWindow()


def windows(program: Program, rules: ConvolutionTilingRules) -> dict[int, FilterWindow]:
    """The window of every convolution, by op; none where no tiles are filled."""
    if not rules.fills_tiles:
        return {}
    gradients = set(filter_gradients(program).tolist())
    found = {}
    for op in program.ops_named(CONVOLUTION):
        left, right, made = names_of(program, op)
        source, value = program.sources[program.uses_of(op)[1]], program.values_of(op)[0]
        if op in gradients:
            shape, names, others = program.shape(value), made, {*left, *right}
        else:
            shape, names, others = program.shape(source), right, {*left, *made}
        # With strides its sides are the minor parts of pixels, which nothing else is named by; with
        # groups so are the channels of one.
        known = others if not is_grouped(program, op) else set(names)
        pairs = zip(shape, names, strict=True)
        sides = [size for size, name in pairs if name < 0 or name not in known]
        if op not in gradients:
            sides = _without_channels(sides, pixel_dims(program, op))
        row = 0 if op in gradients else (sides or [1])[-1]
        apart = [1] if op in gradients else _apart(program, op)
        found[op] = FilterWindow(
            row=row,
            widest=max(sides, default=1),
            apart=max(apart),
            spread=math.prod(apart),
            splits=int(program.op_splits[op]),
            whole=math.prod(sides) if row else 0,
            reverses=int(op in gradients and _reverses(program, op)),
        )
        if is_grouped(program, op):
            group = group_of(program, op)
            if op not in gradients or group.read > 1:
                found[op] = found[op]._replace(contracted=group.read, made=group.made)
    return found


def _apart(program: Program, op: int) -> list[int]:
    """By how much each side of an image grows that is convolved, and not by its window."""
    left, right, made = names_of(program, op)
    source, value = program.sources[program.uses_of(op)[0]], program.values_of(op)[0]
    read = dict(zip(left, program.shape(source), strict=True))
    shared = [
        size // read[name]
        for size, name in zip(program.shape(value), made, strict=True)
        if name >= 0 and name not in right and read.get(name, 0) > 1
    ]
    return [1, *(ratio for ratio in shared if ratio > 1)]


def _without_channels(sides: list[int], pixels: int) -> list[int]:
    """The sides along pixels: a single channel has no name either, and lies behind or before."""
    while len(sides) > pixels and 1 in sides:
        gone = len(sides) - 1 if sides[-1] == 1 else sides.index(1)
        sides = sides[:gone] + sides[gone + 1 :]
    return sides


def _reverses(program: Program, op: int) -> bool:
    """Whether the gradient of a filter reads more pixels of its second image than of its first.

    That is how a transposed convolution puts pixels apart. XLA takes the smaller for the filter of
    this one, and that reversed is the larger one read backwards.
    """
    one, two = program.uses_of(op)
    few, more = (
        dict(zip(program.use_names(use).tolist(), program.shape(program.sources[use]), strict=True))
        for use in (one, two)
    )
    return any(name >= 0 and few.get(name, size) < size for name, size in more.items())


def convolution_sides(program: Program, rules: ConvolutionTilingRules) -> dict[int, Sides]:
    """The sides of the factors of every convolution, by op.

    Images are rows of a product, what they are convolved to its columns, and groups its batch. How
    the gradient of a filter of groups fills them is told by its window alone.
    """
    if not rules.fills_tiles:
        return {}
    gradients = set(filter_gradients(program).tolist())
    found = sides_of(program, program.ops_named(CONVOLUTION))
    known = (op for op in found if op not in gradients or not is_grouped(program, op))
    return {op: found[op] for op in known}
