"""What a collective over mesh axes costs, as tables made once per mesh and device.

Alpha-beta: `alpha + beta * bytes` for each algorithm that the network supports, and the quickest
counts. The bytes are those of the larger side on one device: what an all-reduce works on, an
all-gather makes, a reduce-scatter or an all-to-all is given, a permute sends. An all-reduce is a
reduce-scatter and an all-gather, whatever the algorithm, and these two cost the same.
`docs/devices.md` has the formulas in words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import product
from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.hardware.devices import Device, Link
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.network.placement import NetworkPiece, Placement, place


class Kind(IntEnum):
    """Collectives by the number that the kernels use."""

    ALL_REDUCE = 0
    ALL_GATHER = 1
    REDUCE_SCATTER = 2
    ALL_TO_ALL = 3
    COLLECTIVE_PERMUTE = 4


class Line(NamedTuple):
    """One algorithm: seconds are `alpha + beta * bytes`."""

    alpha: float
    beta: float


class CollectiveTables(NamedTuple):
    """For each set of axes (bit a is axis a): devices, and for each kind of collective its cost.

    `shards` [sets]; `wire` [kinds, sets] bytes on the wire of one device per byte; `alpha` and
    `beta` [kinds, sets, algorithms]; an algorithm that is not there repeats the last.
    """

    shards: Ints
    wire: Floats
    alpha: Floats
    beta: Floats

    def seconds(self, kind: Kind, axes: int, size: float) -> float:
        """Seconds of one collective over a set of axes; see the module for which bytes."""
        return float(np.min(self.alpha[kind, axes] + self.beta[kind, axes] * size))


class Level(NamedTuple):
    """The part of a collective that runs over one network: `size` groups of what lies inside."""

    link: Link
    size: int
    pieces: tuple[NetworkPiece, ...]


def collective_tables(mesh: Mesh, device: Device) -> CollectiveTables:
    """The tables of a mesh; raises `InvalidMesh` for networks that the device does not have."""
    placement = place(mesh, device)
    sets = range(1 << len(mesh.axes))
    levels = [_levels(placement, device, axes) for axes in sets]
    shards = np.array([mesh.shards(axes) for axes in sets], dtype=np.int64)
    rows = [[_lines(kind, crossed) for crossed in levels] for kind in Kind]
    count = max(len(lines) for row in rows for lines in row)
    padded = [[lines + lines[-1:] * (count - len(lines)) for lines in row] for row in rows]
    costs = np.array(padded, dtype=np.float64)
    wire = [[wire_factor(kind, int(n)) for n in shards] for kind in Kind]
    return CollectiveTables(
        shards=shards,
        wire=np.array(wire, dtype=np.float64),
        alpha=np.ascontiguousarray(costs[..., 0]),
        beta=np.ascontiguousarray(costs[..., 1]),
    )


def wire_factor(kind: Kind, devices: int) -> float:
    """Bytes that each of `devices` sends per byte of the larger side, as on a ring."""
    if kind is Kind.COLLECTIVE_PERMUTE:
        return 1.0
    share = (devices - 1) / max(devices, 1)
    return 2.0 * share if kind is Kind.ALL_REDUCE else share


def _levels(placement: Placement, device: Device, axes: int) -> list[Level]:
    """What a collective over these axes crosses, the fastest network first."""
    pieces = [piece for axis, found in enumerate(placement) if axes >> axis & 1 for piece in found]
    levels = []
    for index, link in enumerate(device.links):
        on = _merge(piece for piece in pieces if piece.link == index)
        if on:
            levels.append(Level(link, math.prod(piece.size for piece in on), on))
    return levels


def _merge(pieces: Iterable[NetworkPiece]) -> tuple[NetworkPiece, ...]:
    """Pieces that continue each other along one dimension as one."""
    found: list[NetworkPiece] = []
    for piece in sorted(pieces, key=lambda piece: (piece.dim, piece.stride)):
        last = found[-1] if found else None
        if last and last.dim == piece.dim and last.stride * last.size == piece.stride:
            found[-1] = NetworkPiece(
                link=last.link,
                size=last.size * piece.size,
                dim=last.dim,
                stride=last.stride,
                length=last.length,
                wraps=last.wraps,
            )
        else:
            found.append(piece)
    return tuple(found)


def _lines(kind: Kind, levels: list[Level]) -> list[Line]:
    if not levels:
        return [Line(0.0, 0.0)]
    if kind is Kind.COLLECTIVE_PERMUTE:
        hops = [_hop(level) for level in levels]
        return [Line(max(hop.alpha for hop in hops), max(hop.beta for hop in hops))]
    if kind is Kind.ALL_TO_ALL:
        crossed = [_exchange(level) for level in _exchanged(levels)]
        return [Line(sum(c.alpha for c in crossed), max(c.beta for c in crossed))]
    times = 2.0 if kind is Kind.ALL_REDUCE else 1.0
    lines = [
        Line(times * line.alpha, times * line.beta)
        for line in (*_nested(kind, levels), *_rails(kind, levels))
    ]
    return _useful(lines)


def _useful(lines: Sequence[Line]) -> list[Line]:
    """Algorithms that are the quickest for some size, by falling latency."""
    kept: list[Line] = []
    for line in sorted(set(lines), key=lambda line: (line.beta, line.alpha)):
        if not kept or line.alpha < kept[-1].alpha:
            kept.append(line)
    return kept


def _nested(kind: Kind, levels: list[Level]) -> list[Line]:
    """Each network by itself, the slowest first for a gather; one network alone is one level.

    What goes over a slow network is only this device's share of the fast one.
    """
    found = []
    for chosen in product(*(_gather(kind, level) for level in levels)):
        alpha = beta = 0.0
        inside = 1
        for line, level in zip(chosen, levels, strict=True):
            alpha += line.alpha
            beta += line.beta / inside
            inside *= level.size
        found.append(Line(alpha, beta))
    return found


def _gather(kind: Kind, level: Level) -> list[Line]:
    """The algorithms that gather (or reduce-scatter) over one network."""
    slow = level.link.slowdown.get(kind.name.lower(), 1.0)
    n, latency = level.size, slow * level.link.latency
    if level.link.topology == "torus":
        return [_torus(level, slow)]
    ring = Line((n - 1) * latency, slow * (n - 1) / n / _rate(level))
    if level.link.topology == "ring":
        return [ring]
    return [ring, Line(math.ceil(math.log2(n)) * latency, slow / _rate(level))]


def _torus(level: Level, slow: float) -> Line:
    """All dimensions at once, each sending its share of the data in an order of its own.

    Bound by all links together, or by a dimension that has more than its part to carry even when
    it always comes first, with the least data.
    """
    rates = [_line_rate(level.link, piece) for piece in level.pieces]
    together = (level.size - 1) / level.size / sum(rates)
    alone = max(
        (piece.size - 1) / level.size / rate
        for piece, rate in zip(level.pieces, rates, strict=True)
    )
    steps = sum(
        piece.stride * (math.ceil((piece.size - 1) / 2) if piece.closed else piece.size - 1)
        for piece in level.pieces
    )
    return Line(slow * steps * level.link.latency, slow * max(together, alone))


def _line_rate(link: Link, piece: NetworkPiece) -> float:
    """Bytes per second of one device along a dimension: two directions on a ring, one on a line.

    Groups whose devices are `stride` apart share the links between with as many other groups.
    """
    return link.lane * (2 if piece.closed else 1) / piece.stride


def _rate(level: Level) -> float:
    """Bytes per second that one device sends to the others of its group, off a torus."""
    if level.link.topology == "ring":
        return level.link.lane * level.link.wired(level.size)
    return level.link.bandwidth


def _rails(kind: Kind, levels: list[Level]) -> list[Line]:
    """One pipelined ring through all networks, with a lane for each device of a node.

    Every lane crosses each slow network once, over the interface of another device.
    """
    if len(levels) < 2 or any(level.link.topology == "torus" for level in levels):
        return []
    slow = max(level.link.slowdown.get(kind.name.lower(), 1.0) for level in levels)
    inside, rate = 1, math.inf
    for level in levels:
        rate = min(rate, inside * _rate(level))
        inside *= level.size
    latency = (inside - 1) * max(level.link.latency for level in levels)
    return [Line(slow * latency, slow * (inside - 1) / inside / rate)]


def _exchanged(levels: list[Level]) -> list[Level]:
    """What an all-to-all crosses: a network of `whole_exchanges` alone, with all messages."""
    *_, last = levels
    if not last.link.whole_exchanges:
        return levels
    return [last._replace(size=math.prod(level.size for level in levels))]


def _exchange(level: Level) -> Line:
    """An all-to-all's share of one network: all messages at once, bound by its busiest link."""
    link, n = level.link, level.size
    slow = link.slowdown.get("all_to_all", 1.0)
    if link.topology != "torus":
        steps = math.ceil(math.log2(n))
        return Line(slow * steps * link.latency, slow * (n - 1) / n / _rate(level))
    # On a line of a devices the middle link carries floor(a^2 / 4) of the pairs each way.
    beta = max(p.size**2 // 4 / p.size / _line_rate(link, p) for p in level.pieces)
    steps = sum(p.stride * (p.size // 2 if p.closed else p.size - 1) for p in level.pieces)
    return Line(slow * steps * link.latency, slow * beta)


def _hop(level: Level) -> Line:
    """A permute between neighbours along the axes."""
    link = level.link
    slow = link.slowdown.get("collective_permute", 1.0)
    if link.topology == "torus":
        stride = max(piece.stride for piece in level.pieces)
        return Line(slow * stride * link.latency, slow * stride / link.lane)
    rate = link.lane * link.wired(2) if link.topology == "ring" else link.bandwidth
    return Line(slow * link.latency, slow / rate)
