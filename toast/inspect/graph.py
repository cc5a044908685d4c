"""The dimension graph of one compatibility set (TOAST figure 5d), small enough to be drawn."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from toast.analysis.analyse import Analysis
from toast.analysis.conflicts import Conflict
from toast.analysis.errors import InvalidRequest
from toast.analysis.names import map_edges
from toast.analysis.program import Ints, Program
from toast.labels.conflict_words import ConflictWords, tensors
from toast.plans.conflicts import Graph, GraphEdge, GraphNode

MAX_NODES = 120
"""Names that a drawing has room for."""


def set_graph(
    analysis: Analysis, words: ConflictWords, which: int, limit: int = MAX_NODES
) -> Graph | None:
    """The graph of the first set of set group `which`: at most `limit` names.

    None where the program has no sets at all and the first is asked for. The names of the set
    come first, conflict by conflict in program order, then as many neighbours as there is room
    for. Raises InvalidRequest for a set group that does not exist.
    """
    count = analysis.groups.sets
    if count == 0 and which == 0:
        return None
    if not 0 <= which < count:
        known = f"Sets are numbered 0 to {count - 1}." if count else "It has no conflicts."
        raise InvalidRequest(f"The module has no compatibility set {which}.", known)
    conflicts, sides = _members(analysis, which)
    kept = conflicts[: _fitting(conflicts, limit)]
    side_of = _sides(kept, sides)
    edges = _edges(analysis)
    neighbours = _neighbours(edges, side_of, set(_sides(conflicts, sides)))
    room = limit - len(side_of)
    shown = [*side_of, *neighbours[:room]]
    op_of = _op_of(analysis.program, shown)
    nodes = [_node(analysis.program, words, n, op_of[n], side_of.get(n, -1)) for n in shown]
    return Graph(
        set=which,
        nodes=sorted(nodes, key=lambda node: node.id),
        edges=_between(edges, shown, list(side_of)),
        conflicts=[conflict.names for conflict in kept],
        left_out=len(_sides(conflicts, sides)) - len(side_of),
        neighbours_left_out=len(neighbours) - len(neighbours[:room]),
    )


def _members(analysis: Analysis, which: int) -> tuple[list[Conflict], list[int]]:
    """The conflicts of the first set of a set group and their sides, in program order."""
    conflicts = analysis.conflicts
    first = int(np.flatnonzero(analysis.groups.of_set == which)[0])
    numbers = np.flatnonzero(conflicts.set_of == first).tolist()
    return [conflicts.all[i] for i in numbers], conflicts.side[numbers].tolist()


def _fitting(conflicts: list[Conflict], limit: int) -> int:
    """How many conflicts, from the first on, have no more than `limit` names between them."""
    seen: set[int] = set()
    for count, conflict in enumerate(conflicts):
        seen.update(conflict.names)
        if len(seen) > limit:
            return count
    return len(conflicts)


def _sides(conflicts: Iterable[Conflict], sides: Iterable[int]) -> dict[int, int]:
    """For each name the resolution that shards it."""
    found: dict[int, int] = {}
    for conflict, side in zip(conflicts, sides, strict=False):
        found.setdefault(conflict.names[side], 0)
        found.setdefault(conflict.names[1 - side], 1)
    return found


def _edges(analysis: Analysis) -> tuple[Ints, Ints]:
    """The map M and the links of loops and branches, between names that have a colour."""
    colour = analysis.colours.colour
    found = []
    for pairs in (map_edges(analysis.program), analysis.program.links.reshape(-1, 2)):
        good = (colour[pairs[:, 0]] >= 0) & (colour[pairs[:, 1]] >= 0)
        found.append(np.unique(pairs[good], axis=0))
    return found[0], found[1]


def _neighbours(edges: tuple[Ints, Ints], shown: dict[int, int], whole: set[int]) -> list[int]:
    """Names one edge of M away from those shown and not in the set, in program order."""
    pairs, inside = edges[0], np.fromiter(shown, dtype=np.int64)
    after = pairs[np.isin(pairs[:, 0], inside), 1]
    before = pairs[np.isin(pairs[:, 1], inside), 0]
    found = np.unique(np.concatenate([before, after]))
    return [name for name in found.tolist() if name not in whole]


def _op_of(program: Program, names: list[int]) -> dict[int, int]:
    ops = np.searchsorted(program.op_factors, names, side="right") - 1
    return dict(zip(names, ops.tolist(), strict=True))


def _node(program: Program, words: ConflictWords, name: int, op: int, side: int) -> GraphNode:
    tensor = next((item for item in tensors(program, op) if name in item.names), None)
    role = ""
    if tensor is not None:
        position = tensor.names.tolist().index(name)
        letter = words.letters(op).get(name, "")
        brief = "" if tensor.role.startswith("result") else tensor.role.replace("operand", "in")
        role = f"{brief} dim {position}".strip() + (f" {letter}" if letter else "")
    return GraphNode(
        id=name,
        op=program.kind(op).removeprefix("stablehlo."),
        op_number=op,
        dim=role or "factor",
        size=int(program.factor_size[name]),
        location=words.line(op),
        side=side,
    )


def _between(edges: tuple[Ints, Ints], names: list[int], inside: list[int]) -> list[GraphEdge]:
    """Edges between `names`, at least one of them `inside` the set."""
    kept = [
        pairs[np.isin(pairs, names).all(axis=1) & np.isin(pairs, inside).any(axis=1)].tolist()
        for pairs in edges
    ]
    return [
        GraphEdge(source=source, target=target, linked=linked)
        for linked, pairs in zip((False, True), kept, strict=True)
        for source, target in pairs
    ]
