"""The physical link under each mesh axis, and what a collective over it costs.

Alpha-beta: a collective over n devices that puts b bytes on each device's wire takes
`steps(n) * latency + b / bandwidth`. On a ring or torus the steps are n - 1 hops; through a switch
log2(n).
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from analysis.program import Floats, Ints
from costmodel.devices import Device, Link
from costmodel.mesh import Mesh


class Kind(IntEnum):
    """Collectives by the number that the kernels use."""

    ALL_REDUCE = 0
    ALL_GATHER = 1
    REDUCE_SCATTER = 2
    ALL_TO_ALL = 3
    COLLECTIVE_PERMUTE = 4


def axis_links(mesh: Mesh, device: Device) -> tuple[Link, ...]:
    """The link that each mesh axis runs over.

    Devices are numbered with the last axis fastest, so the last axes stay inside the fastest and
    smallest network for as long as their product fits it.
    """
    links: list[Link] = []
    span = 1
    for axis in reversed(mesh.axes):
        span *= axis.size
        fitting = [link for link in device.links if span <= link.span]
        links.append(fitting[0] if fitting else device.links[-1])
    return tuple(reversed(links))


def axis_tables(mesh: Mesh, device: Device) -> tuple[Ints, Floats, Floats]:
    """Per axis: size, bytes per second, and seconds of latency for one pass over the axis."""
    links = axis_links(mesh, device)
    sizes = np.array([axis.size for axis in mesh.axes], dtype=np.int64)
    bandwidth = np.array([link.bandwidth for link in links], dtype=np.float64)
    latency = [
        link.latency * (n - 1 if link.topology == "torus" else np.ceil(np.log2(max(n, 1))))
        for link, n in zip(links, sizes.tolist(), strict=True)
    ]
    return sizes, bandwidth, np.array(latency, dtype=np.float64)
