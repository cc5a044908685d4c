"""Secrets in the environment, and how to be rid of them.

Linux shows the environment that a process was started with in `/proc/PID/environ` to everybody of
the same user, for as long as the process lives, whatever it does to its variables. So the memory
that this shows is cleared too.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_ENV_START, _ENV_END = 47, 48  # of /proc/PID/stat, counted from the state on


def take_secret(name: str) -> str | None:
    """The variable `name`, which is then neither inherited by children nor to be read in /proc."""
    value = os.environ.pop(name, None)
    if value is not None and sys.platform == "linux":
        _clear(os.fsencode(name) + b"=")
    return value


def _clear(prefix: bytes) -> None:
    # The name of the program may hold spaces and brackets; the last bracket ends it.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    if not start < end:
        return
    at = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        if entry.startswith(prefix):
            ctypes.memset(at, 0, len(entry))
        at += len(entry) + 1
