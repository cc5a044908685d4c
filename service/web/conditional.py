"""Answers that say whether they changed: an ETag on each, 304 for who has it already."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import Header
from fastapi.responses import Response
from pydantic import BaseModel

Seen = Annotated[str | None, Header(alias="If-None-Match")]
"""The tags that the caller has."""

UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "Nothing changed."}}

_CACHING = {"Cache-Control": "private, no-cache"}
"""Whoever keeps an answer asks before he shows it again."""


def has(seen: str | None, tag: str) -> bool:
    """Whether the caller's tags have this one."""
    tags = {each.strip().removeprefix("W/") for each in (seen or "").split(",")}
    return tag in tags or "*" in tags


def headers(tag: str) -> dict[str, str]:
    """What goes out with an answer that has this tag."""
    return {"ETag": tag, **_CACHING}


def unchanged(tag: str) -> Response:
    """The answer to who has it already."""
    return Response(status_code=304, headers=headers(tag))


def answer(view: BaseModel, seen: str | None) -> Response:
    """A view as JSON, or 304 where the caller has the same bytes."""
    body = view.model_dump_json().encode()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if has(seen, tag):
        return unchanged(tag)
    return Response(body, media_type="application/json", headers=headers(tag))
