"""What an operator can set, with the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import psutil

from toast.service.access.keys import Keys
from toast.service.ledger.database import sqlite_url


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """One server's settings; sizes in bytes, times in seconds.

    `worker_memory` of None is four fifths of the machine's memory shared among the workers.
    Below `min_free` bytes on the disk of `data` no work is taken in. `backoff` is how long a job
    waits after a fault; it doubles with each up to `longest_backoff`.
    `keep_jobs` is how long a job is kept once it is over, `keep_modules` a module that no job
    names since it was last used; None is for ever.
    `engine_command` replaces the engine, for tests; the attempt's directory is appended to it.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 8080
    database: str | None = None
    keys: Keys = field(default_factory=Keys)
    workers: int = 1
    max_body: int = 2 << 30
    max_json: int = 1 << 20
    max_queued: int = 1000
    worker_memory: int | None = None
    deadline: float = 3600.0
    drain: float = 10.0
    lease: float = 30.0
    max_lost: int = 3
    min_free: int = 256 << 20
    keep_jobs: float | None = 30 * 86_400.0
    keep_modules: float | None = 30 * 86_400.0
    backoff: float = 1.0
    longest_backoff: float = 60.0
    retries: int = 0
    max_wait: float = 60.0
    engine_command: tuple[str, ...] | None = None

    @property
    def database_url(self) -> str:
        """The database that is used: `database`, else a SQLite file in `data`."""
        return self.database or sqlite_url(self.data / "toast.db")

    @property
    def memory_limit(self) -> int:
        """Resident bytes that one worker may reach."""
        if self.worker_memory is not None:
            return self.worker_memory
        total: int = psutil.virtual_memory().total
        return total * 4 // 5 // max(1, self.workers)
