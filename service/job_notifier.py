"""Wakes the requests that wait for a job, from whatever thread changed it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator


class JobNotifier:
    """One `asyncio.Event` for each waiting request, set by job id.

    A notification is a hint, never the truth. The request that waits reads the store again, and
    does so every second without a notification too, because another server on the same database
    does not notify this one; more rarely where the database passes on what all of them do.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self.draining = False
        self.hears_others = False

    @property
    def pause(self) -> float:
        """Seconds without a notification after which one reads again."""
        return 5.0 if self.hears_others else 1.0

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop in which the requests wait."""
        self._loop = loop

    @contextlib.contextmanager
    def listen(self, job_id: str) -> Iterator[asyncio.Event]:
        """An event that is set at each change of the job."""
        event = asyncio.Event()
        self._waiting[job_id].add(event)
        try:
            yield event
        finally:
            self._waiting[job_id].discard(event)
            if not self._waiting[job_id]:
                del self._waiting[job_id]

    def notify(self, job_id: str) -> None:
        """The job changed. Safe from any thread, and before or after the loop runs."""
        self._soon(job_id)

    def drain(self) -> None:
        """The service shuts down: every waiting request wakes and leaves. Signal-safe."""
        self.draining = True
        self._soon(None)

    def _soon(self, job_id: str | None) -> None:
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # closed in between
                self._loop.call_soon_threadsafe(self._wake, job_id)

    def _wake(self, job_id: str | None) -> None:
        names = list(self._waiting) if job_id is None else [job_id]
        for name in names:
            for event in self._waiting.get(name, ()):
                event.set()


async def wait_for_change(event: asyncio.Event, seconds: float) -> None:
    """Until the event is set, `seconds` at most."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), max(0.0, seconds))
    event.clear()
