"""The log on stderr: lines of text, or one JSON object a line.

What belongs to a request or to a job is bound around the code that works on it, so that every line
from there names it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

LogFormat = Literal["text", "json"]
FORMATS: tuple[LogFormat, ...] = ("text", "json")

_bound: ContextVar[dict[str, str]] = ContextVar("toast_log_fields")


@contextlib.contextmanager
def log_fields(**fields: str) -> Iterator[None]:
    """Name a request or a job in every line that is logged within."""
    token = _bound.set(_bound.get({}) | fields)
    try:
        yield
    finally:
        _bound.reset(token)


def log_to_stderr(form: LogFormat = "text", level: int = logging.INFO) -> None:
    """Log to stderr; stdout has the one line with the address."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # strangers can cause its warnings


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (of the library)
        line = super().formatMessage(record)
        named = {k: v for k, v in _fields(record).items() if k in _NAMES}
        return line + "".join(f" {name}={value}" for name, value in named.items())


_NAMES = frozenset({"request_id", "job_id", "key"})


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = _bound.get({}) | getattr(record, "fields", {})
    return {name: value for name, value in fields.items() if value is not None}
