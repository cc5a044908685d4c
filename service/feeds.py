"""What happens to a job, read from the ledger once for all who follow it.

A thousand readers of one job cost one query a change, not a thousand. Used in the loop's thread
alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from toast.service import problems
from toast.service.job_notifier import JobNotifier, wait_for_change
from toast.service.ledger.records import Event, Job
from toast.service.ledger.store import JobStore

_log = logging.getLogger("toast.service")

KEPT_EVENTS = 512
"""Events of a job that are at hand; a reader that was away for longer asks the ledger once."""
MAX_PAUSE, READERS_A_SECOND = 1.0, 1000.0
"""Many readers are told of several changes at once, so that telling them leaves time for others."""
_BATCH, _BREATH = 10, 0.003
"""Readers woken at once, and seconds before the next: each reader has an answer to write, and a
request passes through the loop several times before it is answered."""


@dataclass(slots=True)
class Feed:
    """The newest record of one job and its last events as text; `gone` when it was deleted."""

    job_id: str
    job: Job | None = None
    gone: bool = False
    readers: int = 0
    seen: int = 0
    texts: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    waiting: dict[asyncio.Event, None] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """The number of the oldest event at hand; one more than the newest where there is none."""
        return self.seen - len(self.texts) + 1

    def after(self, number: int) -> str:
        """The events above `number`, which are at hand, as they are sent."""
        return "".join(self.texts[max(0, number + 1 - self.first) :])

    def add(self, events: list[Event]) -> None:
        """Keep new events; the oldest go."""
        self.texts += [event_text(event) for event in events]
        del self.texts[:-KEPT_EVENTS]
        if events:
            self.seen = events[-1].number

    async def changed(self, seconds: float) -> bool:
        """Until something changes, or until the time is over; whether something did."""
        event = asyncio.Event()
        self.waiting[event] = None
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), max(0.0, seconds))
        finally:
            self.waiting.pop(event, None)
        return event.is_set()

    async def wake(self) -> None:
        """Tell all who wait, some at a time."""
        waiting, self.waiting = list(self.waiting), {}
        for number, event in enumerate(waiting, start=1):
            event.set()
            if number % _BATCH == 0:
                await asyncio.sleep(_BREATH)


class Feeds:
    """The feeds of the jobs that anybody follows now."""

    def __init__(self, store: JobStore, notifier: JobNotifier) -> None:
        self._store = store
        self._notifier = notifier
        self._feeds: dict[str, Feed] = {}

    @contextlib.contextmanager
    def follow(self, job_id: str) -> Iterator[Feed]:
        """The feed of a job, kept up to date until the last reader leaves."""
        feed = self._feeds.get(job_id)
        if feed is None or feed.gone:
            feed = self._feeds[job_id] = Feed(job_id)
            feed.task = asyncio.create_task(self._read(feed))
        feed.readers += 1
        try:
            yield feed
        finally:
            feed.readers -= 1
            if feed.readers == 0:
                assert feed.task is not None
                feed.task.cancel()
                if self._feeds.get(job_id) is feed:
                    del self._feeds[job_id]

    async def _read(self, feed: Feed) -> None:
        with self._notifier.listen(feed.job_id) as changed:
            while True:
                try:
                    news = await self._refresh(feed)
                except Exception:  # the database may be away; the readers wait
                    _log.exception("job %s could not be followed; trying again", feed.job_id)
                    news = False
                # Asked before the readers wake: one that began to wait meanwhile is told later.
                over = feed.gone or self._notifier.draining
                if news or over:
                    await feed.wake()
                if over:
                    return
                if news:
                    await asyncio.sleep(min(MAX_PAUSE, feed.readers / READERS_A_SECOND))
                await wait_for_change(changed, self._notifier.pause)

    async def _refresh(self, feed: Feed) -> bool:
        """Read what is new; whether anything is."""
        try:
            job = await run_in_threadpool(self._store.get, feed.job_id)
        except problems.UnknownJob:
            feed.gone = True
            return True
        if feed.job is not None and job.version <= feed.job.version:
            return False
        feed.add(await run_in_threadpool(self._store.events, feed.job_id, after=feed.seen))
        if feed.seen > job.version:  # it changed between the two
            job = await run_in_threadpool(self._store.get, feed.job_id)
        feed.job = job
        return True


def event_text(event: Event) -> str:
    """An event as it is sent (server-sent events)."""
    data = json.dumps({**event.data, "at": event.at}, separators=(",", ":"))
    return f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n"
