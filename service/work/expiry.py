"""Deletes what is past its time: jobs that ended long ago, then modules that no job names.

Rows go first, then the files that no row names any more, each under the guard of the artifacts: a
submit, an upload or a reused result that comes in between keeps its files.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from toast.service.context import Context
from toast.service.ledger.records import Job
from toast.service.problems import DatabaseAway, DiskFull

_log = logging.getLogger("toast.service")

_BATCH = 100
_LONGEST_PAUSE = 600.0
_JUMP_SECONDS = 300.0
"""A clock that differs by more from the time that passed was set, by somebody or by a fault."""
_HOLD_SECONDS = 86_400.0
"""How long nothing expires after that: a day for somebody to see it."""


def running_time() -> float:
    """Seconds since some start, the time that the machine slept included where it can be had."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def forget_files(context: Context, job: Job) -> None:
    """Remove the files of a deleted job that no other job shares."""
    for sha256 in (job.plan_sha256, job.result_sha256):
        if sha256 is not None:
            context.artifacts.release(sha256, context.store.refers_to)


class Sweeper:
    """A thread that looks now and then for what `keep_jobs` and `keep_modules` say is to go."""

    def __init__(self, context: Context, *, running: Callable[[], float] = running_time) -> None:
        self._context = context
        self._running = running
        self._over = threading.Event()
        self._hold_until = float("-inf")
        self._seen: tuple[float, float] | None = None
        self._thread = threading.Thread(target=self._sweep_for_ever, name="expiry")

    def start(self) -> None:
        """Begin to look, unless everything is kept for ever."""
        if self._times():
            self._thread.start()

    def stop(self) -> None:
        """Return when nothing is deleted any more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def sweep(self) -> None:
        """Look once. After a jump of the clock nothing goes for a day."""
        now = self._context.store.clock()
        if not self._is_steady(now):
            return
        settings = self._context.settings
        if settings.keep_jobs is not None:
            self._expire_jobs(now - settings.keep_jobs)
        if settings.keep_modules is not None:
            self._expire_modules(now - settings.keep_modules)

    def _sweep_for_ever(self) -> None:
        pause = min(_LONGEST_PAUSE, min(self._times()) / 10)
        while not self._over.wait(pause):
            try:
                self.sweep()
            except (DatabaseAway, DiskFull) as error:
                _log.warning("nothing expires: %s", error.message)
            except Exception:
                _log.exception("expiry failed; trying again")

    def _times(self) -> list[float]:
        settings = self._context.settings
        return [time for time in (settings.keep_jobs, settings.keep_modules) if time is not None]

    def _is_steady(self, now: float) -> bool:
        running = self._running()
        if self._seen is not None:
            jump = (now - self._seen[0]) - (running - self._seen[1])
            if abs(jump) > _JUMP_SECONDS:
                _log.warning("the clock jumped by %.0f s: nothing expires for a day", jump)
                self._hold_until = running + _HOLD_SECONDS
        self._seen = now, running
        return running >= self._hold_until

    def _expire_jobs(self, before: float) -> None:
        context = self._context
        while not self._over.is_set():
            gone = context.store.expire_jobs(before=before, limit=_BATCH)
            for job in gone:
                forget_files(context, job)
                context.notifier.notify(job.id)
            self._say("job", len(gone))
            if len(gone) < _BATCH:
                return

    def _expire_modules(self, before: float) -> None:
        context = self._context
        while not self._over.is_set():
            gone = context.store.expire_modules(before=before, limit=_BATCH)
            for sha256 in gone:
                context.artifacts.release(sha256, context.store.refers_to)
            self._say("module", len(gone))
            if len(gone) < _BATCH:
                return

    def _say(self, what: str, count: int) -> None:
        if count:
            self._context.metrics.expired.labels(what=what).inc(count)
            _log.info("%d %ss expired", count, what)
