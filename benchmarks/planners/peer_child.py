"""The process of the peer: `python -m benchmarks.planners.peer_child DIR`, started by `peer`.

It runs under an older jax than everything else here and imports next to nothing but the examples.
DIR holds `job.json`; the compiled text and `answer.json` are written beside it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies

from benchmarks.planners.models import models
from toast.analysis.parent_death import end_with_parent


def main(directory: Path) -> None:
    """Compile the step of a job with automatic shardings and write down what came out."""
    end_with_parent()
    jax.config.update("jax_use_shardy_partitioner", False)
    job = json.loads((directory / "job.json").read_text())
    compiled, seconds = _compiled(job, directory / "dump")
    (directory / "compiled.hlo").write_text(compiled.as_text())
    answer = {
        "seconds": seconds,
        "memory": _memory(compiled.memory_analysis()),
        "layout": [str(one.spec) for one in jax.tree.leaves(compiled.input_shardings)],
    }
    (directory / "answer.json").write_text(json.dumps(answer))


def _compiled(job: dict[str, Any], dump: Path) -> tuple[Any, float]:
    from jax._src.sharding_impls import AUTO  # not in the jax that tests run with

    make = models()[job["model"]].make
    assert make is not None, "the peer is asked of programs of ours"
    step = make()
    topology = topologies.get_topology_desc(platform="tpu", topology_name=job["topology"])
    names, sizes = zip(*job["mesh"], strict=True)
    mesh = jax.sharding.Mesh(np.array(topology.devices).reshape(sizes), names)
    arguments = step.lower().args_info[0]
    donated = [n for n, one in enumerate(arguments) if is_donated(one)]
    planned = jax.jit(
        step.function.__wrapped__,
        in_shardings=AUTO(mesh),
        out_shardings=AUTO(mesh),
        donate_argnums=donated,
    )
    started = time.perf_counter()
    options = {
        "xla_tpu_auto_spmd_partitioning_solver_timeout_seconds": int(job["seconds"]),
        "xla_dump_to": str(dump),
    }
    if job["budget_gb"]:
        options["xla_tpu_auto_spmd_partitioning_memory_budget_gb"] = job["budget_gb"]
    compiled = planned.lower(*step.arguments).compile(compiler_options=options)
    return compiled, time.perf_counter() - started


def is_donated(argument: Any) -> bool:
    """Whether the step may take the memory of an argument."""
    leaves = jax.tree.leaves(argument, is_leaf=lambda leaf: hasattr(leaf, "donated"))
    return any(leaf.donated for leaf in leaves)


def _memory(stats: Any) -> dict[str, Any]:
    """The fields of `toast.aot.Memory` but for those of the compiler's own report."""
    return {
        "argument": stats.argument_size_in_bytes,
        "output": stats.output_size_in_bytes,
        "temp": stats.temp_size_in_bytes,
        "alias": stats.alias_size_in_bytes,
        "peak": 0,
        "code": stats.generated_code_size_in_bytes,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
