"""Where images of convolutions come from, and where they go: what keeps its tiles costs no copy.

In a step of training the gradients of filters read the images again, and libtpu copies these for
them: each convolution hands its images over. In inference a convolution leaves them as the next one
takes them, with elementwise ops, poolings and joins in between. Only at the start and the end of
such a chain are they brought into tiles and blocks, and back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.passes.scatter_expander import POOLING
from toast.costmodel.passes.space_to_batch import (
    CONVOLUTION,
    filter_gradients,
    given_images,
    pixels_made,
)
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.op_traits import Role, role

CONCATENATE = "stablehlo.concatenate"


class Passage(NamedTuple):
    """Whether a convolution's image is brought into its tiles, and what it makes out of them.

    `handed`: what it makes is handed over to the gradient of a filter too; `given`: its image is an
    argument of the program, which no other convolved before.
    """

    enters: bool = True
    leaves: bool = False
    handed: bool = True
    given: bool = False


TRAINED = Passage()


def passages(program: Program) -> dict[int, Passage]:
    """The passage of each convolution; all of a training step hand over, as `TRAINED` says."""
    convolutions = program.ops_named(CONVOLUTION)
    given = {first for first, _ in given_images(program).values()}
    if not convolutions or len(filter_gradients(program)):
        return {op: TRAINED._replace(given=op in given) for op in convolutions}
    keeping = _keeping(program)
    made, taken = _made_by(program, keeping), _taken_by(program, keeping)
    return {
        op: Passage(
            enters=not made[program.sources[program.uses_of(op)[0]]],
            leaves=not taken[program.values_of(op)[0]],
            handed=False,
            given=op in given,
        )
        for op in convolutions
    }


def _keeping(program: Program) -> Bools:
    """For each op whether it may keep blocks and tiles: elementwise ones, and joins, and pools."""
    kept = np.array(
        [role(name) is Role.FUSIBLE or name == POOLING for name in program.names], dtype=np.bool_
    )
    return kept[program.op_name] & (np.diff(program.op_values) == 1)


def _made_by(program: Program, keeping: Bools) -> Ints:
    """For each value the pixels of an image, if it is computed of what convolutions made, or 0."""
    found = np.zeros(program.values, dtype=np.int64)
    for op in range(program.ops):
        values = program.values_of(op)
        if program.kind(op) == CONVOLUTION:
            found[values[0]] = max(pixels_made(program, op), 1)
        elif keeping[op]:
            found[values[0]] = _kept(program, op, found)
    return found


def _kept(program: Program, op: int, found: Ints) -> int:
    """The pixels of what an op makes of images of convolutions; 0 where it takes others too."""
    made, images = program.elements[program.values_of(op)[0]], _images(program, op)
    pixels = [int(found[image]) for image in images]
    most = max(pixels, default=0)
    if most == 0:
        return 0
    alike = all(
        own == most or (own == 0 and _is_repeated(program, image, most))
        for own, image in zip(pixels, images, strict=True)
    )
    if program.kind(op) == POOLING:
        most = most * made // max(program.elements[images[0]], 1)
    return most if alike else 0


def _taken_by(program: Program, keeping: Bools) -> Bools:
    """For each value whether a convolution takes it as its image, computed with or not."""
    found = np.zeros(program.values, dtype=np.bool_)
    for op in range(program.ops - 1, -1, -1):
        if program.kind(op) == CONVOLUTION:
            found[program.sources[program.uses_of(op)[0]]] = True
        elif keeping[op] and found[program.values_of(op)[0]]:
            found[_images(program, op)] = True
    return found


def _images(program: Program, op: int) -> list[int]:
    """What an op reads of as many elements as it makes: groups of channels are reshaped apart.

    All that it joins, and what it pools.
    """
    sources = [program.sources[use] for use in program.uses_of(op)]
    if program.kind(op) == POOLING:
        return sources[:1]
    if program.kind(op) == CONCATENATE:
        return sources
    size = program.elements[program.values_of(op)[0]]
    return [source for source in sources if program.elements[source] == size]


def _is_repeated(program: Program, value: int, pixels: int) -> bool:
    """Whether a value is a constant, or the same for all of so many pixels, as a bias is."""
    maker = program.makers[value]
    if program.constant[value]:
        return True
    sources = [program.sources[use] for use in program.uses_of(maker)]
    if len(sources) != 1:
        return False
    return program.elements[sources[0]] * pixels <= program.elements[value]
