"""Makes long calls that cannot be stopped in a thread, while the caller watches for a cancel."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import TypeVar

from toast.search.progress import Control

T = TypeVar("T")

TICK = 0.01
GRACE = 0.03
"""Seconds that work gets to end by itself when it notices the stop."""
EXIT_GRACE = 10.0
"""Seconds that an ending process waits for abandoned work: native threads would abort it."""

_left: list[threading.Thread] = []


def in_background(work: Callable[[], T], control: Control) -> T | None:
    """What `work` returns, or raises; None if the search must stop before it is done.

    `work` runs in a thread of its own. Once nobody waits for it any longer it goes on until it ends
    by itself: what it returns is lost, and it may share nothing that changes with its caller.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive() and control.stop_reason() is None:
        thread.join(TICK)
    thread.join(GRACE)
    if thread.is_alive():
        _left.append(thread)
    if errors:
        raise errors[0]
    return results[0] if results else None


@atexit.register
def _wait() -> None:
    for thread in _left:
        thread.join(EXIT_GRACE)
