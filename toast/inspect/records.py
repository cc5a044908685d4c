"""What an inspection says: the rows of `toast inspect`, its JSON and its page."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from toast.plans.conflicts import Graph, SetRow


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


class GroupRow(Row):
    """Arguments of repeated layers, which get the same layout."""

    name: str
    members: list[str]


class NoRuleRow(Row):
    """An op that keeps every dimension whole because nobody has a rule for it."""

    op: str
    count: int


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
