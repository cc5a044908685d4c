"""One child process: its own process group, its events as a queue, the end of its stderr."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from toast.analysis.parent_death import named_parent

TAIL_BYTES = 4096
MAX_LINE_BYTES = 64 << 20
CRASH = re.compile(r"check failed|LLVM ERROR|assertion|terminate called|fatal|^F\d{4} ", re.I)


_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE)


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Whom a process runs as."""

    uid: int
    gid: int


class Child:
    """A process that speaks JSON, one object a line, and that may die at any time.

    `events` holds one dict for each line of its stdout, `{}` for a line that is not a JSON
    object. It runs in a session of its own, so that `kill` reaches whatever it started, and as
    `user` (with no group but that user's own), for which this process must be root.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], user: User | None = None
    ) -> None:
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, **named_parent()},
            start_new_session=True,
            user=None if user is None else user.uid,
            group=None if user is None else user.gid,
            extra_groups=None if user is None else [],
        )
        self._tail = bytearray()
        self._crash_line = ""
        self._exited_at: float | None = None
        self.events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._readers = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        try:
            for reader in self._readers:
                reader.start()
        except RuntimeError as error:  # no more threads: the process is of no use without them
            self._signal(signal.SIGKILL)
            self._process.wait()
            raise OSError(errno.EAGAIN, "no thread to be had") from error

    @property
    def pid(self) -> int:
        """The process id, which is also the process group."""
        return self._process.pid

    def begin(self, directory: Path) -> bool:
        """Give a spare process its directory; whether it was there to take it."""
        return self._process.poll() is None and self._tell({"directory": str(directory)})

    def ask_to_stop(self) -> None:
        """Send the cancel line and leave stdin open; a child that is gone is no error."""
        self._tell({"cancel": True})

    def terminate(self) -> None:
        """SIGTERM to the whole group."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the whole group, then reap; harmless when it has ended."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        with contextlib.suppress(OSError, ValueError):
            self._stdin().close()
        streams = (self._process.stdout, self._process.stderr)
        for reader, stream in zip(self._readers, streams, strict=True):
            reader.join(timeout=1)
            # Closing a stream that a thread still reads from would block.
            if stream is not None and not reader.is_alive():
                stream.close()

    def wait(self) -> int:
        """The exit code once it has ended; negative for a signal."""
        code = self._process.wait()
        self._readers[1].join(timeout=5)
        return code

    def ended_long_ago(self) -> bool:
        """Whether it ended a second ago; a grandchild may hold its stdout open for ever."""
        if self._process.poll() is None:
            return False
        if self._exited_at is None:
            self._exited_at = time.monotonic()
        return time.monotonic() - self._exited_at > 1.0

    def is_usable(self) -> bool:
        """Whether it runs, neither ended nor stopped."""
        if self._process.poll() is not None:
            return False
        try:
            return psutil.Process(self.pid).status() not in _STOPPED
        except psutil.Error:
            return False

    def cpu_seconds(self) -> float:
        """Processor time of the process and of all that it started; 0 once it has ended."""
        return self._of_family(lambda member: sum(member.cpu_times()[:4]))  # its dead too

    def resident_bytes(self) -> int:
        """Resident memory of the process and of what it started; 0 once it has ended."""
        return int(self._of_family(lambda member: member.memory_info().rss))

    def _of_family(self, figure: Callable[[psutil.Process], float]) -> float:
        """The sum over the process and what it started; one that ends meanwhile adds nothing."""
        total = 0.0
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            for member in [process, *process.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    total += figure(member)
        return total

    def stderr_tail(self) -> str:
        """The last 4 KiB that it wrote on stderr."""
        return self._tail.decode(errors="replace")

    def crash_line(self) -> str:
        """The line that says why it aborted: the first failed check, else the last line."""
        lines = [line for line in self.stderr_tail().splitlines() if line.strip()]
        return self._crash_line or (lines[-1].strip() if lines else "nothing on stderr")

    def _signal(self, number: signal.Signals) -> None:
        # The group id stays valid until the leader is reaped, so a live group is always ours.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _tell(self, words: dict[str, Any]) -> bool:
        try:
            stdin = self._stdin()
            stdin.write(json.dumps(words).encode() + b"\n")
            stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while line := self._process.stdout.readline(MAX_LINE_BYTES):
                self.events.put(_parse(line))
        self.events.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            while line := self._process.stderr.readline(MAX_LINE_BYTES):
                self._tail += line
                del self._tail[:-TAIL_BYTES]
                text = line[:1000].decode(errors="replace").strip()
                if not self._crash_line and CRASH.search(text):
                    self._crash_line = text


def _parse(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
