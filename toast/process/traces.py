"""Spans of OpenTelemetry, where it is installed and told where to send them.

The usual variables decide: `OTEL_EXPORTER_OTLP_ENDPOINT` (or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`),
or `OTEL_TRACES_EXPORTER=console` for stderr. Without them, or without the extra `otel`, a span
costs one look at a variable. A span crosses processes as W3C `traceparent`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

_FILE = "traceparent"
"""In the directory of a job: the span that its process belongs to."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTER = "OTEL_TRACES_EXPORTER"
_NAME = "toast"


class TracesMissing(Exception):
    """Traces are asked for and the extra is not installed."""


class Tracer:
    """Makes spans with a provider; with None it makes none."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._provider = provider

    @property
    def on(self) -> bool:
        """Whether anybody takes the spans."""
        return self._provider is not None

    @contextlib.contextmanager
    def span(
        self, name: str, parent: str | None = None, kind: str = "internal", **attributes: Any
    ) -> Iterator[Any]:
        """A span, below `parent` (a `traceparent`) or the one that is open here; None when off."""
        if self._provider is None:
            yield None
            return
        from opentelemetry.trace import SpanKind

        tracer = self._provider.get_tracer(_NAME)
        known = {key: value for key, value in attributes.items() if value is not None}
        with tracer.start_as_current_span(
            name, context=_context(parent), kind=SpanKind[kind.upper()], attributes=known
        ) as span:
            yield span

    def finish(self) -> None:
        """Send what was not sent yet."""
        if self._provider is not None:
            self._provider.shutdown()


def goes_out(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for spans to be sent over the network."""
    wanted = any(environment.get(name) for name in _ENDPOINTS)
    return wanted and environment.get(_EXPORTER) not in ("none", "console")


def tracer_of(environment: Mapping[str, str], service: str) -> Tracer:
    """What the environment asks for; raises `TracesMissing` where that is not installed."""
    console = environment.get(_EXPORTER) == "console"
    if not (console or goes_out(environment)):
        return Tracer(None)
    try:
        return Tracer(_provider(service, console=console))
    except ImportError as error:
        raise TracesMissing(
            f"the environment asks for traces and {error.name} is not installed; "
            "run: pip install 'toast-planner[otel]'"
        ) from error


def _provider(service: str, *, console: bool) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    exporter: Any
    if console:
        exporter = ConsoleSpanExporter(
            service_name=service, out=sys.stderr, formatter=lambda span: span.to_json(None) + "\n"
        )
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def here() -> str | None:
    """The `traceparent` of the span that is open in this thread or task, None without one."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


def _context(parent: str | None) -> Context | None:
    if parent is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": parent})


class StageSpans:
    """Turns the stages of a job into spans, one after another."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._stage = ""
        self._open = contextlib.ExitStack()

    def __enter__(self) -> StageSpans:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def enter(self, stage: str) -> None:
        """A stage began, and the one before is over."""
        if stage == self._stage or not self._tracer.on:
            return
        self._open.close()
        self._stage = stage
        self._open.enter_context(self._tracer.span(stage))


def hand_over(directory: Path) -> None:
    """Tell the process that works on a directory which span it belongs to.

    By a file, since a spare process was started before its job was known.
    """
    span = here()
    if span is not None:
        (directory / _FILE).write_text(span)


def parent_of(directory: Path) -> str | None:
    """The span that whoever filled the directory wants the work on it to belong to."""
    file = directory / _FILE
    return file.read_text() if file.exists() else None
