"""How many connections there are, and what becomes of those that are slow or too many.

uvicorn closes idle connections by itself and waits for ever for the rest: for a header that never
ends, for a body that comes a byte a minute, for a client that does not read its answer. A server
without descriptors left does not even say so. So each connection reports to one table, which
looks at all of them once a second, and which makes room for a new one by closing the one that has
waited longest to say what it wants.
"""

from __future__ import annotations

import asyncio
import resource
import time
from dataclasses import dataclass, field
from typing import Literal, Protocol

from toast.service.observe.metrics import Metrics
from toast.service.settings import ConnectionLimits

TICK_SECONDS = 1.0
_RESERVED = 256
"""Descriptors kept for files, the database, worker processes and last words."""
_LAST_WORDS = 100

Trouble = Literal["full", "evicted", "slow_header", "slow_body", "slow_reader"]


class Waiting(Protocol):
    """What the table asks of a connection."""

    def evict(self) -> None:
        """Make room for another; it has not said what it wants yet."""

    def trouble(self, now: float) -> Trouble | None:
        """What is too slow about it."""

    def drop(self, trouble: Trouble) -> None:
        """Say so where that can be said, and close."""


@dataclass(slots=True)
class _Group:
    """The connections of one address; those that wait for a request, the longest first."""

    count: int = 0
    waiting: dict[Waiting, None] = field(default_factory=dict)


class Connections:
    """The table of open connections. Used in the loop's thread alone."""

    def __init__(self, limits: ConnectionLimits, metrics: Metrics) -> None:
        self.limits = limits
        self._metrics = metrics
        self._cap = max(1, min(limits.total, raise_descriptors() - _RESERVED))
        self._all: dict[Waiting, str] = {}
        self._waiting: dict[Waiting, None] = {}
        self._groups: dict[str, _Group] = {}
        self.last_words = 0

    @property
    def may_linger(self) -> bool:
        """Whether one more connection may stay open until its last answer was read."""
        return self.last_words < _LAST_WORDS

    def admit(self, connection: Waiting, address: str) -> bool:
        """Take a new connection; False where there is no room and none can be made."""
        group = self._groups.get(address) or _Group()
        if group.count >= self.limits.per_address and not self._evict(group.waiting):
            return self._refused()
        if len(self._all) >= self._cap and not self._evict(self._waiting):
            return self._refused()
        group = self._groups.setdefault(address, group)
        group.count += 1
        self._all[connection] = address
        self._metrics.connections.set(len(self._all))
        self.waits(connection)
        return True

    def leave(self, connection: Waiting) -> None:
        """It is closed."""
        address = self._all.pop(connection, None)
        if address is None:
            return
        self._waiting.pop(connection, None)
        group = self._groups[address]
        group.waiting.pop(connection, None)
        group.count -= 1
        if group.count == 0:
            del self._groups[address]
        self._metrics.connections.set(len(self._all))

    def waits(self, connection: Waiting) -> None:
        """It has no request, and may be closed where there is no room."""
        address = self._all.get(connection)
        if address is not None and connection not in self._waiting:
            self._waiting[connection] = None
            self._groups[address].waiting[connection] = None

    def works(self, connection: Waiting) -> None:
        """It has a request."""
        address = self._all.get(connection)
        if address is not None:
            self._waiting.pop(connection, None)
            self._groups[address].waiting.pop(connection, None)

    def look(self) -> None:
        """Close what is too slow."""
        now = time.monotonic()
        for connection in list(self._all):
            trouble = connection.trouble(now)
            if trouble is not None:
                self._metrics.dropped.labels(trouble).inc()
                connection.drop(trouble)

    async def watch(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.look()

    def _evict(self, waiting: dict[Waiting, None]) -> bool:
        oldest = next(iter(waiting), None)
        if oldest is None:
            return False
        self._metrics.dropped.labels("evicted").inc()
        oldest.evict()
        self.leave(oldest)
        return True

    def _refused(self) -> bool:
        self._metrics.dropped.labels("full").inc()
        return False


def raise_descriptors() -> int:
    """Let this process have as many descriptors as it may; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1 << 16 if hard == resource.RLIM_INFINITY else min(hard, 1 << 16)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return 1 << 16 if soft == resource.RLIM_INFINITY else soft
