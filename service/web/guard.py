"""What every request passes before its route: keys and limits."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toast.costmodel.hardware.quantities import format_bytes
from toast.service import problems
from toast.service.access.callers import ANYBODY, NOBODY, Caller, needed_scope
from toast.service.context import Context
from toast.service.web.assets import OPEN_ASSETS
from toast.service.web.encodings import check_unpacked
from toast.service.web.origins import check_origin

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz"}) | OPEN_ASSETS
"""What needs no key: the pages hold no data, and probes have no keys."""

MODULE_PATHS = frozenset({"/v1/modules", "/v1/plan"})
"""Whose body is a module; all others take a little JSON or nothing."""


class Guard:
    """ASGI middleware: 401, 403 and 413 before a route sees the request."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            caller = self._admit(scope)
            scope.setdefault("state", {})["caller"] = caller
            if caller is not NOBODY:
                check_scope(caller, scope["method"], scope["path"])
            limited = _Limited(receive, self._limit(scope))
            headers = Headers(scope=scope)
            limited.check_declared(headers.get("content-length"))
            if scope["path"] not in MODULE_PATHS and "content-encoding" in headers:
                check_unpacked(headers["content-encoding"])
        except problems.ServiceError as error:
            await refuse(error, scope, receive, send)
            return
        await self._app(scope, limited.receive, send)

    def _limit(self, scope: Scope) -> int:
        settings = self._context.settings
        return settings.max_body if scope["path"] in MODULE_PATHS else settings.max_json

    def _admit(self, scope: Scope) -> Caller:
        """Who calls; `ANYBODY` where no key is asked for."""
        headers = Headers(scope=scope)
        keys = self._context.settings.keys
        if not keys:
            check_origin(headers)
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


def check_scope(caller: Caller, method: str, path: str) -> None:
    """Refuse what the caller's key was not made for."""
    needed = needed_scope(method, path)
    if not caller.may(needed):
        has = ", ".join(sorted(caller.scopes))
        raise problems.Forbidden(
            f"The key {caller.name!r} may {has}; this needs the scope {needed.value!r}.",
            "Use a key with that scope, or ask the operator for one.",
        )


async def refuse(error: problems.ServiceError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a problem object."""
    response = JSONResponse(
        problems.describe(error, scope["path"]),
        status_code=error.status,
        headers=error.headers,
        media_type=problems.MEDIA_TYPE,
    )
    await response(scope, receive, send)
