"""HTTP/1.1 of uvicorn whose connections keep a table of what they wait for."""

# ruff: noqa: D102 (the methods are documented in `asyncio.Protocol` and in `Waiting`)

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from toast.analysis.errors import InvalidRequest, ToastError
from toast.service import problems
from toast.service.observe.metrics import Metrics
from toast.service.web.connections import Connections, Trouble

_LINGER_SECONDS = 0.5


class GuardedProtocol(H11Protocol):
    """HTTP/1.1 that keeps the table up to date; `guarded` binds it to one."""

    table: Connections
    metrics: Metrics

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._header_since: float | None = time.monotonic()
        self._body_since = self._header_since
        self._body_bytes = 0
        self._unread_since: float | None = None
        self._ended = self._lingers = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if not self.table.admit(self, address):
            busy = problems.TooManyConnections(
                "The service has as many connections as it takes.", "Try again in a second."
            )
            self._end(busy, "Retry-After: 1\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        self.table.leave(self)
        if self._lingers:
            self.table.last_words -= 1
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ended or self.transport.is_closing():
            return
        self._body_bytes += len(data)
        super().data_received(data)
        self._track(came=True)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._track(came=False)

    def pause_writing(self) -> None:
        self._unread_since = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_since = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (ours is a problem object)
        hint = "Send an HTTP/1.1 request whose header has less than 64 KiB."
        self._end(InvalidRequest("The request is no valid HTTP.", hint))

    def evict(self) -> None:
        self.transport.abort()

    def trouble(self, now: float) -> Trouble | None:
        limits = self.table.limits
        if self._ended:
            return None
        if self._unread_since is not None and now - self._unread_since > limits.reader_seconds:
            return "slow_reader"
        if self._header_since is not None and now - self._header_since > limits.header_seconds:
            return "slow_header"
        if self.conn.their_state is not h11.SEND_BODY or self.flow.read_paused:
            self._body_since, self._body_bytes = now, 0
        elif now - self._body_since > limits.body_seconds:
            if self._body_bytes < limits.body_rate * limits.body_seconds:
                return "slow_body"
            self._body_since, self._body_bytes = now, 0
        return None

    def drop(self, trouble: Trouble) -> None:
        if trouble == "slow_reader":
            self.transport.abort()
            return
        part = "header" if trouble == "slow_header" else "body"
        self._end(
            problems.SlowRequest(
                f"The request's {part} came too slowly.", "Send it again over a faster connection."
            )
        )

    def _track(self, *, came: bool) -> None:
        """Tell the table whether this waits for a request, and since when it sends one."""
        if self.conn.their_state is not h11.IDLE:
            self._header_since = None
            self.table.works(self)
        else:
            self.table.waits(self)
            if came and self._header_since is None:
                self._header_since = time.monotonic()

    def _end(self, error: ToastError, header: str = "") -> None:
        """Answer without the application, which may wait for a body, and close."""
        if self._ended or self.transport.is_closing():
            return
        self._ended = True
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # what the application still says goes nowhere
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        self.metrics.requests.labels("any", "none", str(error.status)).inc()
        self.transport.write(_answer(error, header))
        if not self.table.may_linger:
            self.transport.close()
            return
        # Closing on what was sent and not read would take the answer back.
        self.table.last_words += 1
        self._lingers = True
        self.flow.resume_reading()
        self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)


def _answer(error: ToastError, header: str) -> bytes:
    body = json.dumps(problems.describe(error, "/")).encode()
    return (
        f"HTTP/1.1 {error.status} {error.code.replace('_', ' ').capitalize()}\r\n"
        f"Content-Type: {problems.MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        f"{header}Connection: close\r\n\r\n"
    ).encode() + body


def guarded(connections: Connections, counters: Metrics) -> type[GuardedProtocol]:
    """The protocol of the connections of one table."""

    class Bound(GuardedProtocol):
        table = connections
        metrics = counters

    return Bound
