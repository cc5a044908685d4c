"""Conflicts as records: what a compatibility set decides, and the graph that it lies on."""

from __future__ import annotations

from toast.plans.record import Record


class SetRow(Record):
    """A group of `isomorphic` compatibility sets: one bit of a resolution order.

    `resolutions` says for bit 0 and bit 1 what is sharded where the conflict arises, at `location`.
    """

    id: int
    colour: str
    conflicts: int
    isomorphic: int
    description: str
    resolutions: list[str]
    location: str


class GraphNode(Record):
    """A dimension name of the graph: `side` 0 or 1 of the set, -1 for a neighbour outside it.

    `op_number` is equal for names of one op; `dim` says which dimension it is.
    """

    id: int
    op: str
    op_number: int
    dim: str
    size: int
    location: str
    side: int


class GraphEdge(Record):
    """From a name at a definition to one at a use; `linked` joins a loop's ends instead."""

    source: int
    target: int
    linked: bool


class Graph(Record):
    """The dimension graph of one compatibility set of set group `set`, and what is next to it.

    `conflicts` are pairs of node ids. `left_out` counts the names of the set, and
    `neighbours_left_out` those next to it, that are not among `nodes`.
    """

    set: int
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    conflicts: list[tuple[int, int]]
    left_out: int
    neighbours_left_out: int


class ConflictSet(SetRow):
    """Conflicts of the module, and how the plan resolves them.

    `taken` is the resolution for each mesh axis that shards the colour; it is empty where the plan
    leaves the colour whole, so that nothing conflicts. `graph` is drawn for the first sets alone.
    """

    taken: dict[str, int]
    graph: Graph | None = None


class ResolvedConflicts(Record):
    """The module's conflicts: sets that the plan resolves come first; `others` are left out."""

    sets: list[ConflictSet]
    others: int = 0
