"""What is left of our children when their parent is killed, and when they are terminated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from toast.process.child import Child
from toast.process.runner import engine_environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kept by the kernel of Linux")

PARENT_OF = """
import sys
from pathlib import Path
from toast.process.runner import run
tell = lambda event: print(event["pid"], flush=True)
run(Path("."), command=[sys.executable, "-c", sys.argv[1]], on_event=tell)
"""
# As XLA does when it compiles, they sleep in C with the interpreter locked.
CHILD = """
import ctypes, os
from toast.analysis.errors import InvalidRequest
from toast.process.messages import complete
def work(emitter):
    emitter.emit("stage", pid=os.getpid())
    ctypes.PyDLL(None).sleep(60)
complete(work, (), InvalidRequest)
"""
ENGINE = """
import ctypes, os, sys
from toast.pipeline import engine
def work(path, emitter):
    emitter.emit("stage", pid=os.getpid())
    ctypes.PyDLL(None).sleep(60)
engine.inspect_file = work
engine.main(["--inspect", "module"])
"""
COMPILER = """
import ctypes, signal, sys
from toast.aot import child
def topology_devices(target, reserved_bytes):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as a compiler's library may
    return [None] * target.devices
def compiled(*_):
    print('{"event": "stage"}', flush=True)
    ctypes.PyDLL(None).sleep(60)
child.topology_devices, child.first_executable = topology_devices, compiled
from pathlib import Path
child.compile_directory(Path(sys.argv[1]), None)
"""


def ended(pid: int) -> bool:
    """Whether a process has ended, or waits for a parent to take notice of that."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("child", [CHILD, ENGINE], ids=["child", "engine"])
def test_a_child_does_not_outlive_a_killed_parent(child: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT_OF, child], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert not ended(pid)
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 20
    while not ended(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    try:
        assert ended(pid)
    finally:
        if not ended(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_compiler_is_terminated_whatever_its_library_does(tmp_path: Path) -> None:
    job = {"target": "tpu-v5e:2x4", "devices": 8, "reserved_bytes": 0, "positions": [*range(8)]}
    (tmp_path / "job.json").write_text(json.dumps(job))
    (tmp_path / "module").write_bytes(b"")
    child = Child([sys.executable, "-c", COMPILER, str(tmp_path)], engine_environment())
    try:
        assert child.events.get(timeout=60) == {"event": "stage"}
        child.terminate()
        assert child.events.get(timeout=20) is None
        assert child.wait() == -signal.SIGTERM
    finally:
        child.kill()
