"""What a child process says, seen from its parent: events on stdout, the rest on stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from toast.analysis.errors import InvalidMesh, InvalidRequest
from toast.process.messages import Emitter, complete, leave

def work(emitter: Emitter) -> None:
    print("chatter of a library")
    emitter.emit("step", number=1)
    {action}

leave(complete(work, (ValueError,), lambda reason: InvalidRequest(f"No: {{reason}}", "Hint.")))
"""


def run(action: str) -> tuple[int, list[dict[str, object]], str]:
    """Exit code, events, and what was left on stderr."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(action=action)],
        env=buffered,
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_work_that_ends_is_done_and_its_chatter_is_no_event() -> None:
    code, events, errors = run("pass")
    assert code == 0
    assert [event["event"] for event in events] == ["step", "done"]
    assert "chatter of a library" in errors


@pytest.mark.parametrize(
    ("action", "code", "message"),
    [
        ('raise InvalidMesh("Bad mesh.", "Mend it.")', "invalid_mesh", "Bad mesh."),
        ('raise ValueError("first\\nsecond")', "invalid_request", "No: first"),
        ("raise ValueError", "invalid_request", "No: ValueError"),
    ],
)
def test_refusals_become_one_error_event(action: str, code: str, message: str) -> None:
    exit_code, events, _ = run(action)
    assert exit_code == 2
    assert [event["event"] for event in events] == ["step", "error"]
    assert (events[1]["code"], events[1]["message"]) == (code, message)


def test_a_bug_is_not_taken_for_a_refusal() -> None:
    code, events, errors = run('raise KeyError("bug")')
    assert code == 1
    assert [event["event"] for event in events] == ["step"]
    assert "KeyError" in errors
