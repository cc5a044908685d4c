"""Work that takes seconds: few at once, some wait, and none of them holds up the others."""

from __future__ import annotations

import asyncio
import threading

import pytest
from starlette.concurrency import run_in_threadpool

from toast.service import problems
from toast.service.turns import Turns


def test_who_waits_for_a_turn_holds_no_thread() -> None:
    async def crowd() -> None:
        turns, gate = Turns(), threading.Event()
        waiting = [asyncio.create_task(turns.take(gate.wait, 60)) for _ in range(18)]
        try:
            await asyncio.sleep(0)
            with pytest.raises(problems.Busy) as refused:
                await turns.take(gate.wait, 60)
            assert refused.value.headers == {"Retry-After": "10"}
            others = [run_in_threadpool(threading.active_count) for _ in range(100)]
            await asyncio.wait_for(asyncio.gather(*others), 30)
            assert not any(task.done() for task in waiting)
        finally:
            gate.set()
        assert all(await asyncio.gather(*waiting))
        assert await turns.take(sum, (1, 2)) == 3

    asyncio.run(crowd())


def test_a_turn_that_fails_makes_room_for_the_next() -> None:
    async def failing() -> None:
        turns = Turns()
        for _ in range(30):
            with pytest.raises(ValueError, match="invalid literal"):
                await turns.take(int, "no number")
        assert await turns.take(int, "7") == 7

    asyncio.run(failing())
