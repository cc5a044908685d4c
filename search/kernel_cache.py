"""Compiles the kernels once and keeps them on disk.

A kernel that is not on disk is compiled where it is called first. The first process that needs the
kernels runs all of them once, under a lock, and other processes wait for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, get_type_hints

import numpy as np
from numba.core.registry import cpu_target

from toast.analysis.analyse import analyse
from toast.analysis.gc_pause import collector_paused
from toast.analysis.jit import counted
from toast.analysis.kernel_store import (
    PACKAGE,
    SUFFIX,
    Kept,
    folders,
    machine,
    sources_digest,
    writable,
)
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.tables import Scratch, Tables
from toast.search.actions import action_space
from toast.search.mcts import search as tree_search
from toast.search.pairwise import iopddl
from toast.search.pairwise.compact import Compact, compact
from toast.search.pairwise.forest_kernels import Forest
from toast.search.pairwise.message_kernels import Mailbox
from toast.search.pairwise.portfolio import Portfolio
from toast.search.pairwise.reduce import Reduced
from toast.search.problem import Problem, SearchSettings
from toast.search.progress import Control
from toast.search.relaxation import Relaxation
from toast.search.relaxation_kernels import halos

ROOMS = ("analysis", "costmodel", "search")
"""The rooms of the package that have kernels."""
_PREFIX = "toast-kernels-"
_COMPILED = re.compile(r"^from toast.analysis.jit import .*\b(entry|inner)\b", re.MULTILINE)
_WAIT = 0.2
_UNUSED_DAYS = 30.0

_TINY = b"""
func.func public @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0]
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %z = stablehlo.add %y, %w : tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}
"""
_SQUARE = b"""{"problem": {"nodes": {"intervals": [[0, 4], [0, 4], [0, 4], [0, 4]],
 "costs": [[1, 2], [2, 1], [1, 2], [2, 1]], "usages": [[1, 2], [2, 1], [1, 2], [2, 1]]},
 "edges": {"nodes": [[0, 1], [1, 2], [2, 3], [3, 0]],
 "costs": [[0, 3, 3, 0], [0, 3, 3, 0], [0, 3, 3, 0], [0, 3, 3, 0]]}, "usage_limit": 5}}"""


def warm_kernels(on_share: Callable[[float], None] = lambda _: None) -> bool:
    """Make sure that the compiled kernels are on disk; False where they were.

    While this process or another one compiles them, which takes about 20 seconds on one core,
    `on_share` is called with the part that is done. Where nothing can be kept, they are compiled
    for this process alone.
    """
    if kept_in() is not None:
        return False
    name = _marker()
    on_share(0.0)
    folder = writable()
    if folder is None:
        compile_all(on_share)
        return True
    with _locked(folder / f"lock-{os.getuid()}", on_share) as lock:
        if not (folder / name).exists():
            compile_all(lambda share: _tell(lock, share, on_share))
            forget_old(folder)
            (folder / name).touch()
    return True


def kept_in() -> Path | None:
    """The folder in which all kernels are, compiled; None where there is none."""
    name = _marker()
    for folder in folders():
        with contextlib.suppress(OSError):
            if (folder / name).exists():
                return folder
    return None


def _marker() -> str:
    """The name of the file that says that all kernels are in its folder."""
    return f"{_PREFIX}{fingerprint()}"


@contextlib.contextmanager
def _locked(path: Path, on_share: Callable[[float], None]) -> Iterator[IO[str]]:
    """Hold the lock; while waiting for it report the progress that its holder writes into it."""
    with path.open("a+") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                lock.seek(0)
                on_share(float(lock.read() or 0.0))
                time.sleep(_WAIT)
        lock.truncate(0)
        yield lock


def _tell(lock: IO[str], share: float, on_share: Callable[[float], None]) -> None:
    lock.truncate(0)
    lock.write(f"{share:.3f}")
    lock.flush()
    on_share(share)


def forget_old(folder: Path) -> None:
    """Delete the kernels of other versions that are a month old.

    A process that still uses one compiles it again, so the files that say that all are there go
    too.
    """
    oldest = time.time() - _UNUSED_DAYS * 86400
    others = [file for file in folder.glob(f"*{SUFFIX}") if file.name not in Kept.used]
    old = [file for file in others if file.stat().st_mtime < oldest]
    for file in (*old, *(folder.glob(f"{_PREFIX}[0-9a-f]*") if old else ())):
        file.unlink(missing_ok=True)


def compile_all(on_share: Callable[[float], None] = lambda _: None) -> None:
    """Compile every kernel that is not on disk; `on_share` gets the part that is done."""
    with counted(on_share), collector_paused():
        _run_all()


def _run_all() -> None:
    """Run every kernel on a small program."""
    analysis_result = analyse(load(_TINY).program)
    evaluator = Evaluator(analysis_result, Mesh.parse("x=2,y=2"), find("cpu"))
    problem = Problem(
        evaluator=evaluator, reward=evaluator.reward(1e9), actions=action_space(evaluator)
    )
    tree_search(problem, SearchSettings(rollouts=64, round_rollouts=64), Control())
    Relaxation(problem)
    numbers, amounts = np.zeros(0, dtype=np.int64), np.zeros(0)
    scratch = evaluator.new_scratch()
    halos(evaluator.tables, scratch, 0, numbers, numbers, amounts, amounts)
    _run_pairwise()


def _run_pairwise() -> None:
    """Run the kernels of the integer program's back end on a small problem."""
    reduced = Reduced(iopddl.parse(_SQUARE), stopped=lambda: True)
    Portfolio(compact(reduced), reduced.excess).run(time.monotonic() + 0.1)


def fingerprint(package: Path = PACKAGE) -> str:
    """The digest of the kernels' sources and constants, Python, Numba and the processor."""
    sources = [file for room in ROOMS for file in (package / room).rglob("*.py")]
    kernels = [file for file in sources if _COMPILED.search(file.read_text(encoding="utf-8"))]
    machine_code = machine(cpu_target.target_context.codegen())
    records = [fields(kind) for kind in (Tables, Scratch, Compact, Mailbox, Forest)]
    said = machine_code, records, sources_digest(kernels, package)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def fields(record: type) -> list[tuple[str, object]]:
    """The fields of a record and of the records in it, with their types."""
    return [
        (name, fields(kind) if hasattr(kind, "_fields") else str(kind))
        for name, kind in get_type_hints(record).items()
    ]


if __name__ == "__main__":
    warm_kernels()
