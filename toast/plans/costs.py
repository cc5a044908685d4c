"""What a step is predicted to take, as `plan.json` has it."""

from __future__ import annotations

from typing import Literal

from toast.costmodel.hardware.quantities import (
    bytes_between,
    format_bytes,
    format_seconds,
    seconds_between,
)
from toast.plans.record import Record

FitVerdict = Literal["fits", "tight", "does not fit"]


BandFigure = Literal[
    "step_seconds",
    "compute_seconds",
    "communication_seconds",
    "peak_bytes",
    "room_bytes",
    "pressed_bytes",
]


class Band(Record):
    """The ends between which a figure lay for nine of ten held-out programs."""

    low: float
    high: float


class Bands(Record):
    """A band beside each figure of a prediction; None where too few programs were measured."""

    step_seconds: Band | None = None
    compute_seconds: Band | None = None
    communication_seconds: Band | None = None
    peak_bytes: Band | None = None
    room_bytes: Band | None = None
    pressed_bytes: Band | None = None


class BandSource(Record):
    """The programs behind the band of a figure.

    `chips` is the chip that they were compiled for, its platform, or `all`; `kind` what they do, or
    `all`. Of a chip or a kind of which there are too few, wider groups speak.
    """

    figure: Literal["step", "compute", "communication", "room", "pressed"]
    chips: str
    kind: str
    cases: int
    programs: int


class PredictedCost(Record):
    """What one step is predicted to take on one device.

    A step takes its computation and its communication less what of the two overlaps. Without an
    overlap it is the sum of the two, one after the other; with one an estimate of the makespan.
    `peak_bytes` is the memory that the compiler is predicted to lay out, `room_bytes` what it would
    with all the memory that it wants, the holes between buffers included that a TPU's compiler
    leaves (`peak_bytes` is without them), `pressed_bytes` the least that it could; where the device
    has less than it wants it computes again what it does not keep, and the computation includes
    that.

    `fits` says whether `peak_bytes` is at most the memory; `verdict` is `tight` where the band of
    `peak_bytes` holds that memory, so that the prediction does not decide. What was not reckoned,
    as in plans of before, is None.
    """

    step_seconds: float
    compute_seconds: float
    communication_seconds: float
    overlapped_seconds: float = 0.0
    peak_bytes: int
    room_bytes: int | None = None
    pressed_bytes: int | None = None
    fits: bool
    verdict: FitVerdict | None = None
    bands: Bands | None = None

    @property
    def said(self) -> FitVerdict:
        """The verdict; where no band was reckoned, that of the figure alone."""
        return self.verdict or ("fits" if self.fits else "does not fit")

    def band(self, figure: BandFigure) -> Band | None:
        """The band of a field."""
        found: Band | None = None if self.bands is None else getattr(self.bands, figure)
        return found

    @property
    def step_text(self) -> str:
        """Seconds of a step, with their band where there is one."""
        band = self.band("step_seconds")
        if band is None:
            return format_seconds(self.step_seconds)
        return seconds_between(self.step_seconds, band.low, band.high)

    @property
    def peak_text(self) -> str:
        """Bytes at the peak, with their band where there is one."""
        band = self.band("peak_bytes")
        if band is None:
            return format_bytes(self.peak_bytes)
        return bytes_between(self.peak_bytes, band.low, band.high)


def fit_verdict(peak: float, band: Band | None, memory: int) -> FitVerdict:
    """Whether a peak fits a memory: tight where the memory lies in the band of the peak."""
    low, high = (peak, peak) if band is None else (band.low, band.high)
    return "fits" if high <= memory else "does not fit" if low > memory else "tight"


def tight_warnings(cost: PredictedCost, memory: int) -> list[str]:
    """What who plans should know of a plan that is too near the memory to tell."""
    band = cost.band("peak_bytes")
    if cost.said != "tight" or band is None:
        return []
    low, high = format_bytes(band.low), format_bytes(band.high)
    text = (
        f"The plan is tight: {format_bytes(cost.peak_bytes)} is predicted, nine in ten programs "
        f"took {low} to {high}, and there are {format_bytes(memory)}. "
        "`toast plan --confirm` asks the compiler."
    )
    return [text]
