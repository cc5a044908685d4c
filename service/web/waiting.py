"""Waiting for a job inside a request, without a thread."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool

from toast.service.context import Context
from toast.service.job_notifier import wait_for_change
from toast.service.ledger.records import Event, Job

KEEP_ALIVE_SECONDS = 15.0


async def wait_for(
    context: Context, job_id: str, seconds: float, ready: Callable[[Job], bool]
) -> Job:
    """The job as soon as `ready` says so, or as it is when the time is over or we drain."""
    until = time.monotonic() + seconds
    with context.notifier.listen(job_id) as changed:
        while True:
            job = await run_in_threadpool(context.store.get, job_id)
            left = until - time.monotonic()
            if ready(job) or left <= 0 or context.notifier.draining:
                return job
            await wait_for_change(changed, left)


async def stream_events(context: Context, job_id: str, after: int) -> AsyncIterator[str]:
    """The events above `after` as server-sent events, until the job is over or we drain.

    A comment goes out every 15 s, so that proxies and dead connections are noticed.
    """
    spoke = time.monotonic()
    yield "retry: 1000\n\n"
    with context.notifier.listen(job_id) as changed:
        while True:
            draining = context.notifier.draining
            events = await run_in_threadpool(context.store.events, job_id, after=after)
            for event in events:
                yield _format(event)
                after, spoke = event.number, time.monotonic()
                if _is_last(event):
                    return
            if draining or (not events and await _gone(context, job_id)):
                return
            if time.monotonic() - spoke > KEEP_ALIVE_SECONDS:
                spoke = time.monotonic()
                yield ": still here\n\n"
            await wait_for_change(changed, 1.0)


async def _gone(context: Context, job_id: str) -> bool:
    """Whether the job was deleted under its readers; they would wait for ever."""
    page = await run_in_threadpool(context.store.events, job_id, after=0)
    return not page


def _is_last(event: Event) -> bool:
    return event.kind == "state" and event.data.get("state") in (
        "succeeded",
        "failed",
        "cancelled",
    )


def _format(event: Event) -> str:
    data = json.dumps({**event.data, "at": event.at}, separators=(",", ":"))
    return f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n"
