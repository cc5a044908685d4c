"""Who did what, for admins."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query

from toast.service.web.routes.shared import Shared
from toast.service.web.views import View

router = APIRouter()


class AuditView(View):
    """Records, newest first; `next` is the path of the following page."""

    records: list[dict[str, Any]]
    next: str | None


@router.get("/v1/audit")
def audit(
    context: Shared,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    job: Annotated[str | None, Query(pattern="^[0-9a-f]{32}$")] = None,
    key: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
) -> AuditView:
    """A page of the audit log of this server."""
    page = context.audit.page(limit=limit, before=cursor, job=job, key=key)
    query = {"limit": limit, "cursor": page.next, "job": job, "key": key}
    path = "/v1/audit?" + urlencode({name: value for name, value in query.items() if value})
    return AuditView(records=page.records, next=None if page.next is None else path)
