"""Run by `test_run.py` on eight virtual devices: a step, and what it was planned to, through JAX.

python -m tests.toast.forms.exported ORIGINAL SHARDED...
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np


def main(original: str, *sharded: str) -> None:
    """Print how far the results of each planned artifact are apart, relative to their scale."""
    first = _read(original)
    random = np.random.default_rng(0)
    leaves = [_random(random, aval) for aval in first.in_avals]
    args, kwargs = jax.tree.unflatten(first.in_tree, leaves)
    expected = jax.tree.leaves(jax.jit(first.call)(*args, **kwargs))
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
    for second in map(_read, sharded):
        shardings = second.in_shardings_jax(mesh)
        laid_out = [jax.device_put(leaf, one) for leaf, one in zip(leaves, shardings, strict=True)]
        args, kwargs = jax.tree.unflatten(second.in_tree, laid_out)
        actual = jax.tree.leaves(jax.jit(second.call)(*args, **kwargs))
        rows = zip(expected, actual, strict=True)
        print(max(_apart(np.asarray(one), np.asarray(other)) for one, other in rows))  # noqa: T201


def _read(path: str) -> Any:
    return jax.export.deserialize(bytearray(Path(path).read_bytes()))


def _random(random: np.random.Generator, aval: Any) -> Any:
    if aval.dtype.kind in "iu":
        return random.integers(0, 8, aval.shape).astype(aval.dtype)
    return random.uniform(0.1, 0.5, aval.shape).astype(aval.dtype)


def _apart(one: Any, other: Any) -> float:
    return float(np.max(np.abs(one - other)) / max(float(np.max(np.abs(one))), 1e-9))


if __name__ == "__main__":
    main(*sys.argv[1:])
