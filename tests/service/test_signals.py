"""Signals end a process that waits, whichever of its threads they reach."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.service.harness import ROOT

WAITS = """
import signal, sys, threading, time
from toast.service.signals import ending_signals

def hit():
    time.sleep(0.3)  # the main thread sleeps by then
    signal.pthread_kill(threading.get_ident(), signal.Signals[sys.argv[1]])

before = signal.getsignal(signal.SIGTERM)
with ending_signals() as wait:
    threading.Thread(target=hit, daemon=True).start()
    wait()
assert signal.getsignal(signal.SIGTERM) == before
print("ended in order")
"""


@pytest.mark.parametrize("name", [signal.SIGTERM.name, signal.SIGINT.name])
def test_a_signal_to_another_thread_wakes_the_main_thread(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WAITS, name],
        capture_output=True, text=True, timeout=30, check=False, cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "ended in order\n"), done.stderr
