"""The stages of a job: how long each takes, and how far the whole is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from toast.analysis.load import Source
from toast.costmodel.evaluator import Reward
from toast.search.progress import COMPILING, Progress

_COMPILING_PART = 0.5


class Stages:
    """Times the stages of a job and reports its progress."""

    def __init__(self, on_progress: Callable[[Progress], None] | None) -> None:
        self._on_progress = on_progress
        self._start = self._entered = time.perf_counter()
        self._stage = ""
        self._from = self._to = self._before = 0.0
        self._last = Progress(stage="")
        self._reward: Reward | None = None
        self._seconds: dict[str, float] = {}

    def enter(self, stage: str, fraction: float, to: float | None = None) -> None:
        """Begin a stage; `fraction` of the whole job lies behind it, `to` when it is over."""
        now = time.perf_counter()
        self._seconds = self._spent(now)
        self._stage, self._from, self._entered = stage, fraction, now
        self._to = fraction if to is None else to
        self._tell(replace(self._last, stage=stage, fraction=fraction, detail=""))

    def compiling(self, share: float) -> None:
        """Report how much of the kernels is compiled, which takes longer than many a job.

        The bar gives the first half to it and the second to the job; its time stays under the name
        of the stage.
        """
        self._before = 0.0
        self._tell(replace(self._last, stage=COMPILING, fraction=_COMPILING_PART * share))
        self._before = _COMPILING_PART

    def rewarded(self, reward: Reward) -> None:
        """By this the searches from now on measure what they find."""
        self._reward = reward

    def report(self, progress: Progress) -> None:
        """Progress of a search within the stage."""
        whole = self._from + (self._to - self._from) * progress.fraction
        found = replace(progress, stage=self._stage, fraction=whole)
        if self._reward is not None and progress.best_bytes:
            seconds = self._reward.step_seconds(progress.best_cost, progress.best_bytes)
            found = replace(found, best_seconds=seconds)
        self._tell(found)

    def until_now(self, source: Source) -> dict[str, float]:
        """Seconds by stage so far; loading is split into its own stages."""
        seconds = self._spent(time.perf_counter())
        seconds.pop("load", None)
        loading = {f"load.{stage}": spent for stage, spent in source.seconds.items()}
        found = {"kernels": seconds.pop("kernels"), **loading, **seconds}
        return {stage: round(spent, 6) for stage, spent in found.items()}

    def _spent(self, now: float) -> dict[str, float]:
        """Seconds by stage, of that which goes on as well."""
        if not self._stage:
            return self._seconds
        spent = self._seconds.get(self._stage, 0.0) + now - self._entered
        return self._seconds | {self._stage: spent}

    def _tell(self, progress: Progress) -> None:
        elapsed = time.perf_counter() - self._start
        whole = self._before + (1.0 - self._before) * progress.fraction
        fraction = max(whole, self._last.fraction)
        self._last = replace(progress, fraction=fraction, seconds=elapsed)
        if self._on_progress is not None:
            self._on_progress(self._last)
