"""The parent of a child that may die."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from toast.analysis.parent_death import named_parent
from toast.analysis.shardcombine.findings import Discovery
from toast.analysis.shardcombine.runner import Request

DEFAULT_SECONDS = 30.0
_START_SECONDS = 60.0
_COMMAND = (sys.executable, "-m", "toast.analysis.shardcombine.child")


class ChildRunner:
    """Runs discoveries in a child process that is started on the first one.

    `seconds` is the limit for one op, and a fresh child has `start_seconds` more; `command` is what
    to start. A child that dies, is late or talks nonsense is replaced for the next op; `started`
    counts them.
    """

    def __init__(
        self,
        *,
        seconds: float = DEFAULT_SECONDS,
        start_seconds: float = _START_SECONDS,
        command: Sequence[str] = _COMMAND,
    ) -> None:
        self._seconds = seconds
        self._start_seconds = start_seconds
        self._command = command
        self._child: subprocess.Popen[bytes] | None = None
        self.started = 0

    def run(self, request: Request) -> Discovery | None:
        """What the child found; None when it found nothing, died, or took too long."""
        seconds = self._seconds + (0.0 if self._child else self._start_seconds)
        try:
            answer = self._ask(self._child or self._start(), request, seconds)
            found = json.loads(answer)["found"]
            return None if found is None else Discovery.from_json(found)
        except (OSError, KeyError, TypeError, ValueError):
            self.close()
            return None

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            **named_parent(),
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        self._child = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            bufsize=0,
        )
        self.started += 1
        return self._child

    def _ask(self, child: subprocess.Popen[bytes], request: Request, seconds: float) -> bytes:
        """One line of answer, empty or cut short when the child ends; TimeoutError if late."""
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(_line(request))
        deadline = time.monotonic() + seconds
        answer = b""
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while not answer.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                part = os.read(child.stdout.fileno(), 1 << 16)
                if not part:
                    break
                answer += part
        return answer


def _line(request: Request) -> bytes:
    hints = [asdict(hint) for hint in request.hints]
    return json.dumps({"name": request.name, "text": request.text, "hints": hints}).encode() + b"\n"
