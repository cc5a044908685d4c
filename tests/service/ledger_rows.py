"""Rows of a ledger that tests of the job store begin with."""

from __future__ import annotations

from toast.service.ledger.records import Claim, Job, NewJob
from toast.service.ledger.store import JobStore

MODULE = "a" * 64
LEASE = 60.0


def queued(store: JobStore, key: str | None = None, fingerprint: str = "f") -> Job:
    store.add_module(MODULE, 10)
    new = NewJob(module=MODULE, request={"mesh": "data=2"}, key=key, fingerprint=fingerprint)
    return store.create(new, max_queued=100)[0]


def claimed(store: JobStore, owner: str = "me", lease: float = LEASE) -> Claim:
    queued(store)
    claim = store.claim(owner, lease=lease)
    assert claim is not None
    return claim


def kinds(store: JobStore, job: Job) -> list[str]:
    events = store.events(job.id, after=0)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert store.get(job.id).version == len(events)
    return [f"{event.data.get('state', event.kind)}" for event in events]
