"""HLO's own spelling of a sharding: `{devices=[2,1,4]<=[8] last_tile_dim_replicate}`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_DEVICES = re.compile(r"\{\s*devices=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?\s*([a-z_ ]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """How many tiles each dimension has, and the device order behind them.

    Devices 0, 1, ... are shaped as `reshape`, transposed by `permutation`, and then dealt to the
    tiles; what is left over holds replicas. No `counts` at all means replicated.
    """

    counts: tuple[int, ...] | None
    reshape: tuple[int, ...] = ()
    permutation: tuple[int, ...] = ()


def parse_tiles(text: str) -> Tiles | None:
    """Read a sharding string; None for spellings that are not understood."""
    stripped = text.strip()
    if stripped == "{replicated}":
        return Tiles(counts=None)
    match = _DEVICES.fullmatch(stripped)
    if match is None:
        return None
    counts, reshape = _numbers(match[1]), _numbers(match[2])
    permutation = _numbers(match[3]) if match[3] else tuple(range(len(reshape)))
    flag = match[4].strip()
    if flag == "last_tile_dim_replicate":
        counts = counts[:-1]
    elif flag:
        return None
    return Tiles(counts=counts, reshape=reshape, permutation=permutation)


def tile_axes(tiles: Tiles, rank: int, axes: list[tuple[str, int]]) -> list[list[str]] | None:
    """The mesh axes of each dimension, for devices numbered with the last axis fastest.

    None where the tiles are not a product of whole axes.
    """
    if tiles.counts is None:
        return [[] for _ in range(rank)]
    pieces = _split(tiles.reshape, axes)
    if pieces is None or len(tiles.counts) != rank:
        return None
    order = [piece for index in tiles.permutation for piece in pieces[index]]
    found: list[list[str]] = []
    for count in tiles.counts:
        taken, left = [], count
        while left > 1 and order and left % order[0][1] == 0:
            name, size = order.pop(0)
            taken.append(name)
            left //= size
        if left != 1:
            return None
        found.append(taken)
    return found


def _split(
    reshape: tuple[int, ...], axes: list[tuple[str, int]]
) -> list[list[tuple[str, int]]] | None:
    """The mesh axes behind each dimension of the device array, or None where they straddle."""
    left = [axis for axis in axes if axis[1] > 1]
    pieces: list[list[tuple[str, int]]] = []
    for size in reshape:
        piece: list[tuple[str, int]] = []
        while left and math.prod(n for _, n in piece) < size:
            piece.append(left.pop(0))
        if math.prod(n for _, n in piece) != size:
            return None
        pieces.append(piece)
    return None if left else pieces


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))
