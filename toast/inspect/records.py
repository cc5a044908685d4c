"""What an inspection says: the rows of `toast inspect`, its JSON and its page."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Row(BaseModel):
    """Base of the rows of an inspection."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ColourRow(Row):
    """A colour group: `size` of its largest dimension, dimensions and ops that it touches.

    `location` is the source line of the first op that works along it.
    """

    name: str
    size: int
    dims: int
    colours: int
    arguments: list[str]
    ops: int
    location: str


class ConflictRow(Row):
    """Two names of one colour on one tensor, and where they collide.

    `names` are ordered by resolution: resolution 0 of the set shards the first.
    """

    colour: str
    set: int
    op: str
    tensor: str
    names: list[str]
    location: str


class SetRow(Row):
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


class GroupRow(Row):
    """Arguments of repeated layers, which get the same layout."""

    name: str
    members: list[str]


class NoRuleRow(Row):
    """An op that keeps every dimension whole because nobody has a rule for it."""

    op: str
    count: int


class GraphNode(Row):
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


class GraphEdge(Row):
    """From a name at a definition to one at a use; `linked` joins a loop's ends instead."""

    source: int
    target: int
    linked: bool


class Graph(Row):
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


class Inspection(Row):
    """All that `toast inspect` prints; `graph` is None where there are no sets."""

    ops: int
    arguments: int
    values: int
    colours: list[ColourRow]
    conflicts: list[ConflictRow]
    sets: list[SetRow]
    groups: list[GroupRow]
    no_rule: list[NoRuleRow]
    graph: Graph | None
    warnings: list[str]
    stages: dict[str, float]
