"""Places in the server where a test can strike: before or after one call of one method.

A file in the directory of `TOAST_FAULTS`, named for the point, arms it for one call. The file says
what happens there: `kill` is the end of the process as a power cut makes it, `away` is a database
whose answer is lost, `late` one whose answer takes seconds.
"""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toast.service.artifacts.local import ArtifactStore, Incoming
from toast.service.ledger.sqlstore import SqlJobStore
from toast.service.problems import DatabaseAway

ENVIRONMENT = "TOAST_FAULTS"
LATE_SECONDS = 3.0

POINTS: dict[str, tuple[type[Any], str]] = {
    "after-write": (Incoming, "write"),
    "before-rename": (ArtifactStore, "keep"),
    "after-rename": (ArtifactStore, "keep"),
    "after-module": (SqlJobStore, "add_module"),
    "before-create": (SqlJobStore, "create"),
    "after-create": (SqlJobStore, "create"),
    "after-claim": (SqlJobStore, "claim"),
    "before-succeed": (SqlJobStore, "succeed"),
    "after-succeed": (SqlJobStore, "succeed"),
    "after-interrupt": (SqlJobStore, "interrupt"),
}


def arm(directory: Path, point: str, action: str = "kill") -> None:
    """Strike at the next call there."""
    assert point in POINTS
    directory.mkdir(exist_ok=True)
    (directory / point).write_text(action)


def install(directory: Path) -> None:
    """Put the points of this process in place."""
    for point, (kind, method) in POINTS.items():
        setattr(kind, method, _struck(directory / point, getattr(kind, method)))


def _struck(armed: Path, method: Callable[..., Any]) -> Callable[..., Any]:
    before = armed.name.startswith("before-")

    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        if before:
            _strike(armed)
        answer = method(*arguments, **named)
        nothing = method.__name__ == "claim" and answer is None
        if not before and not nothing:
            _strike(armed)
        return answer

    return call


def _strike(armed: Path) -> None:
    try:
        action = armed.read_text()
        armed.unlink()
    except FileNotFoundError:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "late":
        time.sleep(LATE_SECONDS)
        return
    raise DatabaseAway("The answer was lost.")
