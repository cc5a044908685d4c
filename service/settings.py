"""What an operator can set, with the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from toast.analysis.limits import ModuleLimits
from toast.process.limits import ClusterShare, EngineLimits, usable_memory
from toast.service.access.keyring import Keyring
from toast.service.ledger.database import sqlite_url
from toast.service.ledger.owners import Quota

WORKER_NICE = 10
"""A search takes every core it gets; requests come before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections there may be, and how slow each.

    A body may take as long as it likes while `body_rate` bytes a second come in each span of
    `body_seconds`. `reader_seconds` is how long a client may leave an answer unread.
    """

    total: int = 4096
    per_address: int = 2048
    header_seconds: float = 10.0
    body_seconds: float = 10.0
    body_rate: int = 1024
    reader_seconds: float = 30.0
    idle_seconds: int = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """One server's settings; sizes in bytes, times in seconds.

    `worker_memory` of None is four fifths of the machine's memory shared among the workers.
    `worker_user` is whom workers run as (None: as the server), `spares` how many wait for a job
    with their imports done, `stall` how long one may be silent and idle before it counts as hung.
    `artifacts` of None keeps files in `data`; `cache_bytes` bounds the local copies of files that
    are kept elsewhere. Below `min_free` bytes on the disk of `data` no work is taken in. `backoff`
    is how long a job waits after a fault; it doubles with each up to `longest_backoff`, for a job
    that may be what ends its servers up to `longest_suspected`.
    `keep_jobs` is how long a job is kept once it is over, `keep_modules` a module that no job
    names since it was last used; None is for ever.
    `launcher` says where attempts run; `ray_address` is the cluster of `ray` (None: the one that
    this machine is a node of), and `ray_cpus` the processors that an attempt reserves there.
    `engine_command` replaces the engine, for tests; the attempt's directory is appended to it.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 8080
    database: str | None = None
    artifacts: str | None = None
    cache_bytes: int = 10 << 30
    keys: Keyring = field(default_factory=Keyring)
    workers: int = 1
    max_body: int = 2 << 30
    max_json: int = 1 << 20
    max_queued: int = 1000
    max_arguments: int = 500_000
    max_ops: int = 5_000_000
    max_constants: int = 2 << 30
    max_plan: int = 1 << 30
    max_connections: int = 4096
    max_address: int = 2048
    header_timeout: float = 10.0
    body_rate: int = 1024
    worker_memory: int | None = None
    worker_cpus: float | None = None
    worker_user: str | None = None
    spares: int = 1
    stall: float = 5.0
    deadline: float = 3600.0
    drain: float = 10.0
    lease: float = 30.0
    max_lost: int = 3
    min_free: int = 256 << 20
    keep_jobs: float | None = 30 * 86_400.0
    keep_modules: float | None = 30 * 86_400.0
    backoff: float = 1.0
    longest_backoff: float = 60.0
    longest_suspected: float = 86_400.0
    retries: int = 0
    max_wait: float = 60.0
    owner_queued: int | None = None
    owner_running: int | None = None
    owner_stored: int | None = None
    owner_rate: int | None = None
    launcher: Literal["process", "ray"] = "process"
    ray_address: str | None = None
    ray_cpus: float = 1.0
    engine_command: tuple[str, ...] | None = None

    @property
    def database_url(self) -> str:
        """The database that is used: `database`, else a SQLite file in `data`."""
        return self.database or sqlite_url(self.data / "toast.db")

    @property
    def connections(self) -> ConnectionLimits:
        """What a connection may be."""
        return ConnectionLimits(
            total=self.max_connections,
            per_address=self.max_address,
            header_seconds=self.header_timeout,
            body_seconds=self.header_timeout,
            reader_seconds=3 * self.header_timeout,
            body_rate=self.body_rate,
        )

    @property
    def engine_limits(self) -> EngineLimits:
        """What a module and its plan may be."""
        module = ModuleLimits(
            arguments=self.max_arguments, ops=self.max_ops, constant_bytes=self.max_constants
        )
        return EngineLimits(
            module=module, plan_bytes=self.max_plan, nice=WORKER_NICE, cluster=self.cluster
        )

    @property
    def cluster(self) -> ClusterShare | None:
        """Where attempts run, if not here."""
        if self.launcher != "ray":
            return None
        return ClusterShare(
            address=self.ray_address or "auto",
            cpus=self.ray_cpus,
            memory_bytes=self.worker_memory,
        )

    @property
    def quota(self) -> Quota:
        """What one owner may use. With keys, no owner may fill more than half of the queue."""
        queued = self.owner_queued
        if queued is None and self.keys:
            queued = max(1, self.max_queued // 2)
        return Quota(
            queued=queued,
            running=self.owner_running,
            stored=self.owner_stored,
            rate=self.owner_rate,
        )

    @property
    def memory_limit(self) -> int:
        """Resident bytes that one worker may reach."""
        if self.worker_memory is not None:
            return self.worker_memory
        return usable_memory() // max(1, self.workers)
