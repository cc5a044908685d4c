"""Jobs: create, look, wait, follow, fetch, cancel, delete."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import FileResponse, HTMLResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from toast.service.ledger.records import Job
from toast.service.ledger.states import State
from toast.service.web.reports import render_report
from toast.service.web.routes.shared import (
    MODULE_ANSWER,
    PAGE_HEADERS,
    PLAN_ANSWER,
    Caller,
    Key,
    Shared,
    Trail,
    Workers,
    check_own,
    create_job,
    module_file,
    own_job,
    plan_file,
    result_of,
)
from toast.service.web.views import JobPage, JobRequest, JobView, etag, job_path, job_view
from toast.service.web.waiting import stream_events, wait_for

router = APIRouter(prefix="/v1/jobs")

_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "The events, then the end."},
    204: {"description": "The job is over and everything was seen."},
}


@router.post("", status_code=202)
def create(
    body: JobRequest,
    response: Response,
    context: Shared,
    workers: Workers,
    trail: Trail,
    key: Key = None,
) -> JobView:
    """Queue a job for an uploaded module."""
    plan = body.to_request()
    job, new = create_job(context, workers, body.module, plan, trail=trail, key=key)
    _describe(response, job)
    if not new:
        response.headers["Idempotency-Replayed"] = "true"
    return job_view(job)


@router.get("")
def list_jobs(
    context: Shared,
    caller: Caller,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    state: State | None = None,
) -> JobPage:
    """A page of jobs, newest first."""
    jobs = context.store.page(limit=limit + 1, before=cursor, state=state, owner=caller.sees)
    more, jobs = len(jobs) > limit, jobs[:limit]
    following = f"/v1/jobs?limit={limit}&cursor={jobs[-1].seq}" if more else None
    if following is not None and state is not None:
        following += f"&state={state}"
    return JobPage(jobs=[job_view(job) for job in jobs], next=following)


@router.get("/{job_id}", response_model=JobView, responses={304: {}})
async def show(
    job_id: str,
    response: Response,
    context: Shared,
    caller: Caller,
    wait: Annotated[float, Query(ge=0, le=3600, allow_inf_nan=False)] = 0.0,
    seen: Annotated[str | None, Header(alias="If-None-Match")] = None,
) -> Any:
    """The job. With `wait`, once it is over, or differs from the ETag in `If-None-Match`."""
    seconds = min(wait, context.settings.max_wait)

    def ready(job: Job) -> bool:
        check_own(job, caller)
        return job.terminal or (seen is not None and not _matches(seen, job))

    job = await wait_for(context, job_id, seconds, ready)
    if seen is not None and _matches(seen, job):
        return Response(status_code=304, headers={"ETag": etag(job)})
    _describe(response, job)
    return job_view(job)


@router.get("/{job_id}/events", response_class=StreamingResponse, responses=_EVENTS)
async def follow(
    job_id: str,
    context: Shared,
    caller: Caller,
    last: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> Response:
    """Everything that happened to the job after `Last-Event-ID`, then what happens, then the end.

    A reader that has seen the end gets 204, which tells a browser not to come back.
    """
    job = await run_in_threadpool(own_job, context, caller, job_id)
    known = last is not None and last.isascii() and last.isdigit() and len(last) < 19
    after = int(last) if known and last is not None else 0
    if job.terminal and after >= job.version:
        return Response(status_code=204)
    return StreamingResponse(
        stream_events(context, job_id, after),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


@router.get("/{job_id}/plan", response_class=FileResponse, responses=PLAN_ANSWER)
def plan(job_id: str, context: Shared, trail: Trail) -> FileResponse:
    """`plan.json`."""
    job = own_job(context, trail.caller, job_id)
    answer = plan_file(context, job)
    trail.record_read("plan", job)
    return answer


@router.get("/{job_id}/module", response_class=FileResponse, responses=MODULE_ANSWER)
def module(job_id: str, context: Shared, trail: Trail) -> FileResponse:
    """The sharded module, in the form that came in."""
    job = own_job(context, trail.caller, job_id)
    answer = module_file(context, job)
    trail.record_read("module", job)
    return answer


@router.get("/{job_id}/report", response_class=HTMLResponse)
def report(job_id: str, context: Shared, trail: Trail) -> HTMLResponse:
    """The plan as one page, as `toast report` writes it."""
    job = own_job(context, trail.caller, job_id)
    page = render_report(context, job, result_of(job, job.plan_sha256))
    trail.record_read("report", job)
    return HTMLResponse(page, headers=PAGE_HEADERS)


@router.post("/{job_id}/cancel", status_code=202)
def cancel(
    job_id: str, response: Response, context: Shared, workers: Workers, trail: Trail
) -> JobView:
    """Ask the job to stop; its best plan so far, if any, stays to be fetched."""
    own_job(context, trail.caller, job_id)
    job = context.store.cancel(job_id)
    trail.record("job.cancelled", job=job_id, of=job.owned_by)
    if job.terminal:
        context.metrics.finished.labels(state=job.state.value).inc()
    workers.cancel(job_id)
    context.notifier.notify(job_id)
    _describe(response, job)
    return job_view(job)


@router.delete("/{job_id}", status_code=204, response_class=Response)
def delete(job_id: str, context: Shared, trail: Trail) -> Response:
    """Forget the job and the files that no other job shares."""
    own_job(context, trail.caller, job_id)
    job = context.store.delete(job_id)
    trail.record("job.deleted", job=job_id, of=job.owned_by)
    for sha256 in (job.plan_sha256, job.result_sha256):
        if sha256 is not None:
            context.artifacts.release(sha256, context.store.refers_to)
    context.notifier.notify(job_id)
    return Response(status_code=204)


def _describe(response: Response, job: Job) -> None:
    response.headers["Location"] = job_path(job)
    response.headers["ETag"] = etag(job)


def _matches(seen: str, job: Job) -> bool:
    tags = {tag.strip().removeprefix("W/") for tag in seen.split(",")}
    return etag(job) in tags or "*" in tags
