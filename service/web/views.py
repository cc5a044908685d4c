"""What the API takes and gives, as schemas."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from toast.costmodel.hardware import devices
from toast.costmodel.hardware.quantities import parse_bytes, parse_seconds
from toast.costmodel.network.auto_mesh import meshes
from toast.request.request import PlanRequest
from toast.request.settings import agreeing
from toast.service.ledger.records import CacheMode, Hold, Job, Module
from toast.service.ledger.states import State
from toast.service.readable import check_names, why_unreadable


def _bytes(value: Any) -> Any:
    return parse_bytes(str(value)) if isinstance(value, (str, float)) else value


def _seconds(value: Any) -> Any:
    return parse_seconds(value) if isinstance(value, str) else value


Bytes = Annotated[int, BeforeValidator(_bytes), Field(gt=0, le=2**60)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=86_400)]


JobName = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]
Demand = Annotated[str, Field(max_length=200)]
MAX_DEMANDS, MAX_DEMANDS_IN_QUERY = 10_000, 32
"""How many pins a job may have; a query must fit the server's longest request line."""
MAX_DECISIONS = 64


class PlanFields(PlanRequest):
    """`PlanRequest` as people write it: `memory` may be `"16GiB"`, times `"10s"`."""

    mesh: str = Field(max_length=256, examples=["data=2,model=4"])
    device: str = Field(default="tpu-v5e", max_length=64)
    memory: Bytes | None = Field(default=None, examples=["16GiB"])
    budget: Seconds | None = Field(default=None, examples=["10s"])
    confirm_time: Seconds | None = Field(default=None, examples=["10min"])
    planner: str = Field(default="mcts", max_length=64)
    pins: tuple[Demand, ...] = Field(default=(), max_length=MAX_DEMANDS_IN_QUERY)
    forbid: tuple[Demand, ...] = Field(default=(), max_length=MAX_DEMANDS_IN_QUERY)
    decisions: tuple[Demand, ...] | None = Field(default=None, max_length=MAX_DECISIONS)
    name: JobName | None = Field(default=None, description="What people call the job.")
    cache: CacheMode = CacheMode.OFF

    def to_request(self) -> PlanRequest:
        """The request for the engine; raises the `ToastError` that it would raise itself."""
        check_names(self)
        if self.confirm is not None:
            from toast.aot.installed import installed_target  # few jobs need it

            device = devices.known(self.device)
            installed_target(device, meshes(self.mesh, device, self.slices)[0])
        fields = self.model_dump(include=set(PlanRequest.model_fields))
        return agreeing(PlanRequest.model_validate(fields))


class JobRequest(PlanFields):
    """The body of `POST /v1/jobs`."""

    pins: tuple[Demand, ...] = Field(default=(), max_length=MAX_DEMANDS)
    forbid: tuple[Demand, ...] = Field(default=(), max_length=MAX_DEMANDS)
    module: str = Field(pattern=r"^[0-9a-f]{64}$", description="The id of an uploaded module.")


class View(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(frozen=True)


class ModuleView(View):
    """An uploaded module; `id` is the SHA-256 of its bytes."""

    id: str
    size: int


class StoredModuleView(ModuleView):
    """A module and its use: `last_used` is its last upload or the last job that was made for it."""

    created: str
    last_used: str
    jobs: int


class JobView(View):
    """A job. Times are RFC 3339 in UTC; `error` is a problem object (RFC 9457).

    `version` rises with each change; it is the number of the last event that is in this view.
    """

    id: str
    version: int
    name: str
    owner: str
    state: State
    module: str
    request: dict[str, Any]
    attempt: int
    failures: int
    lost_workers: int
    interruptions: int
    server_deaths: int
    not_before: str | None
    waits_for: Hold | None
    created: str
    started: str | None
    finished: str | None
    progress: dict[str, Any] | None
    summary: dict[str, Any] | None
    error: dict[str, Any] | None
    cached_from: str | None
    links: dict[str, str]


class JobPage(View):
    """Jobs, newest first; `next` is the path of the following page."""

    jobs: list[JobView]
    next: str | None


class NetworkView(View):
    """A network of a chip, which a mesh axis may name: `model=4@nvlink`.

    `span` is how many devices it joins, `bandwidth` bytes per second that one device sends over it.
    """

    name: str
    topology: str
    span: int
    bandwidth: float


class DeviceView(View):
    """A chip of the catalogue; its networks from the fastest to the slowest."""

    name: str
    kind: str
    description: str
    memory_bytes: int
    networks: list[NetworkView]


class DeviceList(View):
    """All chips of the catalogue."""

    devices: list[DeviceView]


def module_view(module: Module) -> StoredModuleView:
    """The module as the API shows it."""
    return StoredModuleView(
        id=module.sha256,
        size=module.size,
        created=_time(module.created),
        last_used=_time(module.used),
        jobs=module.jobs,
    )


def job_view(job: Job) -> JobView:
    """The job as the API shows it."""
    return JobView(
        id=job.id,
        version=job.version,
        name=job.name,
        owner=job.owned_by,
        state=job.state,
        module=job.module,
        request=_settings(job),
        attempt=job.attempt,
        failures=job.failures,
        lost_workers=job.lost,
        interruptions=job.interruptions,
        server_deaths=job.server_deaths,
        not_before=None if job.not_before is None else _time(job.not_before),
        waits_for=_waits_for(job),
        created=_time(job.created),
        started=None if job.started is None else _time(job.started),
        finished=None if job.finished is None else _time(job.finished),
        progress=job.progress,
        summary=job.summary,
        error=job.error,
        cached_from=job.cached_from,
        links=_links(job),
    )


def job_path(job: Job) -> str:
    """The path of the job's resource."""
    return f"/v1/jobs/{job.id}"


def etag(job: Job) -> str:
    """Changes with every change of the job."""
    return f'"{job.id}.{job.version}"'


def _settings(job: Job) -> dict[str, Any]:
    """The request with the settings that were left out of its row, as far as it can be read."""
    if why_unreadable(job.request) is not None:
        return job.request
    return PlanRequest.model_validate(job.request).model_dump()


def _waits_for(job: Job) -> Hold | None:
    if job.state is not State.QUEUED:
        return None
    if why_unreadable(job.request) is not None:
        return Hold.NEWER_WORKER
    return Hold.SUSPECTED if job.is_suspected else None


def _links(job: Job) -> dict[str, str]:
    path = job_path(job)
    links = {"self": path, "events": f"{path}/events"}
    if not job.terminal:
        links["cancel"] = f"{path}/cancel"
    if job.plan_sha256 is not None:
        links |= {name: f"{path}/{name}" for name in ("plan", "module", "report")}
    return links


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
