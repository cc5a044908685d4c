"""Sums over devices of which each keeps a part: scattered, or summed whole and cut.

XLA sums partial results whole, cuts each device's part, and then makes one reduce-scatter of both.
The kernels decide it for each sum of a state (`kernels/reshard.py`). Which slices of a sum are in
the way is a fact of the program (`terms/partial_sums.py`), and so is what a product is made as
(`resolved.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from toast.costmodel.compilers.rules import ReduceScatterCreatorRules
from toast.costmodel.network.mesh import Mesh


class Scattering(NamedTuple):
    """Whether anything is scattered, and the axes over which together nothing is, 0 for none."""

    created: bool
    summed_whole: int


def create_scatters(mesh: Mesh, rules: ReduceScatterCreatorRules) -> Scattering:
    """What a compiler scatters over the axes of a mesh."""
    everything = (1 << len(mesh.axes)) - 1
    return Scattering(rules.creates, everything if rules.keeps_sums_over_all_whole else 0)
