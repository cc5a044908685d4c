"""What a parent says to its child on stdin: which directory to work on, and to stop."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

ORPHAN_SECONDS = 60.0
_EXIT_ORPHAN = 1


def listen_for_cancel() -> Callable[[], bool]:
    """A function that says whether somebody asked this process to stop."""
    asked = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    def read_stdin() -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in sys.stdin:
                if "cancel" in line:
                    asked.set()
        # The parent is gone: stop, and do not outlive it by much if something hangs.
        asked.set()
        time.sleep(ORPHAN_SECONDS)
        os._exit(_EXIT_ORPHAN)

    signal.signal(signal.SIGTERM, on_signal)
    threading.Thread(target=read_stdin, daemon=True).start()
    return asked.is_set


def next_directory() -> Path | None:
    """The job that the parent gives a spare process; None when it ends without one."""
    line = sys.stdin.readline()
    return Path(json.loads(line)["directory"]) if line.strip() else None
