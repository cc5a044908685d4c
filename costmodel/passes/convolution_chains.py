"""Where images of convolutions come from, and where they go: what keeps its tiles costs no copy.

In a step of training the gradients of filters read the images again, and libtpu copies these for
them: each convolution hands its images over. In inference a convolution leaves them as the next one
takes them, with elementwise ops in between. Only at the start and the end of such a chain are they
brought into tiles and blocks, and back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toast.analysis.program import Program
from toast.costmodel.passes.space_to_batch import CONVOLUTION, filter_gradients
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.op_traits import Role, role


class Passage(NamedTuple):
    """Whether a convolution's image is brought into its tiles, and what it makes out of them.

    `handed`: what it makes is handed over to the gradient of a filter too.
    """

    enters: bool = True
    leaves: bool = False
    handed: bool = True


TRAINED = Passage()


def passages(program: Program) -> dict[int, Passage]:
    """The passage of each convolution; of those of a training step all are `TRAINED`."""
    convolutions = program.ops_named(CONVOLUTION)
    if not convolutions or len(filter_gradients(program)):
        return dict.fromkeys(convolutions, TRAINED)
    elementwise = _elementwise(program)
    made, taken = _made_by(program, elementwise), _taken_by(program, elementwise)
    return {
        op: Passage(
            enters=not made[program.sources[program.uses_of(op)[0]]],
            leaves=not taken[program.values_of(op)[0]],
            handed=False,
        )
        for op in convolutions
    }


def _elementwise(program: Program) -> Bools:
    """For each op whether it makes one value of all that it reads elementwise."""
    fusible = np.array([role(name) is Role.FUSIBLE for name in program.names], dtype=np.bool_)
    return fusible[program.op_name] & (np.diff(program.op_values) == 1)


def _made_by(program: Program, elementwise: Bools) -> Bools:
    """For each value whether convolutions made all of its size that it is computed of."""
    found = np.zeros(program.values, dtype=np.bool_)
    for op in range(program.ops):
        values = program.values_of(op)
        if program.kind(op) == CONVOLUTION:
            found[values[0]] = True
        elif elementwise[op]:
            alike = _alike(program, op)
            found[values[0]] = any(found[source] for source in alike) and all(
                found[source] or _is_repeated(program, source) for source in alike
            )
    return found


def _taken_by(program: Program, elementwise: Bools) -> Bools:
    """For each value whether a convolution takes it as its image, computed with or not."""
    found = np.zeros(program.values, dtype=np.bool_)
    for op in range(program.ops - 1, -1, -1):
        if program.kind(op) == CONVOLUTION:
            found[program.sources[program.uses_of(op)[0]]] = True
        elif elementwise[op] and found[program.values_of(op)[0]]:
            found[_alike(program, op)] = True
    return found


def _alike(program: Program, op: int) -> list[int]:
    """What an op reads of as many elements as it makes: groups of channels are reshaped apart."""
    size = program.elements[program.values_of(op)[0]]
    sources = [program.sources[use] for use in program.uses_of(op)]
    return [source for source in sources if program.elements[source] == size]


def _is_repeated(program: Program, value: int) -> bool:
    """Whether a value is a constant, or a smaller one for all pixels, as a bias is."""
    maker = program.makers[value]
    if program.constant[value]:
        return True
    sources = [program.sources[use] for use in program.uses_of(maker)]
    return len(sources) == 1 and program.elements[sources[0]] < program.elements[value]
