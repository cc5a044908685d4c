"""The proof that a loop over layers treats a dimension of what it hands on as a batch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from toast.microbatch.blocked import Blocked
from toast.microbatch.colour import shape_of
from toast.microbatch.kinds import FREE, Dependence
from toast.microbatch.time_axis import Cut, Dimension, TimeAxis
from toast.microbatch.tree import WHILE
from toast.spmd.scanned import StageLayers


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenStage:
    """The program of a stage, and the proof that microbatches go through it one by one."""

    stage: StageLayers
    axis: TimeAxis
    cut: Cut
    dimension: Dimension
    """The argument of the program, and the dimension of it, that was taken for the batch."""

    @property
    def has_weights(self) -> bool:
        """Whether the turns read stacks that have nothing to do with the batch."""
        layers = self.stage.layers
        arguments = self.axis.block.arguments
        kinds = [
            self.cut.kinds.of[arguments[place]]
            for place, slot in enumerate(self.stage.slots)
            if slot in layers.read
        ]
        return any(kind in FREE for kind in kinds)


def prove(stage: StageLayers, count: int) -> ProvenStage | None:
    """The first dimension that can be cut in so many parts; None where there is none to cut.

    Raises:
        Blocked: the dimensions that there are cannot be cut; it is what the first one lacks.
    """
    axis = TimeAxis(stage.module)
    refused: Blocked | None = None
    for dimension in _dimensions(stage, axis):
        try:
            cut = axis.cut(axis.named(dimension, count))
        except Blocked as blocked:
            refused = refused or blocked
            continue
        node = next(node for node in axis.block.nodes if node.name == WHILE)
        kinds = {cut.kinds.of[node.results[slot]] for slot in stage.layers.carried}
        if Dependence.CUT in kinds:
            return ProvenStage(stage=stage, axis=axis, cut=cut, dimension=dimension)
    if refused is not None:
        raise refused
    return None


def _dimensions(stage: StageLayers, axis: TimeAxis) -> Iterator[Dimension]:
    """The leading dimensions of what the layers hand on, the largest value first."""
    carried = [
        place for place, slot in enumerate(stage.slots) if slot in stage.layers.carried
    ]  # fmt: skip
    shapes = {place: shape_of(axis.block.arguments[place]) for place in carried}
    for place in sorted(carried, key=lambda one: -math.prod(shapes[one])):
        if shapes[place]:
            yield place, 0
