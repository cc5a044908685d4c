"""What every request passes first: keys, limits, and a count of the answers."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toast.costmodel.hardware.quantities import format_bytes
from toast.service import problems
from toast.service.access.callers import ANYBODY, NOBODY, Caller, needed_scope
from toast.service.access.keys import is_loopback
from toast.service.context import Context

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz"})
"""What needs no key: the page holds no data, and probes have no keys."""

MODULE_PATHS = frozenset({"/v1/modules", "/v1/plan"})
"""Whose body is a module; all others take a little JSON or nothing."""


class Guard:
    """ASGI middleware: 401, 403 and 413 before a route sees the request; metrics after."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        counted = _Counted(self._context, scope, send)
        try:
            scope.setdefault("state", {})["caller"] = self._admit(scope)
            limited = _Limited(receive, self._limit(scope))
            limited.check_declared(Headers(scope=scope).get("content-length"))
        except problems.ServiceError as error:
            await _refuse(error, scope, receive, counted.send)
            return
        await self._app(scope, limited.receive, counted.send)

    def _limit(self, scope: Scope) -> int:
        settings = self._context.settings
        return settings.max_body if scope["path"] in MODULE_PATHS else settings.max_json

    def _admit(self, scope: Scope) -> Caller:
        """Who calls; `ANYBODY` where no key is asked for."""
        headers = Headers(scope=scope)
        keys = self._context.settings.keys
        if not keys:
            _check_origin(headers)
            return ANYBODY
        if scope["path"] in OPEN_PATHS:
            return NOBODY
        holder = keys.holder(headers.get("authorization"))
        if holder is None:
            raise problems.Unauthorized(
                "This service wants an API key that it knows.",
                "Send it as: Authorization: Bearer KEY.",
                headers={"WWW-Authenticate": 'Bearer realm="toast"'},
            )
        check_scope(holder, scope["method"], scope["path"])
        return holder


class _Limited:
    """Counts the bytes of a body as they come, whatever its headers promised."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._seen = 0

    def check_declared(self, content_length: str | None) -> None:
        declared = content_length or ""
        if declared.isdigit() and int(declared[:19]) > self._limit:
            raise problems.BodyTooLarge(self._message(), _SMALLER)

    async def receive(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if self._seen > self._limit:
            # Of this type, because FastAPI turns any other into a 400.
            raise HTTPException(413, self._message())
        return message

    def _message(self) -> str:
        return f"The body is larger than the limit of {format_bytes(self._limit)}."


_SMALLER = "Send the module as bytecode rather than text, or ask the operator for a higher limit."


class _Counted:
    """Counts the answer when its first byte goes out."""

    def __init__(self, context: Context, scope: Scope, send: Send) -> None:
        self._metrics = context.metrics
        self._scope = scope
        self._send = send
        self._started = time.monotonic()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            route = getattr(self._scope.get("route"), "path", "none")
            method = self._scope["method"] if route != "none" else "any"
            self._metrics.requests.labels(method, route, str(message["status"])).inc()
            seconds = time.monotonic() - self._started
            self._metrics.request_seconds.labels(route).observe(seconds)
        await self._send(message)


def check_scope(caller: Caller, method: str, path: str) -> None:
    """Refuse what the caller's key was not made for."""
    needed = needed_scope(method, path)
    if not caller.may(needed):
        has = ", ".join(sorted(caller.scopes))
        raise problems.Forbidden(
            f"The key {caller.name!r} may {has}; this needs the scope {needed.value!r}.",
            "Use a key with that scope, or ask the operator for one.",
        )


def _check_origin(headers: Headers) -> None:
    """Without keys, only this machine's own programs may speak to us, not web pages it visits.

    A page of another site can send requests to loopback, directly or by a host name of its own
    that resolves there; both show in the headers.
    """
    host = headers.get("host", "")
    if not is_loopback(urlsplit(f"//{host}").hostname or "localhost"):
        raise problems.UntrustedOrigin(
            f"This service has no keys and answers to loopback names only, not to {host!r}.",
            "Use http://127.0.0.1, or start the service with API keys.",
        )
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        raise problems.UntrustedOrigin(
            f"Pages of {origin!r} may not use this service.", "Start the service with API keys."
        )


async def _refuse(error: problems.ServiceError, scope: Scope, receive: Receive, send: Send) -> None:
    response = JSONResponse(
        problems.describe(error, scope["path"]),
        status_code=error.status,
        headers=error.headers,
        media_type=problems.MEDIA_TYPE,
    )
    await response(scope, receive, send)
