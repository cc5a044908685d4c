"""What a child process says to its parent: one JSON object a line, on what was its stdout."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

from toast.analysis.errors import ToastError
from toast.analysis.parent_death import end_with_parent

if TYPE_CHECKING:
    from toast.search.progress import Progress

EXIT_USER_ERROR = 2
PROGRESS_SECONDS = 0.1
MAX_MESSAGE, MAX_LINE = 2000, 500
"""Characters of what a process says is wrong."""
_TRACEBACK = "Traceback (most recent call last)"
_FOLDERS = re.compile(r"(?<![\w.])/(?:[\w.+@-]+/)+")
BEAT_SECONDS = 1.0
ALIVE, READY = "alive", "ready"
"""Events for the parent alone: a heartbeat, and that a spare process waits for its directory."""


class Emitter:
    """Writes events to what was stdout when the process started."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._last = (0.0, "")
        self._lock = threading.Lock()

    def emit(self, event: str, **fields: Any) -> None:
        """One event, as one line; a parent that went away is no error here."""
        line = json.dumps({"event": event, **fields}, default=str) + "\n"
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._stream.write(line)
            self._stream.flush()

    def beat(self) -> None:
        """From now on say every second that this process lives, from a thread."""

        def say() -> None:
            while True:
                time.sleep(BEAT_SECONDS)
                self.emit(ALIVE)

        threading.Thread(target=say, name="heartbeat", daemon=True).start()

    def progress(self, progress: Progress) -> None:
        """A progress event, at most ten a second and one at each change of stage."""
        now = time.monotonic()
        when, stage = self._last
        if stage == progress.stage and now - when < PROGRESS_SECONDS:
            return
        self._last = (now, progress.stage)
        self.emit("progress", **{key: _finite(value) for key, value in asdict(progress).items()})


def _finite(value: Any) -> Any:
    """JSON has no infinity: a cost that is not known yet becomes null."""
    if isinstance(value, float) and not (float("-inf") < value < float("inf")):
        return None
    return value


def take_stdout() -> IO[str]:
    """A private copy of stdout; from now on descriptor 1 is stderr, for C++ as for Python."""
    sys.stdout.flush()
    private = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return private


def tell(emitter: Emitter, error: ToastError) -> int:
    """Say what is wrong; the exit code for it."""
    message = cut(error.message, MAX_MESSAGE)
    emitter.emit("error", code=error.code, message=message, hint=cut(error.hint, MAX_MESSAGE))
    return EXIT_USER_ERROR


def cut(text: str, length: int) -> str:
    """The text, and of a longer one its beginning: a module's line may be megabytes."""
    return text if len(text) <= length else text[: length - 4].rstrip() + " ..."


def one_line(text: str) -> str:
    """What a failure says to strangers: one line of it, without the folders of this machine.

    Of a traceback that is the last line, which names the error.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()] or ["no reason"]
    line = lines[-1] if any(_TRACEBACK in line for line in lines) else lines[0]
    return _FOLDERS.sub("", cut(line, MAX_LINE))


def complete(
    work: Callable[[Emitter], None],
    refusals: tuple[type[Exception], ...],
    explain: Callable[[str], ToastError],
) -> int:
    """Run a child process from taking its stdout to the last event; its exit code.

    `refusals` are how JAX and XLA say no: `explain` turns the first line of one into an error.
    """
    end_with_parent()
    emitter = Emitter(take_stdout())
    try:
        work(emitter)
    except ToastError as error:
        return tell(emitter, error)
    except refusals as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return tell(emitter, explain(first))
    emitter.emit("done")
    return 0


def leave(code: int) -> None:
    """End the process at once: idle threads of numba and XLA may abort an orderly shutdown."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
