"""Jobs: create, look, wait, follow, fetch, cancel, delete."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import FileResponse, HTMLResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from toast.service.ledger.records import Job
from toast.service.ledger.states import State
from toast.service.web import conditional
from toast.service.web.reports import compare_plans, render_report
from toast.service.web.reuse import planner_version
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
from toast.service.work.expiry import forget_files

router = APIRouter(prefix="/v1/jobs")

_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "The events, then the end."},
    204: {"description": "The job is over and everything was seen."},
}

_DIFF: dict[int | str, dict[str, Any]] = {
    200: {"description": "What differs.", "content": {"application/json": {}}}
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
    job, new = create_job(
        context, workers, body.module, plan,
        trail=trail, key=key, cache=body.cache, name=body.name,
    )  # fmt: skip
    _describe(response, job)
    if not new:
        response.headers["Idempotency-Replayed"] = "true"
    return job_view(job)


@router.get("", response_model=JobPage, responses=conditional.UNCHANGED)
def list_jobs(  # noqa: PLR0913 - one parameter for each in the query
    context: Shared,
    caller: Caller,
    seen: conditional.Seen = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    state: State | None = None,
    name: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    owner: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    suspected: bool = False,
) -> Response:
    """A page of jobs, newest first; those of `owner`, of all that the caller sees."""
    if None not in (owner, caller.sees) and owner != caller.sees:
        return conditional.answer(JobPage(jobs=[], next=None), seen)
    whose = owner if caller.sees is None else caller.sees
    jobs = context.store.page(
        limit=limit + 1, before=cursor, state=state, name=name, owner=whose, suspected=suspected
    )
    more, jobs = len(jobs) > limit, jobs[:limit]
    last = jobs[-1].seq if more else None
    asked = {"limit": limit, "cursor": last, "state": state, "name": name, "owner": owner}
    asked["suspected"] = "true" if suspected else None
    query = urlencode({key: value for key, value in asked.items() if value is not None})
    following = f"/v1/jobs?{query}" if more else None
    page = JobPage(jobs=[job_view(job) for job in jobs], next=following)
    return conditional.answer(page, seen)


@router.get("/{job_id}", response_model=JobView, responses=conditional.UNCHANGED)
async def show(
    job_id: str,
    response: Response,
    context: Shared,
    caller: Caller,
    wait: Annotated[float, Query(ge=0, le=3600, allow_inf_nan=False)] = 0.0,
    seen: conditional.Seen = None,
) -> Any:
    """The job. With `wait`, once it is over, or differs from the ETag in `If-None-Match`."""
    seconds = min(wait, context.settings.max_wait)

    def ready(job: Job) -> bool:
        check_own(job, caller)
        return job.terminal or (seen is not None and not conditional.has(seen, etag(job)))

    job = await wait_for(context, job_id, seconds, ready)
    if conditional.has(seen, etag(job)):
        return conditional.unchanged(etag(job))
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


@router.get(
    "/{job_id}/plan", response_class=FileResponse, responses=PLAN_ANSWER | conditional.UNCHANGED
)
def plan(job_id: str, context: Shared, trail: Trail, seen: conditional.Seen = None) -> Response:
    """`plan.json`."""
    job = own_job(context, trail.caller, job_id)
    return trail.read("plan", job, _unless_seen(plan_file(context, job), seen))


@router.get(
    "/{job_id}/module", response_class=FileResponse, responses=MODULE_ANSWER | conditional.UNCHANGED
)
def module(job_id: str, context: Shared, trail: Trail, seen: conditional.Seen = None) -> Response:
    """The sharded module, in the form that came in."""
    job = own_job(context, trail.caller, job_id)
    return trail.read("module", job, _unless_seen(module_file(context, job), seen))


@router.get("/{job_id}/report", response_class=HTMLResponse, responses=conditional.UNCHANGED)
async def report(
    job_id: str, context: Shared, trail: Trail, seen: conditional.Seen = None
) -> Response:
    """The plan as one page, as `toast report` writes it."""
    job = await run_in_threadpool(own_job, context, trail.caller, job_id)
    sha256 = result_of(job, job.plan_sha256)
    version = await run_in_threadpool(planner_version)
    tag = f'"{job.id}.{sha256[:32]}.{version[:16]}"'  # the page names its job
    if conditional.has(seen, tag):
        return conditional.unchanged(tag)
    page = await context.drawing.take(render_report, context, job, sha256)
    answer = HTMLResponse(page, headers=PAGE_HEADERS | conditional.headers(tag))
    return await run_in_threadpool(trail.read, "report", job, answer)


@router.get("/{job_id}/diff/{other_id}", response_class=Response, responses=_DIFF)
async def compare(job_id: str, other_id: str, context: Shared, trail: Trail) -> Response:
    """What differs between the plans of two jobs, as `toast diff --json` has it."""
    ids = (job_id, other_id)
    jobs = [await run_in_threadpool(own_job, context, trail.caller, one) for one in ids]
    plans = [result_of(job, job.plan_sha256) for job in jobs]
    found = await context.drawing.take(compare_plans, context, *plans)
    answer: Response = Response(found, media_type="application/json")
    for job in jobs:
        answer = await run_in_threadpool(trail.read, "diff", job, answer)
    return answer


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


@router.post("/{job_id}/release")
def release(
    job_id: str, response: Response, context: Shared, workers: Workers, trail: Trail
) -> JobView:
    """Take back the suspicion that the job ends its servers; it runs as any other. For admins."""
    job = context.store.acquit(job_id)
    trail.record("job.released", job=job_id, of=job.owned_by)
    context.notifier.notify(job_id)
    workers.nudge()
    _describe(response, job)
    return job_view(job)


@router.delete("/{job_id}", status_code=204, response_class=Response)
def delete(job_id: str, context: Shared, trail: Trail) -> Response:
    """Forget the job and the files that no other job shares."""
    own_job(context, trail.caller, job_id)
    job = context.store.delete(job_id)
    trail.record("job.deleted", job=job_id, of=job.owned_by)
    forget_files(context, job)
    context.notifier.notify(job_id)
    return Response(status_code=204)


def _describe(response: Response, job: Job) -> None:
    response.headers["Location"] = job_path(job)
    response.headers.update(conditional.headers(etag(job)))


def _unless_seen(file: FileResponse, seen: str | None) -> Response:
    tag = file.headers["ETag"]
    return conditional.unchanged(tag) if conditional.has(seen, tag) else file
