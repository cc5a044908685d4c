"""Claims jobs and runs each attempt in a fresh worker process.

A thread a worker claims and waits for its process; one more thread renews the leases, notices
cancellations made elsewhere and takes back jobs of servers that died. Every write after a claim
goes through the store's fence, so an attempt that was overtaken can do no harm: its writes are
refused and its process is stopped.
"""

from __future__ import annotations

import logging
import threading
import time

from toast.process.confine import Confinement
from toast.service.context import Context
from toast.service.ledger.listening import Listener
from toast.service.ledger.records import Claim, Job
from toast.service.ledger.states import State
from toast.service.ledger.store import StaleClaim
from toast.service.observe.logs import log_fields
from toast.service.observe.spans import attempt_span
from toast.service.problems import DatabaseAway, DiskFull
from toast.service.readable import why_unreadable
from toast.service.work.attempt import Attempt, AttemptVerdict
from toast.service.work.launchers import make_launcher
from toast.service.work.spares import SparePool

_log = logging.getLogger("toast.service")

_POLL_SECONDS = 1.0
_LONGEST_PAUSE = 5.0
_SUSPECTED = (
    "job %s is suspected of ending its servers: %d died while it ran; it runs alone from now on, "
    "and ever more rarely (toast admin suspects)"
)


class Dispatcher:
    """Runs up to `settings.workers` jobs at once until `stop`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._running: dict[str, Attempt] = {}
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._claiming = threading.Lock()
        self._draining = threading.Event()
        self._giving_back = False
        self._over = threading.Event()
        self._launcher = make_launcher(context.settings)
        self._spares = SparePool(self._launcher, context.settings.spares)
        count = context.settings.workers
        self._workers = [
            threading.Thread(target=self._work, name=f"worker-{index}") for index in range(count)
        ]
        self._keeper = threading.Thread(target=self._keep_leases, name="leases")
        self._listener = Listener(context.settings.database_url, self._on_change, self._on_hearing)

    @property
    def confinement(self) -> Confinement | None:
        """What is left to workers, None where that is not known here."""
        return self._launcher.confinement

    def start(self) -> None:
        """Take back what an earlier life of this server left, then begin to claim."""
        self._recover(self._context.owner)
        self._context.metrics.workers.set(len(self._workers))
        self._spares.start()
        self._listener.start()
        for thread in (*self._workers, self._keeper):
            thread.start()

    def nudge(self) -> None:
        """A job was queued."""
        with self._wake:
            self._wake.notify_all()

    def cancel(self, job_id: str) -> None:
        """The job became cancelling: tell its worker if it is one of ours."""
        with self._lock:
            attempt = self._running.get(job_id)
        if attempt is not None:
            attempt.stop()

    def missing(self) -> list[str]:
        """The names of threads that should run and do not."""
        threads = (*self._workers, self._keeper)
        return [thread.name for thread in threads if not thread.is_alive()]

    def drain(self) -> None:
        """Claim nothing more. Running jobs have `settings.drain` seconds. Returns at once."""
        self._draining.set()

    def stop(self) -> None:
        """Drain, give back what still runs then, and return when no worker is left."""
        self.drain()
        self.nudge()
        deadline = time.monotonic() + self._context.settings.drain
        for thread in self._workers:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))
        with self._lock:
            self._giving_back = True
            left = list(self._running.values())
        for attempt in left:
            attempt.interrupt()
        for thread in self._workers:
            thread.join()
        self._spares.close()
        self._listener.stop()
        self._over.set()
        self._keeper.join()

    def _on_change(self, job_id: str, state: State) -> None:
        """Somebody changed a job, another server or we."""
        self._context.notifier.notify(job_id)
        if state is State.QUEUED:
            self.nudge()
        elif state is State.CANCELLING:
            self.cancel(job_id)

    def _on_hearing(self, hears: bool) -> None:
        self._context.notifier.hears_others = hears

    def _work(self) -> None:
        pause = _POLL_SECONDS
        while not self._draining.is_set():
            try:
                claim = self._claim()
                pause = _POLL_SECONDS
                if claim is None:
                    with self._wake:
                        self._wake.wait(_POLL_SECONDS)
                else:
                    with log_fields(job_id=claim.job.id):
                        self._run(claim)
            except (DatabaseAway, DiskFull) as error:
                if pause == _POLL_SECONDS:
                    _log.warning("no job is claimed: %s", error.message)
                self._draining.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Exception:
                _log.exception("worker thread failed; it goes on")
                self._draining.wait(_POLL_SECONDS)

    def _claim(self) -> Claim | None:
        """The next job; none is taken while the disk has no room for what it would write."""
        settings = self._context.settings
        self._context.disk.check()
        with self._claiming:
            claim = self._context.store.claim(
                self._context.owner, lease=settings.lease, reads=_understands
            )
        if claim is not None:
            self._context.notifier.notify(claim.job.id)
            self._context.metrics.queue_seconds.observe(
                max(0.0, (claim.job.started or 0.0) - claim.job.created)
            )
        return claim

    def _run(self, claim: Claim) -> None:
        context, job_id = self._context, claim.job.id
        attempt = Attempt(context, claim, self._launcher, self._spares)
        with self._lock:
            self._running[job_id] = attempt
            if self._giving_back:  # the claim was made while `stop` looked at what runs
                attempt.interrupt()
        context.metrics.busy.inc()
        try:
            with attempt_span(context.tracer, context.store, claim):
                verdict = attempt.run()
        except StaleClaim:
            context.metrics.stale.inc()
            verdict = AttemptVerdict.STALE
            _log.warning("job %s attempt %d lost its claim", job_id, claim.attempt)
        finally:
            context.metrics.busy.dec()
            with self._lock:
                del self._running[job_id]
        context.metrics.attempts.labels(outcome=verdict.value).inc()
        context.notifier.notify(job_id)
        _log.info("job %s attempt %d: %s", job_id, claim.attempt, verdict.value)

    def _keep_leases(self) -> None:
        # Renewing comes before reaping, and reaping goes by the time before the renewal: after a
        # pause of this process longer than a lease, wherever in this loop it comes, its own jobs
        # are renewed (if nobody took them) rather than taken from itself.
        usual = pause = self._context.settings.lease / 3
        while not self._over.wait(pause):
            try:
                before = self._context.store.clock()
                self._renew()
                self._recover(None, before)
                pause = usual
            except (DatabaseAway, DiskFull) as error:
                _log.warning("leases could not be renewed: %s", error.message)
                pause = min(usual, _POLL_SECONDS)
            except Exception:
                _log.exception("leases could not be renewed; trying again")

    def _renew(self) -> None:
        with self._lock:
            attempts = list(self._running.values())
        for attempt in attempts:
            try:
                state = self._context.store.renew(attempt.claim, lease=self._context.settings.lease)
                if state is State.CANCELLING:
                    attempt.stop()
            except StaleClaim:
                attempt.stop()

    def _recover(self, owner: str | None, at: float | None = None) -> None:
        context = self._context
        for job in context.store.recover(owner, at=at):
            context.metrics.interrupted.inc()
            _log.warning("job %s lost its server and is now %s", job.id, job.state)
            if job.is_suspected:
                _log.warning(_SUSPECTED, job.id, job.server_deaths)
            if job.terminal:
                context.metrics.finished.labels(state=job.state.value).inc()
            context.notifier.notify(job.id)
            self.nudge()


def _understands(job: Job) -> bool:
    """Whether this version can run the job; the log says of each once why not."""
    reason = why_unreadable(job.request)
    if reason is not None:
        _log.warning("job %s waits for a newer worker: %s", job.id, reason)
    return reason is None
