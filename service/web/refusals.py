"""Which refused requests the audit log gets: one a minute of a kind, with how many there were.

Who floods the service with requests that it refuses must not fill the disk with records of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from toast.service.access.audit import AuditTrail

REFUSED = frozenset({401, 403, 413, 422, 429})
"""Keys, scopes, sizes, requests that make no sense, quotas."""
_WINDOW_SECONDS = 60.0
_MOST = 1000
"""Kinds that are told apart at once; the rest count as one."""
_OTHERS = ("", "", "others")

RefusalKind = tuple[str, str, str]
"""Name and owner of the key, and the address."""


@dataclass(slots=True)
class _Window:
    since: float
    unrecorded: int = 0


class RefusalLog:
    """Used in the loop's thread; a record is written in another."""

    def __init__(self, audit: AuditTrail, clock: Callable[[], float] = time.monotonic) -> None:
        self._audit = audit
        self._clock = clock
        self._windows: dict[tuple[RefusalKind, int], _Window] = {}

    async def note(self, scope: Scope, status: int, path: str, request_id: str) -> None:
        """A request was answered; recorded where that was a refusal."""
        if status not in REFUSED:
            return
        kind, count = self._due(_kind(scope), status)
        if count:
            key, owner, address = kind
            await run_in_threadpool(
                self._audit.record,
                "request.refused",
                durable=False,
                key=key,
                owner=owner,
                address=address,
                request=request_id,
                **_what(scope, status, path, count),
            )

    def _due(self, kind: RefusalKind, status: int) -> tuple[RefusalKind, int]:
        """Of which kind, and how many, a record now stands for; 0 where none is due."""
        now = self._clock()
        if (kind, status) not in self._windows and len(self._windows) >= _MOST:
            self._forget(now)
            if len(self._windows) >= _MOST:
                kind = _OTHERS
        window = self._windows.get((kind, status))
        if window is not None and now - window.since < _WINDOW_SECONDS:
            window.unrecorded += 1
            return kind, 0
        self._windows[kind, status] = _Window(now)
        return kind, 1 if window is None else window.unrecorded + 1

    def _forget(self, now: float) -> None:
        old = [key for key, one in self._windows.items() if now - one.since >= _WINDOW_SECONDS]
        for key in old:
            del self._windows[key]


def _kind(scope: Scope) -> RefusalKind:
    caller = scope.get("state", {}).get("caller")
    client = scope.get("client")
    address = client[0] if client else ""
    return (caller.name, caller.owner, address) if caller is not None else ("", "", address)


def _what(scope: Scope, status: int, path: str, count: int) -> dict[str, Any]:
    fields = {"status": status, "method": scope["method"][:16], "path": path}
    return fields if count == 1 else fields | {"count": count}
