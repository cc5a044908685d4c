"""One call for who has only curl: the module in, the sharded module out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool

from toast.analysis.errors import ToastError
from toast.service import problems
from toast.service.context import Context
from toast.service.ledger.records import Job
from toast.service.ledger.states import State
from toast.service.web.auditor import Auditor
from toast.service.web.routes.shared import (
    MODULE_ANSWER,
    PLAN_ANSWER,
    Key,
    Shared,
    Trail,
    Workers,
    create_job,
    module_file,
    plan_file,
    take_module,
)
from toast.service.web.views import PlanFields, job_path
from toast.service.web.waiting import wait_for
from toast.service.work.dispatcher import Dispatcher

router = APIRouter()

_POLL_SECONDS = 1.0


@router.post(
    "/v1/plan",
    response_class=FileResponse,
    responses={200: PLAN_ANSWER[200] | MODULE_ANSWER[200]},
)
async def plan(
    request: Request,
    fields: Annotated[PlanFields, Query()],
    context: Shared,
    workers: Workers,
    trail: Trail,
    key: Key = None,
) -> FileResponse:
    """Upload, plan, wait, answer. A caller that hangs up cancels the job, unless it has a key."""
    settings = fields.to_request()
    artifact, _ = await take_module(request, context, trail)

    def queue() -> Job:
        made = create_job(
            context, workers, artifact.sha256, settings,
            trail=trail, key=key, cache=fields.cache, name=fields.name,
        )  # fmt: skip
        return made[0]

    job = await run_in_threadpool(queue)
    alone = trail if key is None else None
    async with _cancelled_when_alone(request, context, workers, job, trail=alone):
        job = await _finished(context, job)
    answer = await run_in_threadpool(_answer, request, context, job)
    await run_in_threadpool(trail.read, "module", job, answer)
    return answer


async def _finished(context: Context, job: Job) -> Job:
    while not job.terminal:
        try:
            job = await wait_for(context, job.id, context.settings.max_wait, lambda j: j.terminal)
        except problems.DatabaseAway:  # the job was accepted; its caller waits on
            await asyncio.sleep(_POLL_SECONDS)
        if context.notifier.draining and not job.terminal:
            raise problems.Draining(
                f"The service is shutting down; job {job.id} goes on after its restart.",
                f"Follow it at {job_path(job)}.",
                headers={"Retry-After": "5", "Toast-Job": job.id, "Location": job_path(job)},
            )
    return job


@contextlib.asynccontextmanager
async def _cancelled_when_alone(
    request: Request, context: Context, workers: Dispatcher, job: Job, *, trail: Auditor | None
) -> AsyncIterator[None]:
    """Watch the connection while we wait: nobody reads the plan of a caller that went away.

    The end of such a job is recorded in `trail`; without one the job goes on.
    """

    async def watch(trail: Auditor) -> None:
        # The framework offers no event for this, only a question.
        while not await request.is_disconnected():  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)
        with contextlib.suppress(ToastError):  # over or deleted meanwhile
            await run_in_threadpool(context.store.cancel, job.id)
            workers.cancel(job.id)
            # Before the news of it, which ends this task.
            gone = partial(trail.record, "job.cancelled", job=job.id, of=job.owned_by)
            await run_in_threadpool(gone)
            context.notifier.notify(job.id)

    watcher = None if trail is None else asyncio.create_task(watch(trail))
    try:
        yield
    finally:
        if watcher is not None:
            watcher.cancel()


def _answer(request: Request, context: Context, job: Job) -> FileResponse:
    path = job_path(job)
    headers = {"Toast-Job": job.id, "Location": path}
    if job.plan_sha256 is None:
        raise _failure(job, headers)
    wants_json = "application/json" in request.headers.get("accept", "")
    response = plan_file(context, job) if wants_json else module_file(context, job)
    if job.cached_from is not None:
        headers["Toast-Cached-From"] = job.cached_from
    response.headers.update(headers)
    response.headers["Link"] = f'<{path}/plan>; rel="describedby"; type="application/json"'
    summary = job.summary or {}
    tight = summary.get("verdict") == "tight"
    response.headers["Toast-Fits"] = "tight" if tight else str(bool(summary.get("fits"))).lower()
    return response


def _failure(job: Job, headers: dict[str, str]) -> ToastError:
    """The job's error as this request's own."""
    if job.state is State.CANCELLED or job.error is None:
        return problems.JobCancelled(
            f"Job {job.id} was cancelled.", "Send the module again.", headers=headers
        )
    return problems.JobFailed(job.error, headers)
