"""No child process of ours outlives its parent, even one that is killed and cannot clean up.

A parent names itself in the environment of its child; the child calls `end_with_parent` first.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PARENT = "_TOAST_PARENT"
_PR_SET_PDEATHSIG = 1


def named_parent() -> dict[str, str]:
    """The variable that the environment of a child of this process gets in addition."""
    return {PARENT: str(os.getpid())}


def end_with_parent() -> None:
    """From now on Linux kills this process when its parent ends.

    Linux counts the end of the thread that started the child, so that thread has to wait for the
    child. Does nothing on another system, nor in a process whose environment names no parent.
    """
    parent = os.environ.pop(PARENT, None)  # not for what this process starts
    if parent is None or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it ended before it could be watched
        os.kill(os.getpid(), signal.SIGKILL)
