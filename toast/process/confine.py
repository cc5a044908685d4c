"""What a process that parses the modules of strangers gives up before it begins."""

from __future__ import annotations

import ctypes
import resource
import sys

_PR_SET_NO_NEW_PRIVS = 38


def confine() -> None:
    """Never gain rights by starting a program, and leave no memory image behind."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
