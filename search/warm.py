"""Compiles the kernels once and keeps them on disk.

Numba's cache may be read by many processes but not written by several at once, so the first
process to need the kernels compiles them under a lock while the others wait for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import tempfile
from pathlib import Path

import numba
import numpy as np

import analysis
import costmodel
import search
from analysis.analyse import analyse
from analysis.load import load
from costmodel.devices import find
from costmodel.evaluator import Evaluator
from costmodel.mesh import Mesh
from search.actions import action_space
from search.kernel_units import halos
from search.mcts import search as tree_search
from search.problem import Problem, Settings
from search.progress import Control
from search.relaxation import Relaxation

_TINY = b"""
func.func public @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0]
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %z = stablehlo.add %y, %w : tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}
"""


def warm_kernels() -> None:
    """Make sure that the compiled kernels are on disk and loaded."""
    marker = Path(tempfile.gettempdir()) / f"toast-kernels-{os.getuid()}-{_fingerprint()}"
    if marker.exists():
        return
    with (marker.parent / f"{marker.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not marker.exists():
            _forget()
            _compile()
            marker.touch()


def _forget() -> None:
    """Delete compiled kernels of other versions.

    Numba keeps one as long as its own file is the same, though what it calls may be of another.
    """
    for folder in _folders():
        for file in folder.rglob("__pycache__/*.nb[ic]"):
            file.unlink(missing_ok=True)


def _folders() -> list[Path]:
    return [Path(folder) for room in (analysis, costmodel, search) for folder in room.__path__]


def _compile() -> None:
    analysis_result = analyse(load(_TINY).program)
    evaluator = Evaluator(analysis_result, Mesh.parse("x=2,y=2"), find("cpu"))
    problem = Problem(
        evaluator=evaluator, reward=evaluator.reward(1e9), actions=action_space(evaluator)
    )
    tree_search(problem, Settings(rollouts=64, round_rollouts=64), Control())
    evaluator.journal(())  # kernels of their own, for explanations
    Relaxation(problem)
    numbers, amounts = np.zeros(0, dtype=np.int64), np.zeros(0)
    scratch = evaluator.new_scratch()
    halos(evaluator.tables, scratch, 0, numbers, numbers, amounts, amounts)


def _fingerprint() -> str:
    """Changes whenever a kernel's source, Python, Numba or the place of the cache does."""
    digest = hashlib.sha256()
    digest.update(f"{platform.python_version()} {numba.__version__}".encode())
    digest.update(os.environ.get("NUMBA_CACHE_DIR", "").encode())
    for folder in _folders():
        for file in sorted(folder.rglob("*.py")):
            digest.update(str(file).encode() + file.read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    warm_kernels()
