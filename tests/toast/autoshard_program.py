"""Shard a step with `toast.autoshard` on four virtual devices; prints what came out as JSON.

Run by `test_api.py` in a process of its own, because the number of devices is fixed at its start.
"""

from __future__ import annotations

import json
import sys

import jax
import numpy as np

import toast
from examples import mlp


def main() -> None:
    step = mlp.make_step(mlp.PRESETS["small"])
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
    sharded = toast.autoshard(
        step.function,
        *step.arguments,
        mesh=mesh,
        donate_argnums=(0,),
        rollouts=50,
        cache=False,
        threads=1,
    )
    random = np.random.default_rng(0)
    values = jax.tree.map(lambda a: random.normal(0, 0.02, a.shape).astype(a.dtype), step.arguments)
    expected = jax.jit(step.function)(*jax.tree.map(jax.numpy.asarray, values))
    placed = jax.tree.map(jax.device_put, values, sharded.in_shardings)
    actual = sharded(*placed)
    pairs = zip(jax.tree.leaves(expected), jax.tree.leaves(actual), strict=True)
    report = {
        "difference": max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs),
        "devices": len(jax.tree.leaves(actual)[0].sharding.device_set),
        "decisions": len(sharded.plan.decisions),
        "specs": [str(s.spec) for s in jax.tree.leaves(sharded.in_shardings)],
    }
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
