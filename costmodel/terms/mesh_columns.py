"""The mesh as columns: all that an evaluator makes anew for another mesh."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.compilers.profile import CompilerProfile
from toast.costmodel.hardware.devices import Device
from toast.costmodel.network.collectives import collective_tables
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.reduce_scatter_creator import create_scatters
from toast.costmodel.program.arrays import ints


class MeshColumns(NamedTuple):
    """`axis_size`, and for each set of axes (a bit mask) how many devices it has (`shards`).

    By kind of collective and set of axes `wire`, `alpha` and `beta`, as in `collectives`.
    Where partial sums are `scattered` at all, `summed_whole` are the axes over which together
    nothing is, 0 for none.
    """

    axis_size: Ints
    shards: Ints
    wire: Floats
    alpha: Floats
    beta: Floats
    scattered: bool
    summed_whole: int


def mesh_columns(mesh: Mesh, device: Device, profile: CompilerProfile) -> MeshColumns:
    """The columns of a mesh of devices."""
    collectives = collective_tables(mesh, device)
    scattering = create_scatters(mesh, profile.reduce_scatter_creator)
    return MeshColumns(
        axis_size=ints([axis.size for axis in mesh.axes]),
        shards=collectives.shards,
        wire=collectives.wire,
        alpha=collectives.alpha,
        beta=collectives.beta,
        scattered=scattering.created,
        summed_whole=scattering.summed_whole,
    )


def item_shards(mesh: Mesh, fixed: Ints) -> Ints:
    """Over how many devices the axes that are fixed on each item split it."""
    products = {mask: mesh.shards(mask) for mask in np.unique(fixed).tolist()}
    return ints([products[mask] for mask in fixed.tolist()])
