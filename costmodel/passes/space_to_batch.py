"""Convolutions: which of them make gradients of filters, and what images lie like in memory.

An *image* is an activation that a convolution reads or makes: a batch, pixels along one or more
dimensions, channels. A TPU keeps it in tiles, of the channels by the batch or the other way round.
Few images at once are convolved block by block (`kernels/incremental.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from toast.analysis.program import ARGUMENT, FactorKind, Ints, Program
from toast.costmodel.compilers.rules import LayoutAssignmentRules, SpaceToBatchRules
from toast.costmodel.passes.convolution_groups import ONE, group_of, is_grouped
from toast.costmodel.program.op_traits import Role, role
from toast.costmodel.program.sharding_units import Layouts

CONVOLUTION = "stablehlo.convolution"
REDUCE = "stablehlo.reduce"
POOLING = "stablehlo.select_and_scatter"
TRANSPOSE = "stablehlo.transpose"
RESHAPE = "stablehlo.reshape"
BROADCAST = "stablehlo.broadcast_in_dim"
TURNING = frozenset({TRANSPOSE, "stablehlo.convert"})
"""What brings an argument to the order of dimensions and the type in which it is convolved."""
LINES = 2
"""Pixels along so many dimensions lie in lines."""
Shape = tuple[int, ...]
Row = tuple[int, int, int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Where an image has its dimensions: batch, pixels, and channels from `first` to `end`.

    `pixel` is the last dimension of pixels, `line` the one before it where there are two, or -1;
    `halo` is how many more pixels than it makes the widest convolution reads, `normed` whether
    images of the shape are normalised over their pixels. `group` are the channels that lie apart
    where it is convolved in groups, or 0. A fusion handles its elements in each of `forms`.
    """

    batch: int
    pixel: int
    first: int
    end: int
    halo: int
    normed: bool = False
    line: int = -1
    group: int = 0
    forms: int = 1

    @property
    def row(self) -> Row:
        """The image as the kernels take it."""
        dims = self.batch, self.pixel, self.first, self.end
        return *dims, self.halo, self.normed, self.line, self.group, self.forms


NO_IMAGE: Row = (-1, -1, -1, -1, 0, 0, -1, 0, 1)
NORMED, LINE, APART, FORMS = 5, 6, 7, 8
"""The columns of a row: whether images are normalised, lines of pixels, groups, and forms."""


def filter_gradients(program: Program) -> Ints:
    """The convolutions that sum over pixels: what they make is the gradient of a filter."""
    found = (op for op in program.ops_named(CONVOLUTION) if pixel_dims(program, op) < 0)
    return np.array(list(found), dtype=np.int64)


def images(program: Program, rules: LayoutAssignmentRules) -> dict[Shape, Image]:
    """All images by shape; two of one shape are taken to lie alike, as the widest is read.

    None where images take their own bytes.
    """
    if not rules.pads_images:
        return {}
    found: dict[Shape, Image] = {}
    for op in program.ops_named(CONVOLUTION):
        if pixel_dims(program, op) >= 0:
            for value, image in _images_of(program, op, parted=rules.parts_groups):
                for shape, lies in _turned(program, value, image):
                    known = found.get(shape, lies)
                    halo, group = max(lies.halo, known.halo), max(lies.group, known.group)
                    found[shape] = replace(lies, halo=halo, group=group)
    for op in normalising(program, found):
        shape = program.shape(program.sources[program.uses_of(op)[0]])
        for one in {shape, (*shape[:-2], math.prod(shape[-2:]))} & found.keys():
            found[one] = replace(found[one], normed=True)
    for op in program.ops_named(POOLING):
        shape = program.shape(program.sources[program.uses_of(op)[0]])
        alike = [image for of, image in found.items() if _pooled(of, shape, image)]
        if shape not in found and alike:
            found[shape] = replace(alike[0], halo=0)
    return found


def in_forms(
    program: Program, found: dict[Shape, Image], rules: SpaceToBatchRules
) -> dict[Shape, Image]:
    """The images with the forms in which a training step handles them; elsewhere there is one."""
    if not len(filter_gradients(program)):
        return found
    plain = 1 + rules.forms // 2
    return {
        shape: replace(image, forms=plain + rules.forms * image.normed)
        for shape, image in found.items()
    }


def given_images(program: Program) -> dict[int, tuple[int, int]]:
    """Arguments that are images, with the first and the last op that convolves each.

    One that is given without its channel counts as what it is with that.
    """
    found: dict[int, tuple[int, int]] = {}
    for op in program.ops_named(CONVOLUTION):
        value = turned_from(program, program.sources[program.uses_of(op)[0]])
        if is_given(program, value):
            found[value] = (found.get(value, (op, op))[0], op)
    return found


def is_given(program: Program, value: int) -> bool:
    """Whether a value is an argument of the program, or has its elements in other dimensions."""
    elements = program.elements[value]
    while program.kind(program.makers[value]) in (BROADCAST, RESHAPE):
        value = program.sources[program.uses_of(program.makers[value])[0]]
    given = program.kind(program.makers[value]) == ARGUMENT
    return given and bool(program.elements[value] == elements)


def image_rows(layouts: Layouts, found: dict[Shape, Image]) -> Ints:
    """For each tensor its image [tensors, 8], `NO_IMAGE` for what is none.

    Channels may be in groups: `[b, h, w, c]` is an image as `[b, h, w, g, c / g]` too.
    """
    rows = [NO_IMAGE] * len(layouts.tensors)
    known: dict[Shape, Image | None] = {}
    for number, (_, dims) in enumerate(layouts.tensors if found else ()):
        shape = tuple(size for size, _ in dims)
        if shape not in known:
            known[shape] = image_of(shape, found)
        image = known[shape]
        rows[number] = image.row if image else NO_IMAGE
    return np.array(rows, dtype=np.int64).reshape(-1, len(NO_IMAGE))


def normalising(program: Program, found: dict[Shape, Image]) -> list[int]:
    """Reductions of the forward pass over the pixels of an image, by example."""
    gradients = filter_gradients(program)
    forward = int(gradients[0]) if len(gradients) else program.ops
    reductions = (op for op in program.ops_named(REDUCE) if op < forward)
    return [
        op
        for op in reductions
        if _by_example(program, op, found) and _is_spread(program, op, forward)
    ]


def _is_spread(program: Program, op: int, forward: int) -> bool:
    """Whether what is made of a sum, without products, is spread over what it sums up.

    A mean over all pixels that only a product reads is none of a norm.
    """
    elements, (starts, uses) = program.elements, program.readers
    summed = elements[program.sources[program.uses_of(op)[0]]]
    pending, seen = [*program.values_of(op)], set[int]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in uses[starts[value] : starts[value + 1]].tolist():
            user = program.user(use)
            if user >= forward or role(program.kind(user)) != Role.FUSIBLE:
                continue
            made = program.values_of(user)
            if any(elements[one] == summed for one in made):
                return True
            pending += made
    return False


def _by_example(program: Program, op: int, found: dict[Shape, Image]) -> bool:
    """Whether a reduction sums over the pixels of an image and keeps its examples."""
    use = program.uses_of(op)[0]
    image = image_of(program.shape(program.sources[use]), found)
    if image is None:
        return False
    names = program.use_names(use).tolist()
    kept = set(program.def_names(program.values_of(op)[0]).tolist())
    return names[image.batch] in kept and names[image.pixel] not in kept


def image_of(shape: Shape, found: dict[Shape, Image]) -> Image | None:
    """The image of a shape, its channels in groups or not; None where it is that of none."""
    return found.get(shape) or _in_groups(shape, found)


def _pooled(image_shape: Shape, shape: Shape, image: Image) -> bool:
    """Whether a shape differs from an image's in pixels alone, as one that is padded does."""
    kept = [image.batch, *range(image.first, image.end)]
    alike = len(shape) == len(image_shape)
    return alike and all(shape[dim] == image_shape[dim] for dim in kept)


def _in_groups(shape: Shape, found: dict[Shape, Image]) -> Image | None:
    """The image whose channels two neighbouring dimensions of a shape are, if there is one."""
    for dim in range(len(shape) - 1):
        image = found.get((*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))
        if image and image.first == dim and image.end == dim + 1:
            batch, pixel, line = (
                place + (place > dim) for place in (image.batch, image.pixel, image.line)
            )
            return replace(image, batch=batch, pixel=pixel, line=line, end=dim + 2)
    return None


def pixels_made(program: Program, op: int) -> int:
    """How many pixels an image has that a convolution makes."""
    value = program.values_of(op)[0]
    sizes = _named(program.def_names(value), program.shape(value))
    return math.prod(size for name, size in sizes if _moves(program, name))


def pixel_dims(program: Program, op: int) -> int:
    """How many dimensions of pixels a convolution has; -1 where it sums over them."""
    left, right = (program.use_names(use).tolist() for use in program.uses_of(op))
    made = set(program.def_names(program.values_of(op)[0]).tolist())
    moved = [name for name in left if name in made and name not in right and _moves(program, name)]
    return len(moved) if moved else -1


def _moves(program: Program, name: int) -> bool:
    kinds = (FactorKind.BLOCKED, FactorKind.HALO)
    return name >= 0 and program.factor_kind[name] in kinds


def _turned(program: Program, value: int, image: Image) -> Iterator[tuple[Shape, Image]]:
    """The shapes in which an image lies so: its own, and that of what it was transposed of."""
    yield program.shape(value), image
    while (source := _before(program, value)) >= 0:
        maker = program.makers[value]
        use = program.uses_of(maker)[0]
        if program.kind(maker) == TRANSPOSE:
            names = program.use_names(use).tolist()
            place = [names.index(name) for name in program.def_names(value).tolist()]
            image = replace(
                image,
                batch=place[image.batch],
                pixel=place[image.pixel],
                line=place[image.line] if image.line >= 0 else -1,
                first=place[image.first],
                end=place[image.first] + 1,
            )
            yield program.shape(source), image
        value = source


def turned_from(program: Program, value: int) -> int:
    """What is brought to another order of dimensions or type, and convolved as `value`."""
    while (source := _before(program, value)) >= 0:
        value = source
    return value


def _before(program: Program, value: int) -> int:
    """What a value is but for the order of its dimensions and its type; -1 where it is computed.

    `jax.vmap` gives a dimension of 1 to what each example convolves, and takes it away.
    """
    maker = program.makers[value]
    if program.kind(maker) in TURNING:
        return int(program.sources[program.uses_of(maker)[0]])
    if program.kind(maker) == RESHAPE:
        wider = program.makers[program.sources[program.uses_of(maker)[0]]]
        if program.kind(wider) == BROADCAST:
            source = int(program.sources[program.uses_of(wider)[0]])
            return source if program.shape(source) == program.shape(value) else -1
    return -1


def _reach(program: Program, op: int) -> int:
    """How many more pixels the window of a convolution reads than it moves on, along the widest."""
    source, filter_use = program.uses_of(op)
    filters, value = program.sources[filter_use], program.values_of(op)[0]
    outer = {*program.use_names(source).tolist(), *program.def_names(value).tolist()}
    window = (
        size
        for name, size in _named(program.use_names(filter_use), program.shape(filters))
        if name < 0 or (_moves(program, name) and name not in outer)
    )
    return max(max(window, default=0) - _stride(program, op), 0)


def _stride(program: Program, op: int) -> int:
    """How many pixels a convolution moves on, along the dimension where they are the most."""
    source, value = program.uses_of(op)[0], program.values_of(op)[0]
    read = dict(_named(program.use_names(source), program.shape(program.sources[source])))
    made = dict(_named(program.def_names(value), program.shape(value)))
    strides = [round(read[name] / max(made[name], 1)) for name in read.keys() & made.keys()]
    return max((*strides, 1))


def _named(names: Ints, shape: Shape) -> Iterator[tuple[int, int]]:
    return zip(names.tolist(), shape, strict=True)


def _images_of(program: Program, op: int, *, parted: bool) -> Iterator[tuple[int, Image]]:
    """What a convolution reads and what it makes; its groups may lie apart (`parted`)."""
    source, filter_use = program.uses_of(op)
    value = program.values_of(op)[0]
    weights = program.use_names(filter_use).tolist()
    halo = _reach(program, op)
    group = group_of(program, op) if parted and is_grouped(program, op) else ONE
    for of, names, apart in (
        (program.sources[source], program.use_names(source).tolist(), group.read),
        (value, program.def_names(value).tolist(), group.made),
    ):
        pixels = [dim for dim, name in enumerate(names) if _moves(program, name)]
        unnamed = [dim for dim, name in enumerate(names) if name < 0]
        channels = [dim for dim, name in enumerate(names) if name >= 0 and name in weights]
        channels = channels or unnamed
        batch = [dim for dim in range(len(names)) if dim not in pixels and dim not in channels]
        if len(pixels) > 0 and len(channels) == 1 and len(batch) == 1:
            yield (
                of,
                Image(
                    batch=batch[0],
                    pixel=pixels[-1],
                    line=pixels[0] if len(pixels) == LINES else -1,
                    first=channels[0],
                    end=channels[0] + 1,
                    halo=halo,
                    group=apart if group.read > 1 else 0,
                ),
            )
