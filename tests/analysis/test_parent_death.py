"""Children of parents that are killed, by execution: each parent and each child is a process."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from toast.analysis.parent_death import PARENT, named_parent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kept by the kernel of Linux")

# Both write to the stdout that the test reads: it ends when both have ended.
PARENT_OF = """
import os, subprocess, sys
from toast.analysis.parent_death import named_parent
named = named_parent() if sys.argv[2] == "named" else {}
subprocess.run([sys.executable, "-c", sys.argv[1]], env=os.environ | named)
"""
# Sleeping in C with the interpreter locked: no thread and no handler of Python's can run.
DEAF = """
import ctypes, os, signal
from toast.analysis.parent_death import end_with_parent
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end_with_parent()
print("started", flush=True)
ctypes.PyDLL(None).sleep(SECONDS)
print("outlived", flush=True)
"""
LATE = """
import os, time
from toast.analysis.parent_death import end_with_parent
parent = os.getppid()
print("started", flush=True)
while os.getppid() == parent:
    time.sleep(0.01)
end_with_parent()
print("outlived", flush=True)
"""


def left_by(child: str, how: str) -> str:
    """What is on stdout once the parent was killed and all that wrote there has ended."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT_OF, child, how], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "started\n"
    parent.send_signal(signal.SIGKILL)
    left, _ = parent.communicate(timeout=30)
    return str(left)


@pytest.mark.parametrize("child", [DEAF.replace("SECONDS", "60"), LATE], ids=["deaf", "late"])
def test_a_child_ends_with_a_parent_that_named_itself(child: str) -> None:
    assert left_by(child, "named") == ""


@pytest.mark.parametrize("child", [DEAF.replace("SECONDS", "1"), LATE], ids=["deaf", "late"])
def test_who_was_started_by_hand_lives_on(child: str) -> None:
    assert left_by(child, "unnamed") == "outlived\n"


def test_the_name_is_not_handed_on() -> None:
    told = (
        "import os; from toast.analysis.parent_death import end_with_parent, PARENT;"
        " end_with_parent()"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{told}; print(PARENT in os.environ)"],
        env=named_parent() | {"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert PARENT in named_parent()
    assert done.stdout == "False\n"
