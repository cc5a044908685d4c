"""What the routes share: the context, uploads, and the creation of a job."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Annotated, Any, cast

from fastapi import Depends, Header, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse

from toast.process.traces import here
from toast.request.portable import portable
from toast.request.request import PlanRequest
from toast.service import problems
from toast.service.access.callers import Caller as AccessCaller
from toast.service.artifacts.disk import no_room_is_disk_full
from toast.service.artifacts.local import Artifact, Incoming
from toast.service.context import Context
from toast.service.ledger.records import CacheMode, Job, NewJob
from toast.service.ledger.rows import unknown_job
from toast.service.observe.spans import TRACE
from toast.service.web import conditional
from toast.service.web.auditor import Auditor
from toast.service.web.encodings import Opener, encoding_of, opener
from toast.service.web.naming import own_name
from toast.service.web.reuse import cache_keys, source_of
from toast.service.work.dispatcher import Dispatcher

_BATCH = 1 << 20

Responses = dict[int | str, dict[str, Any]]
PLAN_ANSWER: Responses = {200: {"description": "The plan.", "content": {"application/json": {}}}}
MODULE_ANSWER: Responses = {
    200: {
        "description": "The sharded module.",
        "content": {"text/plain": {}, "application/octet-stream": {}},
    }
}

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
_POLICY += "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
PAGE_HEADERS = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
"""Of pages for people, which load nothing."""


# Coroutines: the framework sends any other function to a thread and waits for that.
async def _context(request: Request) -> Context:
    return cast(Context, request.app.state.context)


async def _dispatcher(request: Request) -> Dispatcher:
    return cast(Dispatcher, request.app.state.dispatcher)


async def _auditor(request: Request) -> Auditor:
    return Auditor(request)


async def _caller(request: Request) -> AccessCaller:
    return cast(AccessCaller, request.state.caller)


def own_job(context: Context, caller: AccessCaller, job_id: str) -> Job:
    """The job, where the caller may see it; other owners' jobs are as if they were not there."""
    return check_own(context.store.get(job_id), caller)


def check_own(job: Job, caller: AccessCaller) -> Job:
    """The job itself, if it is one that the caller sees; raises `UnknownJob` like the store."""
    if caller.sees not in (None, job.owned_by):
        raise unknown_job(job.id)
    return job


Shared = Annotated[Context, Depends(_context)]
Workers = Annotated[Dispatcher, Depends(_dispatcher)]
Caller = Annotated[AccessCaller, Depends(_caller)]
Trail = Annotated[Auditor, Depends(_auditor)]
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=255, pattern=r"^[\x20-\x7e]+$"),
]


async def take_module(request: Request, context: Context, trail: Auditor) -> tuple[Artifact, bool]:
    """Stream the body to disk, opened; the artifact and whether it was new to its owner."""
    owner = trail.caller.owner
    declared = request.headers.get("content-length", "")
    encoding = encoding_of(request.headers.get("content-encoding"))
    context.disk.check()
    await run_in_threadpool(
        context.store.check_room, owner, int(declared) if declared.isdigit() else 0
    )
    with no_room_is_disk_full(), context.artifacts.incoming() as incoming:
        try:
            unpacked = opener(encoding, incoming.write, context.settings.max_body)
            await _spool(request, unpacked)
        except ClientDisconnect as error:
            raise problems.IncompleteBody("The body ended early.", "Send it again.") from error
        if incoming.size == 0:
            raise problems.EmptyBody(
                "The body is empty.", "Send the bytes of a StableHLO module as the body."
            )
        artifact, new = await run_in_threadpool(_keep, context, incoming, owner)
    if new:
        context.metrics.uploaded.inc(artifact.size)
        await run_in_threadpool(trail.record, "module.uploaded", module=artifact.sha256)
    return artifact, new


async def _spool(request: Request, into: Opener) -> None:
    """Disk and hash work in a thread, a megabyte at a time; the loop serves others meanwhile."""
    batch: list[bytes] = []
    waiting = 0
    async for chunk in request.stream():
        batch.append(chunk)
        waiting += len(chunk)
        if waiting >= _BATCH:
            await run_in_threadpool(into.write, b"".join(batch))
            batch, waiting = [], 0
    await run_in_threadpool(_finish, into, b"".join(batch))


def _finish(into: Opener, rest: bytes) -> None:
    into.write(rest)
    into.finish()


def _keep(context: Context, incoming: Incoming, owner: str) -> tuple[Artifact, bool]:
    artifact = incoming.finish()
    with context.artifacts.guard:
        context.store.check_room(owner, artifact.size)
        context.artifacts.keep(incoming, artifact)
        return artifact, context.store.add_module(artifact.sha256, artifact.size, owner)


def create_job(
    context: Context,
    workers: Dispatcher,
    module: str,
    request: PlanRequest,
    *,
    trail: Auditor,
    key: str | None,
    cache: CacheMode,
    name: str | None = None,
) -> tuple[Job, bool]:
    """Queue a job and wake a worker, or find its result; whether it was new."""
    if context.notifier.draining:
        raise problems.Draining(
            "The service is shutting down.", "Try again.", headers={"Retry-After": "5"}
        )
    context.disk.check()
    settings = portable(request)
    asked = [module, settings] if cache is CacheMode.OFF else [module, settings, cache]
    identity = json.dumps(asked, sort_keys=True)
    cache_any, cache_exact = cache_keys(module, request)
    new = NewJob(
        module=module,
        request=settings,
        scope=trail.caller.owner,
        owned_by=trail.caller.owner,
        sees=trail.caller.sees,
        key=key,
        name=name or own_name(context.artifacts.path(module)),
        fingerprint=hashlib.sha256(identity.encode()).hexdigest(),
        noted={} if (span := here()) is None else {TRACE: span},
        cache=cache,
        cache_any=cache_any,
        cache_exact=cache_exact,
    )
    source = source_of(context, new)
    if source is not None:
        new = dataclasses.replace(new, source=source.id)
    job, fresh = context.store.create(new, max_queued=context.settings.max_queued)
    if fresh and job.cached_from is not None:
        context.metrics.reused.labels(cache=cache.value).inc()
    workers.nudge()
    if fresh:
        trail.record("job.submitted", job=job.id, module=module)
    return job, fresh


def plan_file(context: Context, job: Job) -> FileResponse:
    """`plan.json` of a job that has one."""
    sha256 = result_of(job, job.plan_sha256)
    return _file(context, sha256, "application/json", "plan.json")


def module_file(context: Context, job: Job) -> FileResponse:
    """The sharded module of a job that has one, in the form that came in."""
    sha256 = result_of(job, job.result_sha256)
    text = job.result_suffix == ".mlir"
    media = "text/plain; charset=utf-8" if text else "application/octet-stream"
    return _file(context, sha256, media, f"sharded{job.result_suffix}")


def _file(context: Context, sha256: str, media: str, name: str) -> FileResponse:
    headers = {**conditional.headers(f'"{sha256}"'), "X-Content-Type-Options": "nosniff"}
    return FileResponse(
        context.artifacts.path(sha256), media_type=media, filename=name, headers=headers
    )


def result_of(job: Job, sha256: str | None) -> str:
    """The digest of a result of a job that has one."""
    if sha256 is not None:
        return sha256
    if not job.terminal:
        raise problems.JobNotFinished(
            f"Job {job.id} is {job.state}; it has no plan yet.",
            f"Wait for it with GET /v1/jobs/{job.id}?wait=30.",
        )
    raise problems.NoResult(
        f"Job {job.id} {job.state} without a plan.", f"GET /v1/jobs/{job.id} says why."
    )
