"""Run the engine in a process that may die, and say how it ended.

XLA and MLIR end the whole process on a failed check, so no caller's module is parsed in the
process of the command line or of the service. `prepare` writes the job into a directory, `run`
starts `python -m toast.pipeline.engine` on it, streams its events, keeps the deadline and the
memory limit, and classifies the exit. It blocks: call it in a thread where that matters. No jax
here.
"""

from __future__ import annotations

import os
import queue
import site
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from toast.analysis.errors import EngineCrashed, ToastError, from_code
from toast.process.child import Child
from toast.process.limits import usable_memory
from toast.process.messages import ALIVE, MAX_MESSAGE, READY, cut, one_line
from toast.process.outcome import EngineFailed, EngineOutOfMemory, EngineTimeout, Outcome, Status

Event = dict[str, Any]
StopReason = Literal["cancelled", "deadline", "out_of_memory", "stalled"]

SUFFIXES = (".mlir", ".mlirbc", ".jax_export")
TICK_SECONDS = 0.1
SEARCHING = "search"
"""The first stage that has a plan to write when it is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use; seconds of grace between asking, terminating and killing.

    Without `memory_bytes` it is `usable_memory`: a module of some bytes can ask MLIR for more than
    the machine has, and the kernel would end other programs for it.

    `stall_s` is how long the process may neither say anything nor use any processor time; it is for
    processes that have a heartbeat.
    """

    deadline_s: float | None = None
    memory_bytes: int | None = None
    stall_s: float | None = None
    ask_grace_s: float = 20.0
    term_grace_s: float = 5.0


def prepare(directory: Path, module: bytes, request: BaseModel) -> None:
    """Write the inputs of a job where the engine reads them: `module` and `request.json`."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "module").write_bytes(module)
    (directory / "request.json").write_text(request.model_dump_json())


def engine_command(*arguments: str) -> list[str]:
    """How to start the engine with these arguments."""
    return [*python_module("toast.pipeline.engine"), *arguments]


def python_module(name: str) -> list[str]:
    """`python -m name` in this interpreter, without the current directory on its path."""
    return [sys.executable, "-P", "-m", name]


def engine_environment() -> dict[str, str]:
    """The environment of the engine: it takes no accelerator."""
    return package_environment() | {"JAX_PLATFORMS": "cpu"}


def package_environment() -> dict[str, str]:
    """This environment, such that a child finds this very package, installed or not."""
    environment = dict(os.environ)
    root = str(Path(__file__).resolve().parents[2])
    if root not in site.getsitepackages():
        earlier = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = root + (os.pathsep + earlier if earlier else "")
    return environment


def run(
    directory: Path,
    *,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    deadline_s: float | None = None,
    memory_bytes: int | None = None,
    command: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Outcome:
    """Run the engine on `directory` until it ends; blocks, and never leaves a process behind.

    `on_event` gets each progress event in this thread; `cancelled` is polled ten times a second.
    At the deadline (seconds from now) or on cancel the engine is asked to stop and to write the
    best plan so far, then terminated, then killed; cancelled before it searches it is killed at
    once, as it has nothing to write. Over `memory_bytes` of resident memory it is killed at once.
    An engine that fails once it has said that its plan is `written` is done. `command` replaces the
    engine, `environment` adds to its environment and `limits` replaces the two numbers.
    """
    limits = limits or Limits(deadline_s=deadline_s, memory_bytes=memory_bytes)
    command = command or engine_command(str(directory))
    child = Child(command, engine_environment() | dict(environment or {}))
    return follow(child, directory, limits, on_event=on_event, cancelled=cancelled)


def follow(
    child: Child,
    directory: Path,
    limits: Limits,
    *,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Outcome:
    """As `run`, for a process that was started on `directory` already."""
    watch = _Watch(child, limits, cancelled or (lambda: False))
    reported: Event = {}
    written: Event = {}
    try:
        while (line := _next_line(child, watch)) is not None:
            watch.hear(line)
            if line.get("event") in ("done", "error"):
                reported = line
            elif line.get("event") == "written":
                written = line
            elif line and on_event is not None and line.get("event") not in (ALIVE, READY):
                on_event(line)
        exit_code = child.wait()
    finally:
        child.kill()
    if written and exit_code != 0:  # what came after the plan failed, and the plan is there
        reported, exit_code = written | {"event": "done"}, 0
    return _classify(directory, child, watch, reported, exit_code)


def _next_line(child: Child, watch: _Watch) -> Event | None:
    """The next event, {} for what is none, None once the engine's output has ended."""
    while True:
        watch.check()
        try:
            return child.events.get(timeout=TICK_SECONDS)
        except queue.Empty:
            if child.ended_long_ago():
                return None


class _Watch:
    """The limits of one run: asks, terminates, kills, in that order."""

    def __init__(self, child: Child, limits: Limits, cancelled: Callable[[], bool]) -> None:
        self.child = child
        self.limits = limits
        self.memory_bytes = limits.memory_bytes or usable_memory()
        self.cancelled = cancelled
        self.reason: StopReason | None = None
        self.peak_rss = 0
        self.started = time.monotonic()
        self._searching = False
        self._memory_at = 0.0
        self._kill_at = self._term_at = float("inf")
        self._looked = self.started
        self._silent = 0.0
        self._cpu: float | None = None

    def hear(self, event: Event) -> None:
        """Remember that it lives, and whether there is a plan to wait for."""
        self._silent, self._cpu = 0.0, None
        self._searching = self._searching or event.get("stage") == SEARCHING

    def check(self) -> None:
        """Look at the clock, the cancel flag and the memory once."""
        now = time.monotonic()
        self._check_memory(now)
        self._check_stall(now)
        if self.reason is None:
            deadline = self.limits.deadline_s
            if self.cancelled():
                self._ask("cancelled", now)
            elif deadline is not None and now - self.started >= deadline:
                self._ask("deadline", now)
        elif now >= self._kill_at:
            self.child.kill()
        elif now >= self._term_at:
            self.child.terminate()
            self._term_at = float("inf")

    def _ask(self, reason: StopReason, now: float) -> None:
        self.reason = reason
        if reason == "cancelled" and not self._searching:
            self.child.kill()
            return
        self.child.ask_to_stop()
        self._term_at = now + self.limits.ask_grace_s
        self._kill_at = self._term_at + self.limits.term_grace_s

    def _check_stall(self, now: float) -> None:
        """Kill a process that is stopped or hangs: it neither speaks nor works.

        One that holds Python's lock for long, in MLIR, is silent and works. Time in which this
        process did not run itself is nobody's silence.
        """
        self._silent += min(now - self._looked, 10 * TICK_SECONDS)
        self._looked = now
        limit = self.limits.stall_s
        if limit is None or self._silent < limit / 2:
            return
        if self._cpu is None:
            self._cpu = self.child.cpu_seconds()
        elif self._silent >= limit:
            if self.child.cpu_seconds() != self._cpu:  # less, where one that worked has ended
                self._silent, self._cpu = 0.0, None
                return
            self.reason = self.reason or "stalled"
            self.child.kill()

    def _check_memory(self, now: float) -> None:
        if now < self._memory_at:  # reading /proc for each of a thousand events would cost more
            return
        self._memory_at = now + TICK_SECONDS
        self.peak_rss = max(self.peak_rss, self.child.resident_bytes())
        if self.peak_rss > self.memory_bytes and self.reason != "out_of_memory":
            self.reason = "out_of_memory"
            self.child.kill()


def _classify(
    directory: Path, child: Child, watch: _Watch, reported: Event, exit_code: int
) -> Outcome:
    suffix = _written(directory, reported)
    status, error = _verdict(child, watch, reported, exit_code, suffix)
    return Outcome(
        status=status,
        directory=directory,
        suffix=suffix,
        error=error,
        exit_code=exit_code,
        stderr=child.stderr_tail(),
        seconds=time.monotonic() - watch.started,
        peak_rss_bytes=watch.peak_rss,
    )


def _written(directory: Path, reported: Event) -> str | None:
    """The suffix of the sharded module, when the engine said so and both files are there."""
    suffix = reported.get("suffix")
    if reported.get("event") != "done" or suffix not in SUFFIXES:
        return None
    files = (directory / "plan.json", directory / f"sharded{suffix}")
    return suffix if all(file.is_file() for file in files) else None


def _verdict(
    child: Child, watch: _Watch, reported: Event, exit_code: int, suffix: str | None
) -> tuple[Status, ToastError | None]:
    if watch.reason == "out_of_memory":
        return "out_of_memory", _memory_error(watch)
    if reported.get("event") == "error":
        return _reported_error(reported)
    if exit_code == 0 and reported.get("event") == "done":
        if suffix is None and "suffix" in reported:
            return "failed", _failed("The engine said it was done but wrote no plan.")
        return watch.reason or "done", None
    if watch.reason is not None:
        return watch.reason, _stopped_error(watch)
    return _crash(child, exit_code)


def _reported_error(reported: Event) -> tuple[Status, ToastError]:
    code, message = (
        str(reported.get("code", "")),
        cut(str(reported.get("message", "")), MAX_MESSAGE),
    )
    hint = cut(str(reported.get("hint", "")), MAX_MESSAGE)
    if code == EngineFailed.code:
        return "failed", EngineFailed(message, hint)
    return "error", from_code(code, message, hint)


def _crash(child: Child, exit_code: int) -> tuple[Status, ToastError]:
    if exit_code == -9:
        return "failed", _failed(
            "The engine process was killed from outside (SIGKILL).",
            "The machine may be short of memory; free some and try again.",
        )
    line = one_line(child.crash_line())
    if exit_code < 0:
        return "crashed", EngineCrashed(
            f"XLA or MLIR aborted while it handled the module (signal {-exit_code}): {line}",
            "Check that the module compiles with this version of jaxlib, and report it if it does.",
        )
    return "failed", _failed(f"The engine ended with exit code {exit_code} and no answer: {line}")


def _failed(message: str, hint: str = "Please report this with the module.") -> EngineFailed:
    return EngineFailed(message, hint)


def _memory_error(watch: _Watch) -> EngineOutOfMemory:
    limit = watch.memory_bytes / 2**20
    used = watch.peak_rss / 2**20
    return EngineOutOfMemory(
        f"The engine used {used:,.0f} MiB of memory where the limit is {limit:,.0f} MiB.",
        "Allow more memory, or give the module without its large constants.",
    )


def _stopped_error(watch: _Watch) -> ToastError:
    if watch.reason == "stalled":
        return _failed(
            "The engine process was stopped or hung: it neither spoke nor worked for "
            f"{watch.limits.stall_s:g} s.",
            "Try again; look for what stops processes on this machine if it happens again.",
        )
    if watch.reason == "deadline":
        return EngineTimeout(
            f"No plan was found within the deadline of {watch.limits.deadline_s:g} s.",
            "Allow more time, or lower the number of layers in the module.",
        )
    return EngineTimeout("The job was cancelled before it had a plan.", "Submit it again.")
