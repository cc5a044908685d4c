"""What `plan.json` says of layers whose forward pass runs again in the backward pass."""

from __future__ import annotations

from pydantic import Field

from toast.plans.record import Record
from toast.plans.time import RewritingTried


class RecomputedLayers(Record):
    """One group of layers: how many there are, and which policy they are under.

    `before_bytes` are what the forward pass of the program as it came keeps of them for the
    backward pass, `kept_bytes` what it keeps now, before any sharding. `ops` run again, and
    `blocked` are ops that cannot run twice: what these make is kept.
    """

    name: str
    layers: int
    policy: str
    before_bytes: int
    kept_bytes: int
    ops: int
    blocked: list[str] = Field(default_factory=list)


class RecomputedPlan(Record):
    """The layers of a plan that are recomputed.

    `tried` are the rewritings that were compared, where several were; the first is the program as
    it is. What was saved and what it cost is the difference to that.
    """

    groups: list[RecomputedLayers]
    tried: list[RewritingTried] = Field(default_factory=list)
