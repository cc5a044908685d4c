"""What `/metrics` shows. One registry a server, not the global one, so that tests can have many."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from toast.service.ledger.store import JobStore
from toast.service.problems import DatabaseAway

_JOB_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600)
_REQUEST_SECONDS = (0.002, 0.005, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 60)


class Metrics:
    """The counters that the other parts of the service move."""

    def __init__(self, store: JobStore) -> None:
        disable_created_metrics()  # twice the series for nothing
        self.registry = CollectorRegistry()
        self.registry.register(_JobStates(store))
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.finished = counter(
            "toast_jobs_finished", "Jobs that ended, by final state.", ["state"]
        )
        self.attempts = counter(
            "toast_attempts", "Worker processes that ended, by outcome.", ["outcome"]
        )
        self.starts = counter(
            "toast_worker_starts",
            "Workers that got a job, by where they came from.",
            ["kind"],
        )
        self.attempt_seconds = histogram(
            "toast_attempt_seconds", "Run time of a worker.", buckets=_JOB_SECONDS
        )
        self.queue_seconds = histogram(
            "toast_queue_seconds", "Wait before a claim.", buckets=_JOB_SECONDS
        )
        self.peak_bytes = gauge(
            "toast_worker_peak_bytes", "Peak resident memory of the last worker."
        )
        self.busy = gauge("toast_workers_busy", "Workers that run a job.")
        self.workers = gauge("toast_workers", "Workers that this server may run.")
        self.lost = counter("toast_workers_lost", "Worker processes that somebody killed.")
        self.interrupted = counter(
            "toast_jobs_taken_back", "Jobs taken back from servers that died or stalled."
        )
        self.reused = counter(
            "toast_results_reused", "Jobs given the result of an earlier one.", ["cache"]
        )
        self.expired = counter("toast_expired", "Jobs and modules past their time.", ["what"])
        self.stale = counter("toast_stale_writes", "Writes of workers that had lost their claim.")
        self.uploaded = counter("toast_uploaded_bytes", "Bytes of modules taken in.")
        self.connections = gauge("toast_http_connections", "Open connections.")
        self.dropped = counter(
            "toast_http_connections_dropped", "Connections refused or closed.", ["reason"]
        )
        self.streams = gauge("toast_event_streams", "Readers of events.")
        self.requests = counter(
            "toast_http_requests",
            "Requests answered, by method, route and status.",
            ["method", "route", "status"],
        )
        self.request_seconds = histogram(
            "toast_http_request_seconds",
            "Time to the first byte of the answer.",
            ["route"],
            buckets=_REQUEST_SECONDS,
        )


class _JobStates(Collector):
    """Counts the job table at each scrape, so that a restart shows no wrong numbers."""

    def __init__(self, store: JobStore) -> None:
        self._store = store

    def describe(self) -> Iterable[GaugeMetricFamily]:
        yield GaugeMetricFamily("toast_jobs", "Jobs in the table, by state.", labels=["state"])
        yield GaugeMetricFamily(
            "toast_jobs_held", "Queued jobs that no free worker takes.", labels=["reason"]
        )

    def collect(self) -> Iterable[GaugeMetricFamily]:
        states, held = self.describe()
        with suppress(DatabaseAway):  # the other numbers matter most when the database is away
            for state, count in self._store.counts().items():
                states.add_metric([state.value], count)
            for reason, count in self._store.held().items():
                held.add_metric([reason.value], count)
        yield states
        yield held
