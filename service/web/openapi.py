"""The schema at `/openapi.json`: what the framework derives, made honest about errors and bytes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from toast.service.problems import MEDIA_TYPE
from toast.service.web.guard import MODULE_PATHS

_MODULE = {"schema": {"type": "string", "format": "binary", "minLength": 1}}
_PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457; `code` is stable, `detail` says what is wrong, `hint` what to do.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "hint": {"type": "string"},
        "instance": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail", "code", "hint", "instance"],
    "additionalProperties": False,
}


def describe_api(app: FastAPI) -> dict[str, Any]:
    """The schema of `app`, made once."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
        for path, methods in schema["paths"].items():
            for operation in methods.values():
                _complete(path, operation)
        components = schema["components"]["schemas"]
        for unused in ("HTTPValidationError", "ValidationError"):
            components.pop(unused, None)
        components["Problem"] = _PROBLEM
        schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"key": []}, {}]
        app.openapi_schema = schema
    return app.openapi_schema


def _complete(path: str, operation: dict[str, Any]) -> None:
    reference = {"$ref": "#/components/schemas/Problem"}
    problem = {"content": {MEDIA_TYPE: {"schema": reference}}}
    responses = operation["responses"]
    responses.pop("422", None)
    responses["4XX"] = {"description": "What is wrong with the request.", **problem}
    responses["5XX"] = {"description": "What is wrong with the service.", **problem}
    if path in MODULE_PATHS:
        content = {"application/octet-stream": _MODULE}
        operation["requestBody"] = {"required": True, "content": content}
