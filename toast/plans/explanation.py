"""Where the time and the memory of a plan go, as it is written to `plan.json`.

Lists are cut to their largest rows and the rest is summed in the `other` row beside them, so the
sum of a list and its rest is the plan's own figure.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from toast.plans.advice import Advice
from toast.plans.record import Record

Direction = Literal["forward", "backward", ""]
Why = Literal["partial_sum", "resharding", "halo", "region"]
SentFor = Literal[
    "",
    "scattered",
    "unwanted",
    "two_dimensions",
    "all_devices",
    "batch",
    "lookup",
    "sliced",
    "sharded_already",
    "segments",
    "axis_order",
    "behind_loop",
    "regathered",
    "gathered",
    "exchanged",
    "reordered",
    "neighbours",
    "left_out",
    "in_region",
    "traded",
    "rematerialized",
    "uneven",
    "flattened",
    "complex",
]
Reason = Literal[
    "argument",
    "result",
    "saved_for_backward",
    "kept_for_later",
    "loop_carry",
    "temporary",
    "resharded_copy",
    "partial_sum",
]
Obstacle = Literal[
    "pinned",
    "forbidden",
    "indivisible",
    "axis_taken",
    "no_name",
    "resolution",
    "not_freed",
    "costs_time",
    "pays",
]


class Rest(Record):
    """The rows that a list leaves out, summed."""

    rows: int = 0
    seconds: float = 0.0
    bytes: int = 0


class FusionRow(Record):
    """Fusions of one kind of op at one place of the source; `seconds` and `bytes` of all runs.

    `group` is the layer group, named after its weights. `partial_sums` where the time is that of
    writing partial sums for a collective and of reading what it made of them.
    """

    op: str
    place: str
    location: str
    direction: Direction
    group: str
    bound: Literal["arithmetic", "bytes", "elements"]
    partial_sums: bool
    fusions: int
    runs: int
    bytes: int
    seconds: float


class OpRow(Record):
    """What all fusions of one kind of op take, wherever they are."""

    op: str
    runs: int
    bytes: int
    seconds: float


class CollectiveRow(Record):
    """Collectives of one kind, over the same axes, of values made at one place of the source.

    `why`: `partial_sum` where an op summed over a sharded dimension, `resharding` where a value is
    wanted in another layout than it has, `halo` where a neighbour's strip is needed. `value` names
    it, `needed_by` is the op that wants it. `reason` is why it is this collective and no cheaper
    one (docs/explain.md has them all; empty in plans of older versions), `combined` whether the
    compiler sends it together with others. `decisions` are the numbers, from 1, of the decisions
    of the plan that shard what it works on over its axes; none where the layout is pinned.
    """

    kind: str
    axes: list[str]
    why: Why
    value: str
    needed_by: str
    location: str
    direction: Direction
    group: str
    count: int
    bytes: int
    seconds: float
    reason: SentFor = ""
    combined: bool = False
    decisions: list[int] = Field(default_factory=list)


class LayerRow(Record):
    """What one layer group costs: seconds of a step, and bytes of it that are alive at the peak."""

    name: str
    compute_seconds: float
    communication_seconds: float
    peak_bytes: int


class AliveRow(Record):
    """Values alive at the peak: `count` of them that were made at one place with one shape.

    `shape` is that of one device, `bytes` are all of them together. `colours` has the `id` of the
    colour of each dimension, -1 for none; it is empty in plans of older versions.
    """

    name: str
    location: str
    group: str
    shape: list[int]
    dtype: str
    count: int
    bytes: int
    why: Reason
    colours: list[int] = Field(default_factory=list)


class PeakMoment(Record):
    """When the peak is reached: at an op, `position` of `positions` in the schedule."""

    op: str
    location: str
    position: int
    positions: int
    bytes: int


class TimelinePoint(Record):
    """The most memory over the positions from `position` to that of the next point."""

    position: int
    bytes: int


class Explanation(Record):
    """Time by fusion, collective and layer group; memory at the peak and over the schedule.

    `ops` are the fusions by kind of op alone. Lists are in falling order of seconds or bytes; layer
    groups of seconds.
    """

    fusions: list[FusionRow]
    other_fusions: Rest
    collectives: list[CollectiveRow]
    other_collectives: Rest
    layers: list[LayerRow]
    other_layers: LayerRow
    peak: PeakMoment
    alive: list[AliveRow]
    other_alive: Rest
    timeline: list[TimelinePoint]
    ops: list[OpRow] = Field(default_factory=list)
    other_ops: Rest = Field(default_factory=Rest)


class SplitRow(Record):
    """One way to split a tensor further: a dimension over a mesh axis, and why it is not done.

    For `costs_time`, `pays` and `not_freed` the plan was priced with that action added:
    `peak_bytes`, `step_seconds` and `cost` are those of the result, `frees_bytes` what its peak is
    below this plan's. `detail` is the reason in words.
    """

    dimension: int
    size: int
    axis: str
    obstacle: Obstacle
    detail: str
    frees_bytes: int = 0
    peak_bytes: int | None = None
    step_seconds: float | None = None
    cost: float | None = None


class BlockedTensor(Record):
    """One of the largest tensors at the peak, and the splits that would make it smaller.

    It is split `shards` ways already; at as many as there are devices no split is left.
    """

    tensor: AliveRow
    shards: int
    splits: list[SplitRow]


class Shortfall(Record):
    """Why no plan fits: `over_bytes` above the memory at `peak`, and what stands in the way.

    `advice` is what would fit; None where the request did not ask for it, or there was no time.
    """

    over_bytes: int = Field(gt=0)
    peak: PeakMoment
    tensors: list[BlockedTensor]
    advice: Advice | None = None
