"""What is known of every request: an id, a count, a line in the log, and its failure."""

from __future__ import annotations

import logging
import re
import time
import uuid
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toast.service import problems
from toast.service.context import Context
from toast.service.observe.logs import log_fields
from toast.service.web.guard import refuse
from toast.service.web.refusals import RefusalLog

REQUEST_ID = "X-Request-ID"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Those that are counted by name: a client may invent any number of others."""
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger("toast.service")
_access = logging.getLogger("toast.access")


class Observed:
    """The outermost ASGI middleware."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context
        self._refusals = RefusalLog(context.audit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever happens within, and record how."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, method = Headers(scope=scope), _known(scope["method"])
        request_id = _request_id(headers.get(REQUEST_ID))
        scope.setdefault("state", {})["request_id"] = request_id
        parent = headers.get("traceparent")
        with (
            log_fields(request_id=request_id),
            self._context.tracer.span(method, parent=parent, kind="server") as span,
        ):
            answer = _Answer(self._context, scope, send, request_id, span)
            try:
                await self._app(scope, receive, answer.send)
            except Exception as error:
                _log.exception("%s %s failed", scope["method"], _path(scope))
                if answer.status:
                    raise  # uvicorn closes the connection, so that the client sees it end early
                bug = problems.Internal(
                    "The service failed on this request.", f"Its log has {request_id}."
                )
                bug.__cause__ = error
                await refuse(bug, scope, receive, answer.send)
            await self._refusals.note(scope, answer.status, _path(scope), request_id)


class _Answer:
    """Names and counts the answer when its first byte goes out; one line when its last does."""

    def __init__(
        self, context: Context, scope: Scope, send: Send, request_id: str, span: Any
    ) -> None:
        self.status = 0
        self._span = span
        self._context = context
        self._scope = scope
        self._send = send
        self._id = request_id
        self._started = time.monotonic()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)[REQUEST_ID] = self._id
            self._count()
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._line()

    def _count(self) -> None:
        route = getattr(self._scope.get("route"), "path", "none")
        method = _known(self._scope["method"]) if route != "none" else "any"
        if self._span is not None:
            self._span.update_name(f"{method} {route}")
            self._span.set_attribute("http.response.status_code", self.status)
            self._span.set_attribute("toast.request.id", self._id)
        metrics = self._context.metrics
        metrics.requests.labels(method, route, str(self.status)).inc()
        metrics.request_seconds.labels(route).observe(time.monotonic() - self._started)

    def _line(self) -> None:
        if self._scope["path"] in _PROBES and self.status == 200:
            return  # asked for every few seconds by machines, which nobody reads about
        seconds = round(time.monotonic() - self._started, 4)
        method, path = self._scope["method"], _path(self._scope)
        caller = self._scope.get("state", {}).get("caller")
        fields = {
            "method": method,
            "path": path,
            "status": self.status,
            "seconds": seconds,
            "key": (caller.name or None) if caller is not None else None,
            "job_id": self._scope.get("path_params", {}).get("job_id"),
        }
        _access.info(
            "%s %s %d in %.4f s", method, path, self.status, seconds, extra={"fields": fields}
        )


def _known(method: str) -> str:
    return method if method in METHODS else "other"


def _request_id(given: str | None) -> str:
    """The caller's own, where it is one that a log can hold."""
    return given if given is not None and _ID.fullmatch(given) else uuid.uuid4().hex


def _path(scope: Scope) -> str:
    """As it was sent, so that no line ends in the middle of one."""
    return bytes(scope.get("raw_path") or b"")[:500].decode("ascii", "replace")
