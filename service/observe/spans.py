"""Where an attempt stands in the trace of the request that asked for its job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from toast.process.traces import Tracer
from toast.service.ledger.records import Claim
from toast.service.ledger.store import JobStore
from toast.service.problems import DatabaseAway, DiskFull

TRACE = "traceparent"
"""The field of a job's first event that has the span of the request."""


@contextlib.contextmanager
def attempt_span(tracer: Tracer, store: JobStore, claim: Claim) -> Iterator[None]:
    """The span of an attempt, below that of the request; whatever server took that."""
    job = claim.job
    parent = _parent(store, job.id) if tracer.on else None
    fields = {"toast.job.id": job.id, "toast.attempt": claim.attempt}
    with tracer.span("attempt", parent=parent, kind="consumer", **fields):
        yield


def _parent(store: JobStore, job_id: str) -> str | None:
    try:
        first = store.events(job_id, after=0)[:1]
    except (DatabaseAway, DiskFull):
        return None  # a trace is worth no attempt
    found = first[0].data.get(TRACE) if first else None
    return found if isinstance(found, str) else None
