"""What a step is predicted to take, as `plan.json` has it."""

from __future__ import annotations

from toast.plans.record import Record


class PredictedCost(Record):
    """What one step is predicted to take on one device.

    A step takes its computation and its communication less what of the two overlaps. Without an
    overlap it is the sum of the two, one after the other; with one an estimate of the makespan.
    `peak_bytes` is the memory that the compiler is predicted to lay out, `room_bytes` what it would
    with all the memory that it wants; where the device has less it computes again what it does not
    keep, and the computation includes that. Plans of before have no `room_bytes`.
    """

    step_seconds: float
    compute_seconds: float
    communication_seconds: float
    overlapped_seconds: float = 0.0
    peak_bytes: int
    room_bytes: int | None = None
    fits: bool
