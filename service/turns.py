"""Work that takes seconds, done for a few callers at a time; nobody who waits holds a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool

from toast.service import problems

P = ParamSpec("P")
T = TypeVar("T")

AT_ONCE, WAITING = 2, 16
"""Who works and who waits. At five seconds each the last one waits for 40."""


class Turns:
    """Requests that take turns. All others have the rest of the server's threads meanwhile."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(AT_ONCE)
        self._asked = 0

    async def take(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns, in a thread, as soon as it is our turn.

        Raises `problems.Busy` where too many wait already.
        """
        if self._asked >= AT_ONCE + WAITING:
            raise problems.Busy(
                f"{WAITING} requests wait for a report or a comparison already.",
                "Try again, or fetch the plan and run `toast report` on it.",
                headers={"Retry-After": "10"},
            )
        self._asked += 1
        try:
            async with self._free:
                return await run_in_threadpool(work, *args, **kwargs)
        finally:
            self._asked -= 1
