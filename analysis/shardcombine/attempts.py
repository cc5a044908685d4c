"""Which dimensions to split together: the inner loop of MetaDist's Algorithm 1, kept short.

The paper tries all subsets of the unassigned dimensions of later operands. Two rules keep that
small: one id splits at most one dimension of an operand (a mesh axis can do no more), and sets of
equal sizes come first. What is left is cut off at a limit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from toast.analysis.shardcombine.findings import Finding
from toast.analysis.shardcombine.opcopy import Shapes

Dims = tuple[int, ...]
"""Per operand the dimension that is split, -1 for none."""
Dim = tuple[int, int]
"""Operand and dimension."""

EQUAL_LIMIT = 48
UNEQUAL_LIMIT = 24
HALO_PARTNERS = 4
MAX_HALO = 4


def all_dims(shapes: Shapes) -> list[Dim]:
    """Every dimension above 1, in the order of Algorithm 1."""
    return [(i, d) for i, shape in enumerate(shapes) for d, size in enumerate(shape) if size > 1]


def used(dims: Dims) -> set[Dim]:
    """The dimensions that `dims` splits."""
    return {(operand, dim) for operand, dim in enumerate(dims) if dim >= 0}


def start_of(dims: Dims) -> Dim:
    """The first dimension that `dims` splits."""
    return min(used(dims))


def equal_sets(shapes: Shapes, start: Dim, free: set[Dim]) -> list[Dims]:
    """Sets of dimensions as large as `start`, most promising first."""
    size = shapes[start[0]][start[1]]
    options = [
        [-1, *(d for d in range(len(shape)) if (i, d) in free and shape[d] == size)]
        for i, shape in enumerate(shapes)
    ]
    return _sets(shapes, start, options, EQUAL_LIMIT)


def unequal_sets(shapes: Shapes, start: Dim, free: set[Dim]) -> list[Dims]:
    """Pairs of `start` with a dimension of another size."""
    size = shapes[start[0]][start[1]]
    partners = [(i, d) for i, d in _later(shapes, start, free) if shapes[i][d] != size]
    pairs = (_join(len(shapes), (start, partner)) for partner in partners)
    return list(itertools.islice(pairs, UNEQUAL_LIMIT))


def halo_sets(shapes: Shapes, start: Dim, free: set[Dim]) -> list[Dims]:
    """`start` alone, then with each of a few dimensions of later operands, equal sizes first."""
    size = shapes[start[0]][start[1]]
    later = sorted(_later(shapes, start, free), key=lambda at: abs(shapes[at[0]][at[1]] - size))
    alone = _join(len(shapes), (start,))
    return [alone, *(_join(len(shapes), (start, other)) for other in later[:HALO_PARTNERS])]


def halos(size: int) -> list[tuple[int, int]]:
    """Widths of the strips that two shards of `size` rows take from each other, narrow first."""
    limit = min(MAX_HALO, size // 4)
    widths = range(limit + 1)
    pairs = [(left, right) for left in widths for right in widths if left or right]
    return sorted(pairs, key=lambda pair: (max(pair), sum(pair)))


def from_findings(shapes: Shapes, hints: Iterable[Finding], free: set[Dim]) -> list[Dims]:
    """What earlier findings for the same kind of op split, where operands of these shapes can.

    Halos are left out: how wide they are depends on more than the kind of op.
    """
    dims = (hint.dims for hint in hints if hint.halo == (0, 0) and len(hint.dims) == len(shapes))
    return [split for split in dict.fromkeys(dims) if used(split) and used(split) <= free]


def _later(shapes: Shapes, start: Dim, free: set[Dim]) -> list[Dim]:
    return [(i, d) for i, d in all_dims(shapes) if i > start[0] and (i, d) in free]


def _join(operands: int, dims: Iterable[Dim]) -> Dims:
    found = [-1] * operands
    for operand, dim in dims:
        found[operand] = dim
    return tuple(found)


def _sets(shapes: Shapes, start: Dim, options: list[list[int]], limit: int) -> list[Dims]:
    first, dim = start
    later = options[first + 1 :]
    head = (*([-1] * first), dim)
    aligned = tuple(
        dim if dim in option and len(shape) == len(shapes[first]) else -1
        for option, shape in zip(later, shapes[first + 1 :], strict=True)
    )
    single = tuple(option[1] if len(option) == 2 else -1 for option in later)
    likely: list[Dims] = [(-1,) * len(later), aligned, single]
    every = itertools.chain(likely, itertools.product(*later))
    capped = itertools.islice(every, limit + len(likely))
    return list(dict.fromkeys((*head, *rest) for rest in capped))
