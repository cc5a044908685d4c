"""Who follows a job shares what is read of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from toast.service import feeds as feeds_module
from toast.service import problems
from toast.service.context import Context
from toast.service.job_notifier import JobNotifier
from toast.service.ledger.database import open_database, sqlite_url
from toast.service.ledger.records import Job, NewJob
from toast.service.ledger.sqlstore import SqlJobStore
from toast.service.observe.metrics import Metrics
from toast.service.web.waiting import stream_events, wait_for

MODULE = "a" * 64


class CountingStore(SqlJobStore):
    """Counts the queries that readers cause."""

    def __init__(self, path: Path) -> None:
        super().__init__(open_database(sqlite_url(path)))
        self.asked: Counter[str] = Counter()

    def get(self, job_id: str) -> Job:
        self.asked["get"] += 1
        return super().get(job_id)

    def events(self, job_id: str, *, after: int) -> Any:
        self.asked["events"] += 1
        return super().events(job_id, after=after)


class Place:
    """A context with one running job."""

    def __init__(self, path: Path) -> None:
        self.store = CountingStore(path / "jobs.db")
        self.notifier = JobNotifier()
        self.metrics = Metrics(self.store)
        nothing: Any = None
        self.context = Context(
            settings=nothing,
            store=self.store,
            artifacts=nothing,
            notifier=self.notifier,
            metrics=self.metrics,
            audit=nothing,
            owner="me",
        )
        self.store.add_module(MODULE, 1)
        self.job = self.store.create(NewJob(module=MODULE, request={}), max_queued=9)[0]
        claim = self.store.claim("me", lease=60)
        assert claim is not None
        self.claim = claim

    def progress(self, fraction: float) -> None:
        self.store.progress(self.claim, {"fraction": fraction}, lease=60)
        self.notifier.notify(self.job.id)

    def fail(self) -> None:
        self.store.fail(self.claim, {"code": "internal"})
        self.notifier.notify(self.job.id)

    async def read(self, after: int = 0) -> str:
        return "".join([text async for text in stream_events(self.context, self.job.id, after)])


@pytest.fixture
def place(tmp_path: Path) -> Any:
    made = Place(tmp_path)
    yield made
    made.store.close()


async def until_waiting(place: Place, readers: int) -> None:
    while True:
        feed = place.context.feeds._feeds.get(place.job.id)
        if feed is not None and feed.job is not None and len(feed.waiting) == readers:
            return
        await asyncio.sleep(0.01)


def numbers(text: str) -> list[int]:
    return [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]


def test_many_readers_cost_what_one_does(place: Place) -> None:
    async def main() -> list[str]:
        place.notifier.attach(asyncio.get_running_loop())
        readers = [asyncio.create_task(place.read()) for _ in range(200)]
        await until_waiting(place, 200)
        place.store.asked.clear()
        for step in range(5):
            place.progress(step / 5)
            await asyncio.sleep(0.05)
        place.fail()
        return await asyncio.gather(*readers)

    texts = asyncio.run(main())
    assert all(numbers(text) == list(range(1, 9)) for text in texts)
    assert place.store.asked["events"] <= 6
    assert place.store.asked["get"] <= 20
    assert place.context.feeds._feeds == {}
    assert place.metrics.registry.get_sample_value("toast_event_streams") == 0


def test_a_late_reader_misses_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds_module, "KEPT_EVENTS", 3)

    async def main() -> list[str]:
        place.notifier.attach(asyncio.get_running_loop())
        early = asyncio.create_task(place.read())
        await until_waiting(place, 1)
        for step in range(10):
            place.progress(step / 10)
            await asyncio.sleep(0.02)
        late = [asyncio.create_task(place.read(after)) for after in (0, 5, 10, 12)]
        await until_waiting(place, 5)
        place.fail()
        return await asyncio.gather(early, *late)

    texts = asyncio.run(main())
    assert [numbers(text) for text in texts] == [
        list(range(after + 1, 14)) for after in (0, 0, 5, 10, 12)
    ]


def test_waiting_for_the_end_is_shared_too(place: Place) -> None:
    async def main() -> list[Job]:
        place.notifier.attach(asyncio.get_running_loop())
        over = [
            asyncio.create_task(wait_for(place.context, place.job.id, 30, lambda job: job.terminal))
            for _ in range(100)
        ]
        await until_waiting(place, 100)
        place.store.asked.clear()
        place.progress(0.5)
        await asyncio.sleep(0.05)
        place.fail()
        return await asyncio.gather(*over)

    assert {job.state for job in asyncio.run(main())} == {"failed"}
    assert place.store.asked["get"] <= 10


def test_a_deleted_job_ends_all_that_wait_for_it(place: Place) -> None:
    place.fail()
    place.job = place.store.create(NewJob(module=MODULE, request={}), max_queued=9)[0]

    async def main() -> list[Any]:
        place.notifier.attach(asyncio.get_running_loop())
        reading = asyncio.create_task(place.read())
        waiting = asyncio.create_task(
            wait_for(place.context, place.job.id, 30, lambda job: job.terminal)
        )
        await until_waiting(place, 2)
        place.store.delete(place.job.id)
        place.notifier.notify(place.job.id)
        return list(await asyncio.gather(reading, waiting, return_exceptions=True))

    text, error = asyncio.run(main())
    assert numbers(text) == [1]
    assert isinstance(error, problems.UnknownJob)
