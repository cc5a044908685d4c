"""Pages for people. What they show they ask the API for, as any other client."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from toast.service import problems
from toast.service.web import conditional
from toast.service.web.assets import ASSETS, PREFIX

router = APIRouter()

# The report of a plan is shown in a frame, without scripts; it has its style inside.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; frame-src blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


@router.get("/", response_class=HTMLResponse)
async def start(seen: conditional.Seen = None) -> Response:
    """The list of jobs."""
    return _answer("jobs.html", seen)


@router.get(PREFIX + "{name}", include_in_schema=False)
async def asset(name: str, seen: conditional.Seen = None) -> Response:
    """A page, or what it is made of."""
    if name not in ASSETS:
        raise problems.NotFound(f"There is no page {PREFIX}{name}.", "The list of jobs is at /.")
    return _answer(name, seen)


def _answer(name: str, seen: str | None) -> Response:
    asset = ASSETS[name]
    headers = {
        "Content-Security-Policy": _POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
        "ETag": asset.etag,
    }
    if conditional.has(seen, asset.etag):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media, headers=headers)
