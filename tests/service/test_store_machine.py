"""The store against a model that fits in one's head, under any order of calls, faults and times."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from toast.service import problems
from toast.service.ledger.backoff import Backoff
from toast.service.ledger.database import open_database, sqlite_url
from toast.service.ledger.records import Claim, JobResult, NewJob
from toast.service.ledger.sqlstore import SqlJobStore
from toast.service.ledger.states import CLAIMED, TERMINAL, State
from toast.service.ledger.store import StaleClaim

MODULE = "a" * 64
MAX_LOST = 3
MAX_QUEUED = 4
LEASE = 10.0
FIRST_WAIT, LONGEST_WAIT, LONGEST_SUSPECTED = 1.0, 8.0, 32.0
DEATHS = 3
LARGE = {"pad": "x" * 200_000}
"""More than the free pages of a small database hold."""


@dataclass
class Model:
    """A job as the contract describes it."""

    state: State = State.QUEUED
    attempt: int = 0
    failures: int = 0
    lost: int = 0
    interruptions: int = 0
    deaths: int = 0
    not_before: float | None = None
    lease_until: float = 0.0
    finished: float | None = None
    owner: str | None = None
    plan: str | None = None
    history: list[str] = field(default_factory=lambda: ["queued"])

    def become(self, state: State, now: float = 0.0) -> None:
        self.state = state
        self.finished = now if state in TERMINAL else None
        self.history.append(state.value)


class StoreMachine(RuleBasedStateMachine):
    jobs = Bundle("jobs")
    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.file = self.directory / "jobs.db"
        self.now = 1e9
        self.open()
        self.models: dict[str, Model] = {}
        self.keys: dict[str, tuple[str, str]] = {}

    def open(self) -> None:
        self.database = open_database(sqlite_url(self.file))
        backoff = Backoff(
            first=FIRST_WAIT, longest=LONGEST_WAIT, longest_suspected=LONGEST_SUSPECTED
        )
        self.store = SqlJobStore(self.database, backoff=backoff, wall=lambda: self.now)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.directory)

    @initialize()
    def upload(self) -> None:
        assert self.store.add_module(MODULE, 1)

    @rule(
        target=jobs,
        key=st.sampled_from([None, "k1", "k2"]),
        fingerprint=st.sampled_from(["f", "g"]),
    )
    def create(self, key: str | None, fingerprint: str) -> Any:
        new = NewJob(module=MODULE, request={}, key=key, fingerprint=fingerprint)
        if key in self.keys:
            known, used = self.keys[key]
            if used == fingerprint:
                job, fresh = self.store.create(new, max_queued=MAX_QUEUED)
                assert (job.id, fresh) == (known, False)
            else:
                with pytest.raises(problems.IdempotencyMismatch):
                    self.store.create(new, max_queued=MAX_QUEUED)
            return multiple()
        if self.count(State.QUEUED) >= MAX_QUEUED:
            with pytest.raises(problems.QueueFull):
                self.store.create(new, max_queued=MAX_QUEUED)
            return multiple()
        job, fresh = self.store.create(new, max_queued=MAX_QUEUED)
        assert fresh
        self.models[job.id] = Model()
        if key is not None:
            self.keys[key] = (job.id, fingerprint)
        return job.id

    @rule(target=claims, owner=st.sampled_from(["one", "two"]))
    def claim(self, owner: str) -> Any:
        waiting = self.waiting_for(owner)
        claim = self.store.claim(owner, lease=LEASE)
        if not waiting:
            assert claim is None
            return multiple()
        assert claim is not None
        assert claim.job.id == waiting[0]  # dictionaries keep the order of creation
        model = self.models[claim.job.id]
        model.attempt += 1
        model.owner = owner
        model.not_before = None
        model.lease_until = self.now + LEASE
        model.become(State.RUNNING, self.now)
        assert claim.attempt == model.attempt
        return claim

    def held(self, claim: Claim) -> Model | None:
        """The model if the claim is still good."""
        model = self.models.get(claim.job.id)
        good = model is not None and model.attempt == claim.attempt and model.state in CLAIMED
        return model if good else None

    @rule(claim=claims)
    def progress(self, claim: Claim) -> None:
        model = self.held(claim)
        if model is None:
            with pytest.raises(StaleClaim):
                self.store.progress(claim, {"fraction": 0.5}, lease=LEASE)
            with pytest.raises(StaleClaim):
                self.store.renew(claim, lease=LEASE)
            return
        assert self.store.progress(claim, {"fraction": 0.5}, lease=LEASE) is model.state
        assert self.store.renew(claim, lease=LEASE) is model.state
        model.history.append("progress")
        model.lease_until = self.now + LEASE

    @rule(claim=claims)
    def succeed(self, claim: Claim) -> None:
        result = JobResult(plan_sha256="b" * 64, module_sha256="c" * 64, suffix=".mlir", summary={})
        model = self.held(claim)
        if model is None:
            with pytest.raises(StaleClaim):
                self.store.succeed(claim, result)
            return
        self.store.succeed(claim, result)
        model.plan = result.plan_sha256
        self.end(model, State.SUCCEEDED)

    @rule(claim=claims, retries=st.integers(0, 2))
    def fail(self, claim: Claim, retries: int) -> None:
        model = self.held(claim)
        if model is None:
            with pytest.raises(StaleClaim):
                self.store.fail(claim, {"code": "x"}, retries=retries)
            return
        self.store.fail(claim, {"code": "x"}, retries=retries)
        model.failures += 1
        if model.state is State.RUNNING and model.failures <= retries:
            model.become(State.QUEUED, self.now)
        else:
            self.end(model, State.FAILED)

    @rule(claim=claims)
    def lose(self, claim: Claim) -> None:
        model = self.held(claim)
        if model is None:
            with pytest.raises(StaleClaim):
                self.store.lose(claim, max_lost=MAX_LOST)
            return
        self.store.lose(claim, max_lost=MAX_LOST)
        self.vanish(model)

    @rule(claim=claims)
    def interrupt(self, claim: Claim) -> None:
        model = self.held(claim)
        if model is None:
            with pytest.raises(StaleClaim):
                self.store.interrupt(claim)
            return
        self.store.interrupt(claim)
        self.suffer(model)

    @rule(claim=claims)
    def release(self, claim: Claim) -> None:
        model = self.held(claim)
        if model is None:
            with pytest.raises(StaleClaim):
                self.store.release(claim)
            return
        self.store.release(claim)
        if model.state is State.CANCELLING:
            model.become(State.CANCELLED, self.now)
        else:
            model.become(State.QUEUED, self.now)

    @rule(owner=st.sampled_from(["one", "two"]))
    def restart(self, owner: str) -> None:
        """The server of `owner` died and came back."""
        theirs = {
            name
            for name, model in self.models.items()
            if model.state in CLAIMED and model.owner == owner
        }
        recovered = self.store.recover(owner)
        assert {job.id for job in recovered} == theirs
        for name in theirs:
            self.suffer(self.models[name], deaths=1)

    @rule(seconds=st.sampled_from([0.5, 3.0, 20.0, -1000.0]))
    def time_passes(self, seconds: float) -> None:
        """Or is set back."""
        self.now += seconds

    @precondition(lambda self: any(m.state in CLAIMED for m in self.models.values()))
    @rule()
    def reap(self) -> None:
        """Jobs of servers that did not renew their leases are taken back, and no other."""
        late = {
            name
            for name, model in self.models.items()
            if model.state in CLAIMED and model.lease_until < self.now
        }
        assert {job.id for job in self.store.recover(None)} == late
        for name in late:
            self.suffer(self.models[name], deaths=1)

    @rule(claim=claims)
    def write_on_a_full_disk(self, claim: Claim) -> None:
        """Whatever is refused for want of room has changed nothing."""
        with self.full_disk():
            if self.count(State.QUEUED) < MAX_QUEUED:
                with pytest.raises(problems.DiskFull):
                    self.store.create(NewJob(module=MODULE, request=LARGE), max_queued=MAX_QUEUED)
            if self.held(claim) is not None:
                with pytest.raises(problems.DiskFull):
                    self.store.progress(claim, LARGE, lease=LEASE)

    @rule(claim=claims)
    def write_while_the_database_is_away(self, claim: Claim) -> None:
        with self.moved_away():
            with pytest.raises(problems.DatabaseAway):
                self.store.ping()
            if self.count(State.QUEUED) < MAX_QUEUED:
                with pytest.raises(problems.DatabaseAway):
                    self.store.create(NewJob(module=MODULE, request={}), max_queued=MAX_QUEUED)
            if self.held(claim) is not None:
                with pytest.raises(problems.DatabaseAway):
                    self.store.interrupt(claim)
        self.store.ping()

    @rule(job=jobs)
    def cancel(self, job: str) -> None:
        model = self.models.get(job)
        if model is None:
            with pytest.raises(problems.UnknownJob):
                self.store.cancel(job)
        elif model.state in TERMINAL:
            with pytest.raises(problems.JobFinished):
                self.store.cancel(job)
        else:
            self.store.cancel(job)
            if model.state is State.QUEUED:
                model.not_before = None
                model.become(State.CANCELLED, self.now)
            elif model.state is State.RUNNING:
                model.become(State.CANCELLING, self.now)

    @rule(job=jobs)
    def acquit(self, job: str) -> None:
        model = self.models.get(job)
        if model is None:
            with pytest.raises(problems.UnknownJob):
                self.store.acquit(job)
        elif model.state in TERMINAL:
            with pytest.raises(problems.JobFinished):
                self.store.acquit(job)
        else:
            self.store.acquit(job)
            model.deaths, model.not_before = 0, None
            model.history.append(model.state.value)

    @rule(job=consumes(jobs))
    def delete(self, job: str) -> None:
        model = self.models.get(job)
        if model is not None and model.state in CLAIMED:
            with pytest.raises(problems.JobNotFinished):
                self.store.delete(job)
        elif model is not None:
            self.store.delete(job)
            del self.models[job]
            self.keys = {key: used for key, used in self.keys.items() if used[0] != job}

    @rule(age=st.sampled_from([1.0, 10.0]))
    def expire(self, age: float) -> None:
        """Jobs go that were over before that time, and with the last one their module may."""
        before = self.now - age
        old = {
            name
            for name, model in self.models.items()
            if model.finished is not None and model.finished < before
        }
        gone = self.store.expire_jobs(before=before, limit=100)
        assert {job.id for job in gone} == old
        for name in old:
            del self.models[name]
        self.keys = {key: used for key, used in self.keys.items() if used[0] not in old}
        if self.models:
            assert self.store.expire_modules(before=self.now + 1e6, limit=100) == []
            with pytest.raises(problems.ModuleInUse):
                self.store.delete_module(MODULE)
        else:
            self.store.delete_module(MODULE)
            assert self.store.add_module(MODULE, 1)

    @rule()
    def reopen(self) -> None:
        """All that was written is there for the next process."""
        self.store.close()
        self.open()

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """The file may not grow by a page, which SQLite meets as it meets a full disk."""
        with self.database.writer.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        yield
        with self.database.writer.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count=1000000")

    @contextlib.contextmanager
    def moved_away(self) -> Iterator[None]:
        elsewhere = self.file.with_suffix(".elsewhere")
        self.file.rename(elsewhere)
        yield
        elsewhere.rename(self.file)

    def waiting_for(self, owner: str) -> list[str]:
        """Jobs that a server may claim, in their order; the suspected last, and alone."""
        running = [m for m in self.models.values() if m.state in CLAIMED and m.owner == owner]
        if any(model.deaths >= DEATHS for model in running):
            return []
        found = [name for name, model in self.models.items() if self.may_run(model)]
        free = [name for name in found if self.models[name].deaths < DEATHS]
        return free + ([] if running else [name for name in found if name not in free])

    def may_run(self, model: Model) -> bool:
        longest = LONGEST_SUSPECTED if model.deaths >= DEATHS else LONGEST_WAIT
        start = model.not_before
        waited = start is None or start <= self.now or start > self.now + longest
        return model.state is State.QUEUED and waited

    def end(self, model: Model, state: State) -> None:
        model.become(State.CANCELLED if model.state is State.CANCELLING else state, self.now)

    def vanish(self, model: Model) -> None:
        model.lost += 1
        if model.state is State.CANCELLING:
            model.become(State.CANCELLED, self.now)
        elif model.lost < MAX_LOST:
            self.wait(model)
        else:
            model.become(State.FAILED, self.now)

    def suffer(self, model: Model, deaths: int = 0) -> None:
        """A fault of the operator: counted apart, and never the end of a job."""
        model.interruptions += 1
        model.deaths += deaths
        if model.state is State.CANCELLING:
            model.become(State.CANCELLED, self.now)
        else:
            self.wait(model)

    def wait(self, model: Model) -> None:
        times = model.lost + model.interruptions
        longest = LONGEST_SUSPECTED if model.deaths >= DEATHS else LONGEST_WAIT
        model.not_before = self.now + min(longest, FIRST_WAIT * 2 ** (times - 1))
        model.become(State.QUEUED, self.now)

    def count(self, state: State) -> int:
        return sum(model.state is state for model in self.models.values())

    @invariant()
    def agrees_with_the_model(self) -> None:
        page = self.store.page(limit=100, before=None, state=None)
        assert [job.id for job in page] == list(reversed(self.models))
        for job in page:
            model = self.models[job.id]
            assert (job.state, job.attempt, job.failures, job.lost, job.plan_sha256) == (
                model.state, model.attempt, model.failures, model.lost, model.plan,
            )  # fmt: skip
            assert (job.interruptions, job.not_before) == (model.interruptions, model.not_before)
            assert job.server_deaths == model.deaths
            assert (job.finished is not None) == (job.state in TERMINAL)
            events = self.store.events(job.id, after=0)
            assert [event.number for event in events] == list(range(1, job.version + 1))
            assert [e.data.get("state", e.kind) for e in events] == model.history
        assert self.store.counts() == {state: self.count(state) for state in State}


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=12, stateful_step_count=25, derandomize=True)


class PostgresStoreMachine(StoreMachine):
    """The same machine on PostgreSQL, which has neither SQLite's file nor its faults."""

    url = ""

    def open(self) -> None:
        self.database = open_database(self.url)
        backoff = Backoff(
            first=FIRST_WAIT, longest=LONGEST_WAIT, longest_suspected=LONGEST_SUSPECTED
        )
        self.store = SqlJobStore(self.database, backoff=backoff, wall=lambda: self.now)

    def write_on_a_full_disk(self, claim: Claim) -> None:
        """No rule here: PostgreSQL's disk cannot be filled from a connection."""

    @contextlib.contextmanager
    def moved_away(self) -> Iterator[None]:
        name = sa.make_url(self.url).database
        self._administer(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        self._administer(cut)
        yield
        self._administer(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    def _administer(self, statement: str) -> None:
        server = sa.make_url(self.url).set(database="postgres")
        engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)

    def teardown(self) -> None:
        with self.database.writer.begin() as connection:
            connection.exec_driver_sql("TRUNCATE modules CASCADE")
        super().teardown()


def test_the_machine_runs_on_postgresql(postgres_url: str) -> None:
    class Machine(PostgresStoreMachine):
        url = postgres_url

    run_state_machine_as_test(Machine, settings=settings(TestStoreMachine.settings, max_examples=5))
