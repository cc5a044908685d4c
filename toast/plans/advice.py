"""What would fit where a plan does not: other chips, smaller batches, recomputation."""

from __future__ import annotations

from pydantic import Field

from toast.plans.record import Record


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


class Microbatches(Record):
    """An estimate: the batch in `count` parts of `size`, whose gradients are added up.

    The peak is that of the program at such a batch, and `gradient_bytes` for the sums. The time is
    `count` times that of the program at such a batch, less all updates of parameters but one, and
    what adding up takes. `count` is the smallest that was found to fit.
    """

    count: int
    size: int
    gradient_bytes: int
    peak_bytes: int
    step_seconds: float


class RecomputedBlocks(Record):
    """An estimate: what is gained where each of `blocks` repeated blocks is recomputed.

    That is `jax.checkpoint` around each: only what one block hands to the next is kept for the
    backward pass. `residual_bytes` are what is kept today, `saved_bytes` by how much the peak falls
    to `peak_bytes`, and `extra_seconds` the time of the forward pass of the blocks once more, which
    is at most what it costs.
    """

    name: str
    blocks: int
    residual_bytes: int
    saved_bytes: int
    peak_bytes: int
    extra_seconds: float
    fits: bool


class Advice(Record):
    """What would fit, where the plan does not.

    `slices` are the slices tried: the plan's chip by rising number, then other chips in the same
    number. `fewest` is the smallest number of the plan's own chip that a plan was found for. Beside
    those, all is for the plan's own mesh. `left_out` says what there was no time or no way for.
    """

    slices: list[Slice]
    fewest: int | None
    batch: LargestBatch | None
    microbatches: Microbatches | None
    recompute: list[RecomputedBlocks]
    left_out: list[str]
