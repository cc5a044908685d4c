"""What a job store promises. `sqlstore` keeps it on SQLite and PostgreSQL.

Every method is one transaction and may be called from any thread. Each change of a job adds one
to its version and writes exactly one event with that number, so a reader that has seen event *n*
has missed nothing before it. Methods that take a `Claim` raise `StaleClaim` when the job has been
claimed again, has ended or is gone; nothing is written then.

Every method raises `DatabaseAway` where the database does not answer and `DiskFull` where it has no
room. Nothing was written then, but for one case: an answer that was lost after the commit. Who asks
again finds out, for a claim that it ended is stale.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from toast.service.ledger.records import Claim, Event, Hold, Job, JobResult, Module, NewJob
from toast.service.ledger.states import State


class StaleClaim(Exception):
    """A worker wrote on a job that is no longer its own."""


class JobStore(ABC):
    """The durable table of modules and jobs."""

    @abstractmethod
    def ping(self) -> None:
        """Return when the database takes writes; raises `DatabaseAway` or `DiskFull` when not."""

    @abstractmethod
    def ledger_id(self) -> str:
        """What this ledger is known by, for as long as its database lives and wherever it goes."""

    @abstractmethod
    def close(self) -> None:
        """Give the connections back."""

    @abstractmethod
    def add_module(self, sha256: str, size: int, owner: str = "") -> bool:
        """Record an uploaded module; whether it was new to its owner. The bytes are on disk."""

    @abstractmethod
    def check_room(self, owner: str, size: int) -> None:
        """Raises `QuotaExceeded` where the owner may not store `size` more bytes."""

    @abstractmethod
    def module_size(self, sha256: str) -> int | None:
        """The size in bytes of an uploaded module, None for an unknown one."""

    @abstractmethod
    def module(self, sha256: str, owner: str | None = None) -> Module:
        """The module, as `owner` sees it (None: anybody's); raises `ModuleNotFound`."""

    @abstractmethod
    def delete_module(self, sha256: str, owner: str | None = None) -> None:
        """Forget a module, for `owner` alone where others have it too (None: for all).

        Raises `ModuleNotFound`, and `ModuleInUse` while jobs name it.
        """

    @abstractmethod
    def create(self, new: NewJob, *, max_queued: int) -> tuple[Job, bool]:
        """Queue a job; whether it was new rather than found by its idempotency key.

        With a `source` that still has its result the job has succeeded with that result at once.
        Raises `UnknownModule`, `QueueFull`, `QuotaExceeded` and `IdempotencyMismatch`; the key is
        stored in the transaction that stores the job.
        """

    @abstractmethod
    def reusable(self, new: NewJob) -> list[Job]:
        """A few jobs whose result `new.cache` allows to be given to `new`, newest first."""

    @abstractmethod
    def get(self, job_id: str) -> Job:
        """The job; raises `UnknownJob`."""

    @abstractmethod
    def page(
        self,
        *,
        limit: int,
        before: int | None,
        state: State | None,
        name: str | None = None,
        owner: str | None = None,
        suspected: bool = False,
    ) -> list[Job]:
        """Up to `limit` jobs of `owner` (None: all), newest first.

        They have `seq` below `before`, and `name` in their names. `suspected` asks for those alone
        that are suspected of ending their servers, and are not over.
        """

    @abstractmethod
    def events(self, job_id: str, *, after: int) -> list[Event]:
        """The events of a job numbered above `after`, in order; none for an unknown job."""

    @abstractmethod
    def counts(self) -> dict[State, int]:
        """How many jobs are in each state."""

    @abstractmethod
    def refers_to(self, sha256: str) -> bool:
        """Whether any module or result has these bytes."""

    @abstractmethod
    def held(self) -> dict[Hold, int]:
        """How many queued jobs wait for more than a free worker, by why.

        Of those that some version cannot read, the ones that `claim` was not to take here.
        """

    @abstractmethod
    def claim(
        self, owner: str, *, lease: float, reads: Callable[[Job], bool] = lambda _job: True
    ) -> Claim | None:
        """Take a job that may run for `lease` seconds, or None. No two callers get one job.

        A job may run that is queued and whose `not_before` has passed. It is one of the owner with
        the fewest running jobs, and of those the oldest. One that `reads` refuses stays as it is,
        for servers of other versions, and this store offers it no more. One that is suspected of
        ending its servers comes last, and runs on a server alone (`suspicion`); the calls of one
        `owner` must therefore come one after another.
        """

    @abstractmethod
    def renew(self, claim: Claim, *, lease: float) -> State:
        """Extend the lease; no event. Returns the state, to learn of a cancellation."""

    @abstractmethod
    def progress(self, claim: Claim, data: dict[str, Any], *, lease: float) -> State:
        """Record progress and extend the lease. Returns the state."""

    @abstractmethod
    def succeed(self, claim: Claim, result: JobResult) -> Job:
        """End the job with its result: succeeded, or cancelled when it was cancelling."""

    @abstractmethod
    def fail(self, claim: Claim, error: dict[str, Any], *, retries: int = 0) -> Job:
        """The attempt failed: failed (cancelled when cancelling), or queued again.

        It is queued again while fewer than `retries` failures were counted before this one.
        """

    @abstractmethod
    def lose(self, claim: Claim, *, max_lost: int) -> Job:
        """The worker process vanished and its server did not: `lost` grows.

        Queued again after a wait, failed at `max_lost`, cancelled when cancelling.
        """

    @abstractmethod
    def interrupt(self, claim: Claim) -> Job:
        """A fault of the operator ended the attempt: `interruptions` grows, nothing else counts.

        Queued again after a wait that doubles each time up to a limit, or cancelled when
        cancelling. However often it happens, the job does not fail.
        """

    @abstractmethod
    def stall(self, claim: Claim, *, max_lost: int) -> Job:
        """The worker fell silent and was killed: queued again the first time, then as `lose`."""

    @abstractmethod
    def release(self, claim: Claim) -> Job:
        """Give the job back unharmed (a drain): queued, or cancelled when cancelling."""

    @abstractmethod
    def clock(self) -> float:
        """Seconds since the epoch, by the clock that leases are kept by."""

    @abstractmethod
    def recover(self, owner: str | None, *, at: float | None = None) -> list[Job]:
        """`interrupt` each claimed job of `owner`; of None, each whose lease has run out.

        Their server died, or as good as that: `server_deaths` grows too.
        `at` is the time by which a lease must have run out: now, or a `clock` read earlier.
        """

    @abstractmethod
    def cancel(self, job_id: str) -> Job:
        """Ask a job to stop: queued becomes cancelled, running cancelling, cancelling stays.

        Raises `UnknownJob`, and `JobFinished` for a job that is over.
        """

    @abstractmethod
    def acquit(self, job_id: str) -> Job:
        """Forget that servers died with the job, and that it waits for that.

        Raises `UnknownJob`, and `JobFinished` for a job that is over.
        """

    @abstractmethod
    def delete(self, job_id: str) -> Job:
        """Forget a job that is over or queued; raises `UnknownJob` and `JobNotFinished`."""

    @abstractmethod
    def expire_jobs(self, *, before: float, limit: int) -> list[Job]:
        """Forget up to `limit` jobs that were over before that time; those that went."""

    @abstractmethod
    def expire_modules(self, *, before: float, limit: int) -> list[str]:
        """Forget up to `limit` modules that no job names and nobody used since; their ids."""
