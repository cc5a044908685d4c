"""The arrays in which the kernels find the order of each colour's axes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.terms.mesh_columns import MeshColumns
from toast.costmodel.terms.partial_sums import PartialSums
from toast.costmodel.terms.reshards import Reshards
from toast.costmodel.terms.units import Units


class AxisOrderScratch(NamedTuple):
    """By move what it costs where a dimension has not the order of axes that it wants.

    Moves are results of ops with partial sums, then what uses want. Of each the row, the `axes` of
    such dimensions, how often it runs (`times`), `bytes` and `seconds`. `ahead` [groups, axes,
    axes] is what it is worth to a colour that one axis leads another, `follows` the same of sums
    where no move speaks for these, `place` [groups, axes] where each axis comes in the order that
    is found.
    """

    row: Ints
    axes: Ints
    times: Floats
    bytes: Floats
    seconds: Floats
    ahead: Floats
    follows: Floats
    place: Ints


def axis_order_scratch(
    units: Units, mesh: MeshColumns, sums: PartialSums, reshards: Reshards
) -> AxisOrderScratch:
    """Working arrays for the moves of these rows and the colours of these units."""
    moves = len(sums.computed) + len(reshards.target)
    groups, axes = len(units.touch_start) - 1, len(mesh.axis_size)
    row, moved = (np.zeros(moves, dtype=np.int64) for _ in range(2))
    count, size, seconds = (np.zeros(moves) for _ in range(3))
    ahead, follows = (np.zeros((groups, axes, axes)) for _ in range(2))
    place = np.tile(np.arange(axes, dtype=np.int64), (groups, 1))
    return AxisOrderScratch(row, moved, count, size, seconds, ahead, follows, place)
