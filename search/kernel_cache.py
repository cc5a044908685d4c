"""Compiles the kernels once and keeps them on disk.

Numba's cache may be read by many processes but not written by several at once, so the first
process to need the kernels compiles them under a lock while the others wait for it.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_type_hints

import numba
import numpy as np

from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.kernels.evaluate import evaluate_many
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.tables import Scratch, Tables
from toast.search.actions import action_space
from toast.search.mcts import search as tree_search
from toast.search.problem import Problem, SearchSettings
from toast.search.progress import Control
from toast.search.relaxation import Relaxation
from toast.search.relaxation_kernels import halos
from toast.search.tree import grow

_ENTRIES = (evaluate_many, grow)
"""One of each room: the kernels of a room are kept together."""
_PREFIX = "toast-kernels-"
_TAG = f"py{sys.version_info.major}{sys.version_info.minor}"
"""In the name of every compiled kernel."""
_COMPILED = "\nfrom toast.analysis.jit import"

_TINY = b"""
func.func public @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0]
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %z = stablehlo.add %y, %w : tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}
"""


def warm_kernels(on_compile: Callable[[], None] = lambda: None) -> None:
    """Make sure that the compiled kernels are on disk.

    `on_compile` is called where they have to be compiled, or another process is at it: that takes
    about a minute.
    """
    folder = Path(grow.stats.cache_path)
    marker = folder / f"{_PREFIX}{_fingerprint()}"
    if marker.exists():
        return
    on_compile()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{_PREFIX}lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not marker.exists():
            _forget()
            _compile()
            marker.touch()


def _forget() -> None:
    """Delete compiled kernels of other versions, and what says that they are there.

    Numba keeps one as long as its own file is the same, though what it calls may be of another.
    """
    for folder in {Path(kernel.stats.cache_path) for kernel in _ENTRIES}:
        for pattern in (f"*.{_TAG}.*nb[ic]", f"{_PREFIX}[0-9a-f]*"):
            for file in folder.glob(pattern):
                file.unlink(missing_ok=True)


def _compile() -> None:
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


def _fingerprint() -> str:
    """Changes whenever a source or a constant of the kernels, Python or Numba does."""
    digest = hashlib.sha256()
    digest.update(f"{platform.python_version()} {numba.__version__}".encode())
    for arrays in (Tables, Scratch):
        digest.update(repr(_fields(arrays)).encode())
    for file in sorted(_sources()):
        digest.update(str(file).encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _fields(arrays: type) -> list[tuple[str, object]]:
    """The fields of a record and of the records in it, with their types."""
    return [
        (name, _fields(kind) if hasattr(kind, "_fields") else str(kind))
        for name, kind in get_type_hints(arrays).items()
    ]


def _sources() -> set[Path]:
    """The files with kernels and all that they import from these rooms."""
    package = Path(__file__).parents[1]
    rooms = [package / room for room in ("analysis", "costmodel", "search")]
    files = {
        ".".join(("toast", *file.relative_to(package).with_suffix("").parts)): file
        for room in rooms
        for file in room.rglob("*.py")
    }
    waiting = [name for name, file in files.items() if _COMPILED in file.read_text()]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in files and name not in found:
            found.add(name)
            tree = ast.parse(files[name].read_bytes())
            waiting += [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {files[name] for name in found}


if __name__ == "__main__":
    warm_kernels()
