"""Many compilations at a time, here and on nodes, within the time that there is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

import psutil

from toast.analysis.errors import ToastError
from toast.aot import Target, Verdict, judge
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.confirm.node_compilers import NodeCompilers, NodeLost
from toast.pipeline.confirm.verdict_cache import VerdictCache

CHILD_BYTES = 4 << 30
"""Memory that a compiler's process is taken to need; a large program's was seen to take 3 GiB."""
NO_TIME = "not compiled: the time was up"
BEATEN = "not compiled: its collectives alone take longer than the best plan's step"
LONGEST = 7200.0
"""Seconds after which one compilation is given up, whatever time there is."""

Places = SimpleQueue[NodeCompilers | None]
"""Compilers that are free; None is one of this machine."""


@dataclass(slots=True, kw_only=True)
class TimeLimit:
    """Whether compiling has to stop: nobody waits any more, or the time is up."""

    seconds: float
    cancelled: Callable[[], bool] | None = None
    started: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def over(self) -> bool:
        """Whether to stop now."""
        asked = self.cancelled is not None and self.cancelled()
        return asked or self.spent >= self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerAnswer:
    """A verdict, whether it was known before, and else why there is none."""

    verdict: Verdict | None = None
    cached: bool = False
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilations:
    """Compiles modules for one target, several at a time."""

    target: Target
    mesh: Mesh
    cache: VerdictCache
    limit: TimeLimit
    reserved_bytes: int = 0
    workers: int = 1
    nodes: NodeCompilers | None = None

    def answers(
        self,
        modules: Iterable[bytes],
        *,
        memory_only: bool = False,
        wanted: Callable[[bytes], str] = lambda _: "",
    ) -> Iterator[tuple[bytes, CompilerAnswer]]:
        """The modules with what became of each, in the order in which they are done.

        `wanted` is asked when a module's turn comes: it says why it is not compiled, or ''. Equal
        modules are compiled once.
        """
        places: Places = SimpleQueue()
        nodes = [] if self.nodes is None else [self.nodes] * self.nodes.count
        for place in [None] * self.workers + nodes:
            places.put(place)
        with ThreadPoolExecutor(self.workers + len(nodes)) as pool:
            waiting = {
                pool.submit(self._answer, module, memory_only, wanted, places): module
                for module in dict.fromkeys(modules)
            }
            for done in as_completed(waiting):
                yield waiting[done], done.result()

    def _answer(
        self, module: bytes, memory_only: bool, wanted: Callable[[bytes], str], places: Places
    ) -> CompilerAnswer:
        if unwanted := wanted(module):
            return CompilerAnswer(failure=unwanted)
        known = self.cache.find(module, memory_only=memory_only)
        if known is not None:
            return CompilerAnswer(verdict=known, cached=True)
        if self.limit.over():
            return CompilerAnswer(failure=NO_TIME)
        try:
            verdict = self._verdict(module, memory_only, places)
        except ToastError as error:
            return CompilerAnswer(failure=NO_TIME if self.limit.over() else _failure(error))
        self.cache.keep(module, verdict)
        return CompilerAnswer(verdict=verdict)

    def _verdict(self, module: bytes, memory_only: bool, places: Places) -> Verdict:
        """The verdict of the first compiler that is free; one whose node is lost is left out."""
        while True:
            place = places.get()
            compile_it = judge if place is None else place.judge
            try:
                verdict = compile_it(
                    module,
                    self.target,
                    self.mesh,
                    memory_only=memory_only,
                    reserved_bytes=self.reserved_bytes,
                    deadline_s=LONGEST,
                    cancelled=self.limit.over,
                )
            except NodeLost:
                continue
            except ToastError:
                places.put(place)
                raise
            places.put(place)
            return verdict


def _failure(error: ToastError) -> str:
    """Why a module is not compiled, as a note."""
    said = error.message.rstrip(".").replace("The engine", "The compiler")
    return f"not compiled: {said[:1].lower()}{said[1:]}"


def workers_for(threads: int) -> int:
    """How many compilers may run at once: one a thread, and as many as memory allows."""
    return max(1, min(threads, free_bytes() // CHILD_BYTES))


def free_bytes() -> int:
    """Memory that is free, in the container too."""
    free = int(psutil.virtual_memory().available)
    limit, used = (_number(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    return free if limit is None or used is None else min(free, max(0, limit - used))


def _number(path: str | os.PathLike[str]) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None
