"""Repeated layers that follow one another in a block, and where one ends and the next begins.

A layer is all that the forward pass computes with the weights of one entry of a repeated path,
`params/layers/3`. Between the last op that reads a weight of one layer and the first that reads one
of the next, the cut is where the fewest bytes are handed on: in a transformer that is the residual
stream.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toast.analysis.program import PASSING
from toast.recompute.block import BlockOps
from toast.recompute.directions import Direction
from toast.recompute.ops import size_of

_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedLayers:
    """Repeated layers of one name: number k is computed at the places [cuts[k], cuts[k + 1])."""

    name: str
    cuts: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.cuts) - 1

    def layer_at(self, place: int) -> int:
        """The layer that a place belongs to, -1 for none."""
        if not self.cuts[0] <= place < self.cuts[-1]:
            return -1
        return next(k for k in range(self.count) if place < self.cuts[k + 1])


def named_layers(
    block: BlockOps, passes: Sequence[Direction], names: Mapping[Any, str]
) -> list[RepeatedLayers]:
    """The repeated layers of a block by the paths of its arguments; some are within others."""
    members: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    everything: list[int] = []
    for place, name in _weight_reads(block, passes, names):
        everything.append(place)
        for pattern, layer in _entries(name):
            members[pattern][layer].append(place)
    everything.sort()
    found: list[RepeatedLayers] = []
    for pattern in sorted(members, key=lambda one: (one.count("/"), one)):
        spans = sorted((min(all_), max(all_)) for all_ in members[pattern].values())
        apart = all(a[1] < b[0] for a, b in itertools.pairwise(spans))
        if len(spans) > 1 and apart:
            cuts = cuts_between(block, passes, spans, everything)
            found.append(RepeatedLayers(name=pattern, cuts=cuts))
    return found


def _entries(name: str) -> Iterator[tuple[str, str]]:
    """The repeated paths that a path is in, starred, each with the path of the entry."""
    steps = name.split("/")
    for place, step in enumerate(steps[1:], 1):
        if _DIGITS.search(step):
            entry = "/".join(steps[: place + 1])
            yield f"{steps[0]}/{_DIGITS.sub('*', entry.split('/', 1)[1])}", entry


def _weight_reads(
    block: BlockOps, passes: Sequence[Direction], names: Mapping[Any, str]
) -> Iterator[tuple[int, str]]:
    """Where the forward pass reads an argument, other than to have it in another form."""
    for place, (op, read) in enumerate(zip(block.ops, block.read, strict=True)):
        if passes[place] == Direction.FORWARD and op.name not in PASSING:
            for one in read:
                if one.value in names:
                    yield place, names[one.value]


def cuts_between(
    block: BlockOps,
    passes: Sequence[Direction],
    spans: Sequence[tuple[int, int]],
    everything: Sequence[int],
) -> tuple[int, ...]:
    """Where the layers begin and end: before the first, between any two, after the last."""
    before = [place for place in everything if place < spans[0][0]]
    after = [place for place in everything if place > spans[-1][1]]
    end = max(place for place, one in enumerate(passes) if one == Direction.FORWARD) + 1
    windows = [
        (before[-1] + 1 if before else 0, spans[0][0]),
        *((one[1] + 1, other[0]) for one, other in itertools.pairwise(spans)),
        (spans[-1][1] + 1, after[0] if after else end),
    ]
    return _narrowest(block, passes, windows)


def _narrowest(
    block: BlockOps, passes: Sequence[Direction], windows: Sequence[tuple[int, int]]
) -> tuple[int, ...]:
    """For each window [a, b] the place before which the forward pass hands on the fewest bytes.

    The last layer ends as soon as it hands on no more than the others: behind it is the loss.
    """
    change = [0] * (len(block.ops) + 1)
    for value, made in block.made.items():
        if made >= 0 and passes[made] == Direction.FORWARD and not block.fixed[made]:
            last = max(
                (p for p in block.readers.get(value, ()) if passes[p] == Direction.FORWARD),
                default=made,
            )
            if last > made:
                change[made + 1] += size_of(value)
                change[last + 1] -= size_of(value)
    width = list(itertools.accumulate(change))
    *before, (a, b) = windows
    cuts = [min(range(a, b + 1), key=width.__getitem__) for a, b in before]
    most = max(width[place] for place in cuts[1:])
    end = next((place for place in range(a, b + 1) if width[place] <= most), None)
    return (*cuts, end if end is not None else min(range(a, b + 1), key=width.__getitem__))
