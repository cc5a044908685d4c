"""What `plan.json` says of a program that runs its batch in parts, one after the other."""

from __future__ import annotations

from pydantic import Field

from toast.plans.record import Record
from toast.request.request import Accumulate


class CarriedValues(Record):
    """Values of one shape and type that the loop over the microbatches carries.

    `bytes` are those of all of them together, before any sharding.
    """

    shape: list[int]
    dtype: str
    count: int
    bytes: int


class RewritingTried(Record):
    """A rewriting of the program that was planned: how many microbatches, and what it costs.

    `recompute` says which layers the backward pass makes again, as `--recompute` takes it.
    `reason` says why there is no plan of it; `chosen` is that of this plan.
    """

    microbatches: int = Field(ge=1)
    recompute: str = ""
    step_seconds: float | None = None
    peak_bytes: int | None = None
    fits: bool | None = None
    reason: str = ""
    chosen: bool = False

    @property
    def flags(self) -> str:
        """The flags of `toast plan` that make it, "" for the program as it is."""
        return flags_of(self.microbatches, self.recompute)


def flags_of(microbatches: int, recompute: str) -> str:
    """The flags of `toast plan` that make a rewriting."""
    parts = [f"--microbatches {microbatches}"] if microbatches > 1 else []
    return " ".join([*parts, *(f"--recompute {word}" for word in recompute.split())])


class TimeAxes(Record):
    """The time axis of a plan.

    The batch, dimension `dimension` of the argument `argument` and of the other `arguments`, of
    `size` elements, runs in so many `microbatches`. `sums` are added up over them (in the type that
    `accumulate` asks for), `stacks` are written part by part. `before` ops of the program run once
    before the loop, `inside` in it, and `after` when it is over. `tried` are the rewritings that
    were compared; the first is the program as it is. What was saved is the difference to that.
    """

    argument: str
    dimension: int
    arguments: list[str]
    size: int
    microbatches: int = Field(ge=1)
    accumulate: Accumulate = "program"
    sums: list[CarriedValues] = Field(default_factory=list)
    stacks: list[CarriedValues] = Field(default_factory=list)
    before: int = 0
    inside: int = 0
    after: int = 0
    tried: list[RewritingTried] = Field(default_factory=list)

    @property
    def sum_bytes(self) -> int:
        """Bytes of all sums, before any sharding."""
        return sum(one.bytes for one in self.sums)
