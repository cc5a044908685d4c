"""The records that travel between the store, the dispatcher and the routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from toast.service.ledger.states import TERMINAL, State

SUSPECT_DEATHS = 3
"""With so many servers dead, a job is suspected of ending them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One row of the job table. Times are seconds since the epoch.

    `version` grows by one with every event; `attempt` with every claim. `failures` counts
    crashes that the job caused, `lost` worker processes that vanished, `stalls` those that fell
    silent, `interruptions` attempts that a fault of the operator ended (a server that died, a full
    disk, a database away), which never fail a job, `server_deaths` those of them that ended with
    their server (`suspicion`). A queued job is not claimed before
    `not_before`. `progress`, `error` (a problem object) and `summary` are JSON objects.
    `cached_from` is the job whose result this one was given. `name` is what people call the job,
    '' where nobody said.
    """

    seq: int
    id: str
    module: str
    request: dict[str, Any]
    state: State
    version: int
    attempt: int
    failures: int
    lost: int
    interruptions: int
    not_before: float | None
    created: float
    started: float | None
    finished: float | None
    progress: dict[str, Any] | None
    error: dict[str, Any] | None
    summary: dict[str, Any] | None
    plan_sha256: str | None
    result_sha256: str | None
    result_suffix: str | None
    cached_from: str | None
    name: str = ""
    owned_by: str = ""
    stalls: int = 0
    server_deaths: int = 0

    @property
    def terminal(self) -> bool:
        """Whether the job is over."""
        return self.state in TERMINAL

    @property
    def is_suspected(self) -> bool:
        """Whether the job may be what ended its servers."""
        return self.server_deaths >= SUSPECT_DEATHS and not self.terminal


class Hold(StrEnum):
    """Why a queued job waits for more than a free worker.

    `NEWER_WORKER`: this version of the service does not understand its request. `SUSPECTED`: it may
    be what ended its servers.
    """

    NEWER_WORKER = "newer_worker"
    SUSPECTED = "suspected"


class CacheMode(StrEnum):
    """Whether a job may be given the result of an earlier one.

    `ANY`: of one that asked the same question, however long and from which seed it searched.
    `EXACT`: of one with equal settings whose search ran to its end. `OFF`: of none.
    """

    ANY = "any"
    EXACT = "exact"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """What a caller asks for. With `key`, asking again with the same `fingerprint` is one job.

    The job will be `owned_by` an owner; its module has to be one that the owner `sees` uploaded,
    one of anybody where that is None.
    `cache_any` and `cache_exact` are equal for jobs that may share a result; `source` is the id of
    a job whose result this one is given. `noted` goes into the first event: what later readers
    should know of the request.
    """

    module: str
    request: dict[str, Any]
    scope: str = ""
    key: str | None = None
    fingerprint: str = ""
    name: str = ""
    cache: CacheMode = CacheMode.OFF
    cache_any: str | None = None
    cache_exact: str | None = None
    source: str | None = None
    noted: dict[str, str] = field(default_factory=dict)
    owned_by: str = ""
    sees: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """An uploaded module. `used` is its last upload or the last job made for it."""

    sha256: str
    size: int
    created: float
    used: float
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to write on a job: good until some later claim raises `attempt`."""

    job: Job
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened to a job; `number` starts at 1 and has no gaps."""

    number: int
    kind: str
    data: dict[str, Any]
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """The artifacts of a job and the few numbers of the plan that lists show."""

    plan_sha256: str
    module_sha256: str
    suffix: str
    summary: dict[str, Any]
    stored_bytes: int = 0
