"""One attempt at one job: its directory, its process, and what became of it."""

from __future__ import annotations

import logging
import shutil
import signal
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from toast.plans.summary import PlanSummary, read_summary
from toast.process import runner, traces
from toast.process.outcome import Outcome
from toast.request.request import PlanRequest
from toast.service import problems
from toast.service.context import Context
from toast.service.ledger.records import Claim, Job, JobResult
from toast.service.ledger.states import State
from toast.service.ledger.store import StaleClaim
from toast.service.problems import DatabaseAway, DiskFull, FilesAway
from toast.service.work.launcher import Launcher, WorkerProcess
from toast.service.work.perseverance import GivenUp, persevere
from toast.service.work.results import only_files
from toast.service.work.spares import SparePool

_log = logging.getLogger("toast.service")

_PROGRESS_SECONDS = 0.25
_FAULT_SECONDS = 5.0
"""After a progress that the database did not take the next one waits so long."""
_FROM_OUTSIDE = tuple(-number for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
"""How a worker ends that somebody killed; what XLA does to itself looks otherwise."""
_REPORT = "The fault is the service's; tell its operator."


class AttemptVerdict(StrEnum):
    """How an attempt ended, as the metrics count it."""

    DONE = "done"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    ERROR = "error"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    STALLED = "stalled"
    RELEASED = "released"
    STALE = "stale"


class Attempt:
    """Runs the engine for one claim and writes the end of it. Used by one worker thread."""

    def __init__(
        self, context: Context, claim: Claim, launcher: Launcher, spares: SparePool
    ) -> None:
        self.claim = claim
        self._launcher = launcher
        self._spares = spares
        self._context = context
        self._stop = threading.Event()
        self._interrupted = threading.Event()
        self._stale = False
        self._directory = work_directory(context, claim)
        self._started = time.monotonic()
        self._last = float("-inf")

    def stop(self) -> None:
        """Ask the engine for its best plan so far. From any thread."""
        self._stop.set()

    def interrupt(self) -> None:
        """The server goes: end the engine and give the job back. From any thread."""
        self._interrupted.set()
        self._stop.set()

    def run(self) -> AttemptVerdict:
        """The whole attempt; raises `StaleClaim` when the job was taken over meanwhile."""
        directory = self._directory
        try:
            return self._attempt(directory)
        except GivenUp:
            return AttemptVerdict.INTERRUPTED
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _attempt(self, directory: Path) -> AttemptVerdict:
        try:
            return self._settle(self._engine(directory))
        except (OSError, FilesAway) as error:  # no space, process or file: not the job's fault
            _log.warning("job %s could not be run: %s", self.claim.job.id, error)
            return self._interrupt()
        except (StaleClaim, GivenUp):
            raise
        except Exception:  # a bug, which would meet the job again at every attempt
            _log.exception("job %s failed in the server", self.claim.job.id)
            self._failed(
                problems.describe(problems.Internal("The service failed on this job.", _REPORT))
            )
            return AttemptVerdict.FAILED

    def _engine(self, directory: Path) -> Outcome:
        settings = self._context.settings
        directory.mkdir(parents=True)
        request = self._launcher.fitted(PlanRequest.model_validate(self.claim.job.request))
        (directory / "request.json").write_text(request.model_dump_json())
        settings.engine_limits.write(directory)
        traces.hand_over(directory)
        # Linked, not read: a module may be large, and its bytes mean nothing to this process.
        self._context.artifacts.place(self.claim.job.module, directory / "module")
        self._launcher.hand_over(directory)
        worker = self._worker(directory)
        try:
            outcome = runner.follow(
                worker.child,
                directory,
                worker.limits,
                on_event=self._on_event,
                cancelled=self._stop.is_set,
            )
            outcome = only_files(worker.explain(outcome))
        finally:
            worker.close()
        self._context.metrics.attempt_seconds.observe(outcome.seconds)
        self._context.metrics.peak_bytes.set(outcome.peak_rss_bytes)
        return outcome

    def _worker(self, directory: Path) -> WorkerProcess:
        """A spare process, or a new one where there is none that lives."""
        spare = self._spares.take()
        if spare is not None:
            if spare.child.begin(directory):
                self._context.metrics.starts.labels(kind="spare").inc()
                return spare
            spare.close()
        self._context.metrics.starts.labels(kind="fresh").inc()
        return self._launcher.start(str(directory))

    def _on_event(self, event: runner.Event) -> None:
        """Record progress: four times a second at first, ever more rarely in a long job."""
        now = time.monotonic()
        pause = max(_PROGRESS_SECONDS, (now - self._started) / 200)
        if event.get("event") != "progress" or self._stale or now - self._last < pause:
            return
        self._last = now
        data = {key: value for key, value in event.items() if key != "event"}
        try:
            self._record(data)
        except StaleClaim:
            self._stale = True
            self._stop.set()
        except (DatabaseAway, DiskFull) as error:
            _log.warning("job %s: progress was dropped: %s", self.claim.job.id, error.message)
            self._last = time.monotonic() + _FAULT_SECONDS
        except ValueError:
            _log.warning("job %s: progress that is not JSON was dropped", self.claim.job.id)

    def _record(self, data: dict[str, Any]) -> None:
        lease = self._context.settings.lease
        state = self._context.store.progress(self.claim, data, lease=lease)
        if state is State.CANCELLING:
            self._stop.set()
        self._context.notifier.notify(self.claim.job.id)

    def _settle(self, outcome: Outcome) -> AttemptVerdict:
        context = self._context
        if self._interrupted.is_set() and outcome.status == "cancelled":
            self._leave(lambda: context.store.release(self.claim))
            return AttemptVerdict.RELEASED
        if (fault := self._fault(outcome)) is not None:
            _log.warning("job %s: %s", self.claim.job.id, fault)
            return self._interrupt()
        if outcome.status in ("failed", "crashed") and outcome.exit_code in _FROM_OUTSIDE:
            return self._lost()
        if outcome.has_plan:
            return self._keep(outcome)
        if outcome.status == "stalled":
            return self._stalled()
        self._failed(self._problem(outcome), retry=outcome.status == "crashed")
        return AttemptVerdict(outcome.status)

    def _fault(self, outcome: Outcome) -> str | None:
        """What the operator has to mend, where that ended the worker."""
        if outcome.status == "away":
            return f"the cluster could not run it: {outcome.stderr.strip()[-500:]}"
        failed = outcome.status in ("failed", "crashed")
        if failed and not self._context.disk.takes(outcome.directory):
            return "no room on the disk for its worker"
        return None

    def _keep(self, outcome: Outcome) -> AttemptVerdict:
        try:
            summary = read_summary(outcome.summary_path)
        except (FileNotFoundError, ValueError) as error:
            _log.error("job %s: no summary: %s", self.claim.job.id, type(error).__name__)
            self._failed(
                problems.describe(
                    problems.Internal(
                        "The engine wrote a summary that does not fit its schema.", _REPORT
                    )
                )
            )
            return AttemptVerdict.FAILED
        self._write(lambda: self._store_result(outcome, summary))
        return AttemptVerdict(outcome.status)

    def _interrupt(self) -> AttemptVerdict:
        self._leave(lambda: self._context.store.interrupt(self.claim))
        return AttemptVerdict.INTERRUPTED

    def _lost(self) -> AttemptVerdict:
        if self._context.notifier.draining:  # who stops a server may stop its workers as well
            self._leave(lambda: self._context.store.release(self.claim))
            return AttemptVerdict.RELEASED
        self._context.metrics.lost.inc()
        max_lost = self._context.settings.max_lost
        self._leave(lambda: self._context.store.lose(self.claim, max_lost=max_lost))
        return AttemptVerdict.LOST

    def _stalled(self) -> AttemptVerdict:
        max_lost = self._context.settings.max_lost
        self._leave(lambda: self._context.store.stall(self.claim, max_lost=max_lost))
        return AttemptVerdict.STALLED

    def _leave(self, write: Callable[[], Job]) -> None:
        """End without a plan; the files go first, for they may be what fills the disk."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._write(write)

    def _write(self, write: Callable[[], Job]) -> None:
        """Write the end of this attempt, and count the job if that was its end too."""
        job = persevere(write, self._context.store, self.claim, self._interrupted)
        if job.terminal:
            self._context.metrics.finished.labels(state=job.state.value).inc()

    def _problem(self, outcome: Outcome) -> dict[str, Any]:
        if outcome.stderr:
            _log.info("job %s stderr: %s", self.claim.job.id, outcome.stderr[-1000:])
        error = outcome.error or problems.Internal("The engine ended without a plan.", _REPORT)
        return problems.describe(error)

    def _failed(self, problem: dict[str, Any], *, retry: bool = False) -> None:
        problem["instance"] = f"/v1/jobs/{self.claim.job.id}"
        retries = self._context.settings.retries if retry else 0
        self._leave(lambda: self._context.store.fail(self.claim, problem, retries=retries))

    def _store_result(self, outcome: Outcome, summary: PlanSummary) -> Job:
        """Files first, then the row, under the guard that keeps a deletion out of between."""
        artifacts = self._context.artifacts
        with artifacts.incoming() as plan_in, artifacts.incoming() as module_in:
            plan_file = artifacts.copy_in(outcome.plan_path, plan_in)
            module_file = artifacts.copy_in(outcome.module_path, module_in)
            result = JobResult(
                plan_sha256=plan_file.sha256,
                module_sha256=module_file.sha256,
                suffix=outcome.suffix or "",
                summary=_summary(summary, outcome),
                stored_bytes=plan_file.size + module_file.size,
            )
            with artifacts.guard:
                artifacts.keep(plan_in, plan_file)
                artifacts.keep(module_in, module_file)
                return self._context.store.succeed(self.claim, result)


def work_directory(context: Context, claim: Claim) -> Path:
    """Each attempt has a directory of its own, so that none meets another's leavings."""
    return context.work / f"{claim.job.id}.{claim.attempt}"


def _summary(plan: PlanSummary, outcome: Outcome) -> dict[str, Any]:
    """The numbers that a list of jobs shows; the deadline is the server's to report."""
    stopped = outcome.status == "deadline"
    shown = plan.model_dump(exclude={"bands"})
    bands = None if plan.bands is None else plan.bands.model_dump(exclude_none=True)
    return {
        **shown,
        "bands": bands,
        "termination": "deadline" if stopped else plan.termination,
        "worker_seconds": round(outcome.seconds, 3),
        "worker_peak_bytes": outcome.peak_rss_bytes,
    }
