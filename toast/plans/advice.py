"""What would fit where a plan does not: other chips, smaller batches, recomputation."""

from __future__ import annotations

from pydantic import Field

from toast.plans.record import Record
from toast.plans.time import RewritingTried


class Slice(Record):
    """So many chips of one kind, and the best plan that a short search found on them.

    `fits` is None where nobody knows: the time was up. `reason` says why there is no plan, or what
    else to know of it. `chip_seconds` is the time of a step, of all chips together.
    """

    device: str
    devices: int = Field(ge=1)
    memory_bytes: int
    mesh: str = ""
    fits: bool | None = None
    step_seconds: float | None = None
    peak_bytes: int | None = None
    chip_seconds: float | None = None
    reason: str = ""


class SliceTable(Record):
    """What `toast size` finds: slices, those that fit first, the least chip-seconds first."""

    slices: list[Slice]
    seconds: float
    warnings: list[str] = Field(default_factory=list)


class LargestBatch(Record):
    """The largest batch that fits the chips at hand.

    `size` is that of the module. `fits` is the largest of the sizes tried that fits (None: none
    did), `too_large` the smallest that does not. Sizes are multiples of `step`, so that the batch
    still divides over the mesh. Time and peak are those of the program at the size that fits.
    """

    argument: str
    size: int
    step: int
    fits: int | None
    too_large: int
    step_seconds: float | None = None
    peak_bytes: int | None = None


class Advice(Record):
    """What would fit, where the plan does not.

    `slices` are the slices tried: the plan's chip by rising number, then other chips in the same
    number. `fewest` is the smallest number of the plan's own chip that a plan was found for. Beside
    those, all is for the plan's own mesh. `rewritings` are what `--fit` would choose from: the step
    rewritten and planned by a short search; `chosen` is the best of them. `left_out` says what
    there was no time or no way for.
    """

    slices: list[Slice]
    fewest: int | None
    batch: LargestBatch | None
    rewritings: list[RewritingTried] = Field(default_factory=list)
    left_out: list[str]
