"""The audit log, as one request writes to it: with its key, its address and its id."""

from __future__ import annotations

from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from toast.service.access.audit import AuditTrail
from toast.service.access.callers import Caller
from toast.service.ledger.records import Job


class Auditor:
    """Writes records of one request."""

    def __init__(self, request: Request) -> None:
        self.caller = cast(Caller, request.state.caller)
        self._trail = cast(AuditTrail, request.app.state.context.audit)
        self._request = request

    def record(self, action: str, *, durable: bool = True, **fields: Any) -> None:
        """One record; not for the event loop, since it waits for the disk."""
        self._trail.record(
            action,
            durable=durable,
            key=self.caller.name,
            owner=self.caller.owner,
            address=self._request.client.host if self._request.client else None,
            request=getattr(self._request.state, "request_id", None),
            **fields,
        )

    def read(self, what: str, job: Job, answer: Response) -> Response:
        """Record that somebody fetched a result, unless the answer is that he has it already."""
        if answer.status_code == 200:
            self.record("result.read", durable=False, job=job.id, what=what, of=job.owned_by)
        return answer
