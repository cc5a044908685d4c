"""The arrays in which the kernels gather the sums that are sent together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.terms.mesh_columns import MeshColumns
from toast.costmodel.terms.partial_sums import PartialSums


class CombinerScratch(NamedTuple):
    """[results, 2] the `axes` and the `cost` of what is scattered of a result and of what is not.

    `joint` is what is sent together, by loop, of both kinds, over each set of axes.
    """

    axes: Ints
    cost: Floats
    joint: Floats


def combiner_scratch(mesh: MeshColumns, sums: PartialSums) -> CombinerScratch:
    """Working arrays for the results of these rows and the sets of axes of a mesh."""
    results, loops = len(sums.computed), len(sums.loop_runs)
    return CombinerScratch(
        axes=np.zeros((results, 2), dtype=np.int64),
        cost=np.zeros((results, 2, 3)),
        joint=np.zeros((loops, 2, mesh.wire.shape[1], 5)),
    )
