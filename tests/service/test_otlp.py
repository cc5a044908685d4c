"""Traces that really leave: a collector on loopback takes them and reads them."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.service.harness import Server, fake_engine

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry.exporter") is None,
    reason="the extra otel is not installed",
)


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP; `spans` are those that came, decoded."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.spans: list[tuple[str, Any]] = []
        self.paths: set[str] = set()


class _Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        self.server.paths.add(self.path)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.server.spans += [(names["service.name"], span) for span in scope.spans]
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """The test's output is not this one's log."""


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()


def test_spans_of_a_job_arrive_at_a_collector(tmp_path: Path) -> None:
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    with collecting() as collector:
        port = collector.server_address[1]
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "NO_PROXY": "127.0.0.1",
        }
        engine = fake_engine(tmp_path / "engine")
        with Server(
            tmp_path / "data", environment=variables, engine_command=engine, drain=1.0
        ) as server:
            body = {"module": server.upload("success"), "mesh": "data=2"}
            headers = {"traceparent": f"00-{trace}-{parent}-01"}
            answer = server.client.post("/v1/jobs", json=body, headers=headers)
            server.finished(answer.json()["id"])
            end = time.monotonic() + 20
            while len(ours := _of(collector, trace)) < 2:
                assert time.monotonic() < end, [span.name for _, span in collector.spans]
                time.sleep(0.05)
    assert collector.paths == {"/v1/traces"}
    by_name = {span.name: (service, span) for service, span in ours}
    service, request = by_name["POST /v1/jobs"]
    assert service == "toast-service"
    assert request.parent_span_id.hex() == parent
    attempt = next(span for name, (_, span) in by_name.items() if name != "POST /v1/jobs")
    assert attempt.parent_span_id == request.span_id
    assert attempt.end_time_unix_nano > attempt.start_time_unix_nano


def _of(collector: Collector, trace: str) -> list[tuple[str, Any]]:
    return [(service, span) for service, span in collector.spans if span.trace_id.hex() == trace]
