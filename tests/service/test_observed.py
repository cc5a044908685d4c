"""What is known of a request afterwards: its id, its line, its place in the metrics and traces."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.service.harness import ROOT, Server, check_problem, fake_engine
from toast.service.observe import logs

HAS_OTEL = importlib.util.find_spec("opentelemetry") is not None and (
    importlib.util.find_spec("opentelemetry.sdk") is not None
)
needs_otel = pytest.mark.skipif(
    not HAS_OTEL, reason="OPENTELEMETRY'S SDK IS NOT INSTALLED: run `make setup`"
)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other", "any"}


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that logs JSON, asks for a key and traces to stderr where it can."""
    directory = tmp_path_factory.mktemp("logged")
    engine = fake_engine(directory / "engine")
    environment = {"TOAST_API_KEYS": "k" * 20}
    if HAS_OTEL:
        environment |= {"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "100"}
    with Server(
        directory / "data",
        environment=environment,
        engine_command=engine,
        drain=1.0,
        log_format="json",
    ) as running:
        running.client.headers["Authorization"] = f"Bearer {'k' * 20}"
        yield running


def lines(server: Server) -> list[dict[str, Any]]:
    """What the server has logged since the last look."""
    found = []
    while not server.lines.empty():
        found.append(json.loads(server.lines.get()))
    return found


def until(server: Server, wanted: Any, seconds: float = 20) -> list[dict[str, Any]]:
    """Read the log until some line is as wanted; all lines that came by then."""
    found: list[dict[str, Any]] = []
    while not any(wanted(line) for line in found):
        found.append(json.loads(server.lines.get(timeout=seconds)))
    return found


def test_a_request_keeps_the_id_that_it_came_with(logged: Server) -> None:
    answer = logged.client.get("/v1/devices", headers={"X-Request-ID": "build-7.a_b"})
    assert answer.headers["x-request-id"] == "build-7.a_b"
    for bad in ("", "a b", "x" * 65, "é".encode("latin1"), 'a"b'):
        given = logged.client.get("/v1/devices", headers={"X-Request-ID": bad})  # type: ignore[arg-type]
        assert re.fullmatch(r"[0-9a-f]{32}", given.headers["x-request-id"])


def test_errors_have_an_id_too(logged: Server) -> None:
    for path in ("/nothing", "/v1/jobs/nobody"):
        assert len(logged.client.get(path).headers["x-request-id"]) == 32
    stranger = httpx2.get(f"{logged.url}/v1/jobs", trust_env=False)
    check_problem(stranger, 401, "unauthorized")
    assert len(stranger.headers["x-request-id"]) == 32


def test_lines_name_the_request_the_job_and_the_key(logged: Server) -> None:
    lines(logged)
    headers = {"X-Request-ID": "mine"}
    uploaded = logged.client.post("/v1/modules", content=b"success", headers=headers).json()["id"]
    body = {"module": uploaded, "mesh": "data=2"}
    job = logged.client.post("/v1/jobs", json=body, headers=headers).json()["id"]
    logged.finished(job)
    found = until(logged, lambda line: "attempt 1: done" in line.get("message", ""))
    logged.job(job)
    found += until(logged, lambda line: line.get("path") == f"/v1/jobs/{job}")
    access = [line for line in found if line.get("logger") == "toast.access"]
    mine = [line for line in access if line.get("request_id") == "mine"]
    assert [(line["method"], line["path"], line["status"]) for line in mine] == [
        ("POST", "/v1/modules", 201), ("POST", "/v1/jobs", 202),
    ]  # fmt: skip
    assert all(line["seconds"] >= 0 for line in mine)
    audited = [json.loads(line) for line in (logged.data / "audit.jsonl").read_text().splitlines()]
    (submitted,) = [
        row for row in audited if row["action"] == "job.submitted" and row["job"] == job
    ]
    assert submitted["request"] == "mine"
    assert {line["key"] for line in mine} == {submitted["key"]} != {""}
    assert any(line.get("job_id") == job for line in access)
    done = [line for line in found if "attempt 1: done" in line.get("message", "")]
    assert done[0]["job_id"] == job
    assert done[0]["level"] == "info"


def test_no_request_writes_a_line_of_its_own(logged: Server) -> None:
    lines(logged)
    logged.client.get("/v1/jobs/a%0Ab%22%7B%7D?x=%0A")
    found = until(logged, lambda line: line.get("status") == 404)
    # lines of earlier requests may still come
    paths = [line["path"] for line in found if line.get("status") == 404]
    assert paths == ["/v1/jobs/a%0Ab%22%7B%7D"]


def test_text_lines_name_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    record = logging.LogRecord("toast.x", logging.INFO, "f", 1, "said %s", ("it",), None)
    with logs.log_fields(request_id="r1", job_id="j1"):
        line = logs._Text().format(record)
    assert line.endswith("INFO toast.x said it request_id=r1 job_id=j1")


def series(server: Server) -> dict[str, list[dict[str, str]]]:
    text = server.client.get("/metrics").text
    return {
        name: [sample.labels for sample in family.samples]
        for family in text_string_to_metric_families(text)
        for name in [family.name + ("_total" if family.type == "counter" else "")]
    }


def send(server: Server, method: str, path: str) -> bytes:
    assert server.client.base_url.port is not None
    with socket.create_connection(("127.0.0.1", server.client.base_url.port)) as connection:
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        key = f"Authorization: Bearer {'k' * 20}\r\n\r\n"
        connection.sendall((head + key).encode())
        return connection.makefile("rb").readline()


def test_what_clients_invent_makes_no_series(logged: Server) -> None:
    send(logged, "GET", "/v1/jobs")
    send(logged, "BREW", "/v1/jobs")
    series(logged)
    before = sum(map(len, series(logged).values()))
    for number in range(40):
        assert b" 405 " in send(logged, f"BREW{number}", "/v1/jobs")
        send(logged, f"BREW{number}", f"/nothing/{number}")
        logged.client.get(f"/v1/jobs/{number}")
        logged.client.get(f"/v1/x{number}")
    after = series(logged)
    assert sum(map(len, after.values())) <= before + 8
    methods = {labels["method"] for labels in after["toast_http_requests_total"]}
    assert methods <= METHODS
    assert "other" in methods
    routes = {labels["route"] for labels in after["toast_http_requests_total"]}
    schema = json.loads(logged.client.get("/openapi.json").text)["paths"]
    assert routes <= {*schema, "none", "/openapi.json"}


def test_every_metric_has_the_labels_that_it_is_documented_with(logged: Server) -> None:
    logged.finished(logged.submit("success")["id"])
    documented = {
        name: set(labels.split(",")) if labels else set()
        for name, labels in re.findall(
            r"`(toast_[a-z_]+)(?:\{([a-z,]+)\})?`", (ROOT / "docs/service.md").read_text()
        )
    }
    assert documented["toast_http_requests_total"] == {"method", "route", "status"}
    for name, samples in series(logged).items():
        expected = documented[name]
        for labels in samples:
            assert set(labels) - {"le"} == expected, f"docs/service.md says other labels of {name}"


def test_a_failure_is_counted_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from toast.process.traces import Tracer
    from toast.service.observe.metrics import Metrics
    from toast.service.web.observed import Observed

    class NoJobs:
        def counts(self) -> dict[Any, int]:
            return {}

        held = counts

    class Place:
        metrics = Metrics(NoJobs())  # type: ignore[arg-type]
        tracer = Tracer(None)
        audit = None

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("/secret/path says hello")

    sent: list[Any] = []

    async def send_(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {
        "type": "http", "method": "GET", "path": "/x", "raw_path": b"/x", "headers": [],
        "state": {},
    }  # fmt: skip
    context: Any = Place()
    asyncio.run(Observed(broken, context)(scope, receive, send_))
    assert sent[0]["status"] == 500
    body = json.loads(sent[1]["body"])
    assert body["code"] == "internal"
    assert "secret" not in json.dumps(body)
    counted = Place.metrics.registry.get_sample_value(
        "toast_http_requests_total", {"method": "any", "route": "none", "status": "500"}
    )
    assert counted == 1


def test_the_version_is_told(logged: Server) -> None:
    found = logged.client.get("/version").json()
    assert set(found) == {"planner", "jax", "jaxlib", "plan_schema", "commit", "workers"}
    assert found["workers"] is None  # they are not our engines
    from importlib import metadata

    assert found["jax"] == metadata.version("jax")
    schema = json.loads((ROOT / "docs/plan.schema.json").read_text())
    assert schema["properties"]["schema"]["const"] == found["plan_schema"]
    if (ROOT / ".git").exists():
        assert re.fullmatch(r"[0-9a-f]{40}", found["commit"])


@needs_otel
def test_a_request_its_attempt_and_its_worker_are_one_trace(logged: Server) -> None:
    lines(logged)
    uploaded = logged.upload("success")
    answer = logged.client.post(
        "/v1/jobs",
        json={"module": uploaded, "mesh": "data=2"},
        headers={"traceparent": PARENT},
    )
    job = answer.json()["id"]
    logged.finished(job)
    mine = {"toast.job.id": job, "toast.attempt": 1}
    found = until(logged, lambda line: line.get("attributes") == mine)
    spans = {line["name"]: line for line in found if line.get("context")}
    request, attempt = spans["POST /v1/jobs"], spans["attempt"]
    assert request["context"]["trace_id"] == attempt["context"]["trace_id"] == f"0x{TRACE}"
    assert request["parent_id"] == f"0x{PARENT.split('-')[2]}"
    assert attempt["parent_id"] == request["context"]["span_id"]
    assert attempt["attributes"]["toast.job.id"] == job
    assert request["attributes"]["http.response.status_code"] == 202
    first = logged.events(job)[0]["data"]["traceparent"]
    assert first.split("-")[1] == TRACE


@needs_otel
def test_the_worker_takes_the_span_that_it_is_given(tmp_path: Path) -> None:
    import subprocess

    from examples import forms, mlp
    from toast.process.runner import engine_command, engine_environment, prepare
    from toast.request.request import PlanRequest

    module = forms.serialize(mlp.make_step(mlp.PRESETS["tiny"]), "text")
    prepare(tmp_path, module, PlanRequest(mesh="data=2", rollouts=8, threads=1))
    (tmp_path / "traceparent").write_text(PARENT)
    environment = engine_environment() | {"OTEL_TRACES_EXPORTER": "console"}
    done = subprocess.run(
        engine_command(str(tmp_path)), env=environment, capture_output=True, text=True, check=True,
        stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    spans = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    plan = next(span for span in spans if span["name"] == "plan")
    assert plan["parent_id"] == f"0x{PARENT.split('-')[2]}"
    stages = [span["name"] for span in spans if span["parent_id"] == plan["context"]["span_id"]]
    assert {"load", "analyse", "write"} <= set(stages)
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{TRACE}"}


@needs_otel
def test_spans_nest_and_leave_nothing_behind() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from toast.process.traces import StageSpans, Tracer, here

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = Tracer(provider)
    with tracer.span("outer", parent=PARENT, kind="server", missing=None):
        outer = here()
        with StageSpans(tracer) as stages:
            for stage in ("load", "load", "search"):
                stages.enter(stage)
    assert here() is None
    assert outer is not None
    assert outer.split("-")[1] == TRACE
    assert [span.name for span in exporter.get_finished_spans()] == ["load", "search", "outer"]


def test_traces_that_cannot_be_made_are_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from toast.process.traces import TracesMissing, tracer_of

    assert not tracer_of({}, "x").on
    assert not tracer_of({"OTEL_TRACES_EXPORTER": "none"}, "x").on
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(TracesMissing, match="otel"):
        tracer_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, "x")
