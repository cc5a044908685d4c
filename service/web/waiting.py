"""Waiting for a job inside a request, without a thread."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool

from toast.service.context import Context
from toast.service.feeds import Feed, event_text
from toast.service.ledger.records import Job

KEEP_ALIVE_SECONDS = 15.0


async def wait_for(
    context: Context, job_id: str, seconds: float, ready: Callable[[Job], bool]
) -> Job:
    """The job as soon as `ready` says so, or as it is when the time is over or we drain."""
    until = time.monotonic() + seconds
    job = await run_in_threadpool(context.store.get, job_id)
    if ready(job) or seconds <= 0 or context.notifier.draining:
        return job
    with context.feeds.follow(job_id) as feed:
        while True:
            if feed.job is not None and feed.job.version > job.version:
                job = feed.job
            left = until - time.monotonic()
            if feed.gone:
                return await run_in_threadpool(context.store.get, job_id)  # which says so
            if ready(job) or left <= 0 or context.notifier.draining:
                return job
            await feed.changed(left)


async def stream_events(context: Context, job_id: str, after: int) -> AsyncIterator[str]:
    """The events above `after` as server-sent events, until the job is over or we drain.

    A comment goes out every 15 s, so that proxies and dead connections are noticed.
    """
    context.metrics.streams.inc()
    try:
        with context.feeds.follow(job_id) as feed:
            while not (feed.job or feed.gone or context.notifier.draining):
                await feed.changed(KEEP_ALIVE_SECONDS)
            yield "retry: 1000\n\n"
            while True:
                draining = context.notifier.draining
                if after < feed.seen:  # more may come while this is sent
                    text, after = await _above(context, feed, after)
                    yield text
                    continue
                over = feed.job is not None and feed.job.terminal and after >= feed.job.version
                if over or draining or feed.gone:
                    return
                if not await feed.changed(KEEP_ALIVE_SECONDS):
                    yield ": still here\n\n"
    finally:
        context.metrics.streams.dec()


async def _above(context: Context, feed: Feed, after: int) -> tuple[str, int]:
    """The events above a number, and the number of the last; from the ledger if they are old."""
    if after + 1 >= feed.first:
        return feed.after(after), feed.seen
    events = await run_in_threadpool(context.store.events, feed.job_id, after=after)
    return "".join(map(event_text, events)), events[-1].number if events else feed.seen
