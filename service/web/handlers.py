"""Turns whatever a route raises into a problem object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from toast.analysis.errors import InvalidRequest, ToastError
from toast.service import problems

_HINTS = {
    400: "docs/http-api.md describes what this path takes.",
    404: "docs/http-api.md lists the routes.",
    405: "The Allow header lists the methods of this path.",
    413: "Send less, or ask the operator for a higher limit.",
}


def install(app: FastAPI) -> None:
    """Register the handlers."""

    @app.exception_handler(ToastError)
    async def on_toast_error(request: Request, error: ToastError) -> JSONResponse:
        headers = error.headers if isinstance(error, problems.ServiceError) else None
        return _response(request, problems.describe(error, request.url.path), headers)

    @app.exception_handler(RequestValidationError)
    async def on_validation(request: Request, error: RequestValidationError) -> JSONResponse:
        message, hint = explain(error.errors())
        return _response(request, problems.problem(InvalidRequest.code, 422, message, hint))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> JSONResponse:
        status = error.status_code
        code = problems.code_of_status(status)
        detail, hint = f"{error.detail}".rstrip(".") + ".", _HINTS.get(status, "")
        if status == 404:
            detail = f"There is nothing at {request.url.path}."
        elif status == 405:
            detail = f"{request.url.path} has no method {request.method}."
        body = problems.problem(code, status, detail, hint)
        return _response(request, body, error.headers)


def explain(errors: list[Any] | Any) -> tuple[str, str]:
    """One sentence on the first thing wrong with a request, one on what to do."""
    first = errors[0]
    place = ".".join(str(part) for part in first["loc"][1:])
    message = str(first["msg"]).rstrip(".")
    if first["type"] == "json_invalid":
        return "The body is not JSON.", 'Send an object such as {"module": ID, "mesh": "data=2"}.'
    if first["type"] == "missing" and not place:
        return "A JSON body is missing.", "Send Content-Type: application/json."
    if first["type"] == "missing":
        return f"{place!r} is missing.", f"Add {place!r} to the request."
    if first["type"] == "extra_forbidden":
        return f"{place!r} is not a known field.", "docs/http-api.md lists the fields."
    return f"{place or 'the body'!r} is wrong: {message}.", "docs/http-api.md lists the fields."


def _response(
    request: Request, body: dict[str, Any], headers: Mapping[str, str] | None = None
) -> JSONResponse:
    body = {**body, "instance": request.url.path}
    status = body["status"]
    return JSONResponse(body, status_code=status, headers=headers, media_type=problems.MEDIA_TYPE)
