"""Memory of recomputed steps, predicted and compiled, beside `jax.checkpoint` by hand.

`.venv-aot/bin/python -m benchmarks.recompute [gpt t2b]` prints a line for each: data parallelism on
eight v5e, six layers at published widths.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import jax

from examples.forms import serialize
from examples.models import MODELS
from examples.models import gpt as gpt_model
from toast.analysis.analyse import analyse
from toast.analysis.forms import bytecode, decode
from toast.analysis.load import load
from toast.aot.compile import judge
from toast.aot.target import Target
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs
from toast.emit.writer import write
from toast.plans.baselines import data_parallel
from toast.recompute.policy import Policy
from toast.recompute.recompute import Recomputer

SIZES: dict[str, dict[str, Any]] = {
    "gpt": {"layers": 6, "d_model": 2048, "heads": 16, "batch": 32},
    "t2b": {"layers": 6, "batch": 16, "seq": 1024, "vocab": 32128},
}
BY_HAND = "jax.checkpoint"
MIB = 2**20


def lowered(name: str, *, scan: bool, by_hand: bool) -> bytes:
    """The step of a model, its layers in `jax.checkpoint` where that is done by hand."""
    config = replace(MODELS[name].config("paper", scan=scan), **SIZES[name])
    if by_hand and name != "gpt":
        config = replace(config, remat=True)
    block = jax.checkpoint(gpt_model.layer, static_argnums=(0,)) if by_hand else gpt_model.layer
    with mock.patch.object(gpt_model, "layer", block):
        return serialize(MODELS[name].make_step(config), "bytecode")


def variants(name: str, *, scan: bool) -> Iterator[tuple[str, bytes]]:
    """A model as it is, recomputed by each policy, and by hand."""
    plain = lowered(name, scan=scan, by_hand=False)
    yield "as it is", plain
    for policy in (Policy.PRODUCTS, Policy.ALL):
        loaded = decode(plain)
        layers = Recomputer(loaded.module, loaded.argument_names)
        layers.rewrite(dict.fromkeys(layers.groups, policy))
        yield policy, bytecode(loaded.module)
    yield BY_HAND, lowered(name, scan=scan, by_hand=True)


def measured(module: bytes) -> tuple[float, float, str]:
    """Predicted seconds and bytes, and what the compiler lays out, where there is one."""
    source = load(module)
    evaluator = Evaluator(analyse(source.program), Mesh.parse("data=8"), find("tpu-v5e"))
    resolved = resolve(evaluator, data_parallel(evaluator))
    specs = Specs(resolved)
    written = write(source, evaluator.mesh, specs, specs.constraints())
    return resolved.cost.seconds, resolved.cost.peak, compiled(written, evaluator.mesh)


def compiled(module: bytes, mesh: Mesh) -> str:
    """The memory of a module in MiB as the compiler lays it out."""
    if importlib.util.find_spec("libtpu") is None:
        return "not"
    memory = judge(module, Target.parse("tpu-v5e:2x4"), mesh, memory_only=True).memory
    return "not" if memory is None else f"{memory.total / MIB:,.0f} MiB"


def main() -> int:
    """Print a line for each variant of each model; returns the exit code."""
    for name in sys.argv[1:] or SIZES:
        for scan in (False, True):
            for what, module in variants(name, scan=scan):
                seconds, predicted, laid_out = measured(module)
                print(
                    f"{name:<4} {'scanned' if scan else 'unrolled':<9} {what:<15}"
                    f"{predicted / MIB:10,.0f} MiB predicted {laid_out:>14} compiled"
                    f"{seconds * 1e3:8.1f} ms predicted",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
