"""Kernels for the way that XLA's partitioner takes from one layout to another.

It goes by how many parts each dimension has, and mends with one permute which device has which:

- Where no dimension gets fewer parts it cuts, where none gets more it gathers.
- Where as many parts leave some dimensions as come to others it exchanges. So it does after it cut,
  where all devices have a part in the end and a dimension that was whole takes what is new; and
  after it gathered, where one dimension gathered makes them as many.
- Otherwise it gathers whole what has another number of parts, and cuts.

The permute comes where the axes that a dimension has do not all stay, come or go: after cutting and
exchanging, before gathering.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toast.analysis.jit import inner
from toast.costmodel.kernels.incremental import axes_on

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables


class Way(NamedTuple):
    """What is sent, in this order, each by the axes that it is over; 0 where nothing is.

    `whole` is gathered first, and `cut` into so many parts what is sent after that. `gathered`
    makes one of `parts`.
    """

    whole: int
    cut: int
    exchanged: int
    traded: int
    gathered: int
    parts: int


class _Parts(NamedTuple):
    """How the parts of dimensions change.

    `traded` are the axes of dimensions that give some and take others, or that have as many parts
    of other axes; `leaving` those that leave dimensions with `shrunk` times fewer parts, `arriving`
    those that come where parts get more. `before` and `after` count parts of the tensor; `even`
    says that one divides the other on each dimension.
    """

    traded: int
    leaving: int
    arriving: int
    shrunk: int
    before: int
    after: int
    even: bool


@inner
def _parts(t: Tables, s: Scratch, source: int, target: int, whole: int) -> _Parts:
    """How parts change from one layout to another, where dimension `whole` was gathered (or -1)."""
    a, b = t.tensors.start[source], t.tensors.start[target]
    traded, leaving, arriving, shrunk, before, after, even = 0, 0, 0, 1, 1, 1, True
    for d in range(t.tensors.start[source + 1] - a):
        have, want = axes_on(t, s, a + d) if d != whole else 0, axes_on(t, s, b + d)
        here, there = t.mesh.shards[have], t.mesh.shards[want]
        gone, come = have & ~want, want & ~have
        before *= here
        after *= there
        if (come if here > there else gone) != 0:
            traded |= gone | come
        if here > there:
            leaving |= gone
            shrunk *= here // there
            even &= here % there == 0
        elif here < there:
            arriving |= come
            even &= there % here == 0
    return _Parts(traded, leaving, arriving, shrunk, before, after, even)


@inner
def _vanishing(t: Tables, s: Scratch, source: int, target: int) -> int:
    """Axes of one layout that the other has nowhere."""
    before, after = 0, 0
    for d in range(t.tensors.start[source], t.tensors.start[source + 1]):
        before |= axes_on(t, s, d)
    for d in range(t.tensors.start[target], t.tensors.start[target + 1]):
        after |= axes_on(t, s, d)
    return before & ~after


@inner
def _uneven(t: Tables, s: Scratch, source: int, target: int) -> int:
    """The axes of dimensions that have another number of parts afterwards."""
    a, b, found = t.tensors.start[source], t.tensors.start[target], 0
    for d in range(t.tensors.start[source + 1] - a):
        have, want = axes_on(t, s, a + d), axes_on(t, s, b + d)
        if t.mesh.shards[have] != t.mesh.shards[want]:
            found |= have
    return found


@inner
def _between(t: Tables, s: Scratch, source: int, surplus: int) -> int:
    """The first dimension that has so many parts; -1 if none has."""
    a = t.tensors.start[source]
    for d in range(t.tensors.start[source + 1] - a):
        if t.mesh.shards[axes_on(t, s, a + d)] == surplus:
            return d
    return -1


@inner
def _takes(t: Tables, s: Scratch, source: int, target: int, parts: int) -> bool:
    """Whether a dimension that is whole gets so many parts, or a multiple of these."""
    a, b = t.tensors.start[source], t.tensors.start[target]
    for d in range(t.tensors.start[source + 1] - a):
        there = t.mesh.shards[axes_on(t, s, b + d)]
        if axes_on(t, s, a + d) == 0 and there > 1 and there % parts == 0:
            return True
    return False


@inner
def _pick(t: Tables, axes: int, parts: int, last: bool) -> int:
    """Of these axes the first or the last that make so many parts; all if none do."""
    picked, count = 0, len(t.mesh.axis_size)
    for k in range(count):
        one = 1 << (count - 1 - k if last else k)
        if axes & one and parts % t.mesh.shards[picked | one] == 0:
            picked |= one
    return picked if t.mesh.shards[picked] == parts else axes


@inner
def find_way(t: Tables, s: Scratch, source: int, target: int) -> Way:
    """The way from one layout of a tensor to another."""
    found, whole = _parts(t, s, source, target, -1), 0
    mixed, every = found.leaving != 0 and found.arriving != 0, len(t.mesh.shards) - 1
    if mixed and found.before != found.after:
        if found.before > found.after and found.before % found.after == 0:
            dim = _between(t, s, source, found.before // found.after)
            if dim >= 0:
                whole = axes_on(t, s, t.tensors.start[source] + dim)
                found = _parts(t, s, source, target, dim)
        spreads = found.after == t.mesh.shards[every] and _takes(
            t, s, source, target, found.after // found.before
        )
        if whole == 0 and not spreads:
            return Way(_uneven(t, s, source, target), 1, 0, 0, 0, 1)
    if not found.even:
        return Way(_uneven(t, s, source, target), 1, 0, 0, 0, 1)
    cut = max(1, found.after // found.before)
    traded, exchanged, gathered = found.traded, 0, 0
    if found.leaving and found.arriving:
        exchanged = _pick(t, found.leaving, found.shrunk, True)
        if found.leaving & ~found.arriving:
            traded |= found.leaving | found.arriving
    elif found.leaving:
        gathered = _pick(t, _vanishing(t, s, source, target) & ~whole, found.shrunk, False)
    return Way(whole, cut, exchanged, traded, gathered, found.shrunk)
