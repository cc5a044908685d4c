"""Memory and time of recomputed steps, predicted and compiled, beside `jax.checkpoint` by hand.

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
from rich.console import Console
from rich.table import Table

from examples.forms import serialize
from examples.models import MODELS
from examples.models import gpt as gpt_model
from toast.analysis.analyse import analyse
from toast.analysis.forms import bytecode, decode
from toast.analysis.load import load
from toast.aot.compile import judge
from toast.aot.target import Target
from toast.aot.verdict import Verdict
from toast.costmodel.evaluator import Cost, Evaluator
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
COLUMNS = (
    "model",
    "layers",
    "MiB predicted",
    "ms of work",
    "of collectives",
    "MiB compiled",
    "ms of work",
    "of collectives",
)


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


def measured(module: bytes) -> tuple[Cost, Verdict | None]:
    """The price, and what the compiler makes of it, where there is one."""
    source = load(module)
    evaluator = Evaluator(analyse(source.program), Mesh.parse("data=8"), find("tpu-v5e"))
    resolved = resolve(evaluator, data_parallel(evaluator))
    specs = Specs(resolved)
    written = write(source, evaluator.mesh, specs, specs.constraints())
    if importlib.util.find_spec("libtpu") is None:
        return resolved.cost, None
    return resolved.cost, judge(written, Target.parse("tpu-v5e:2x4"), evaluator.mesh)


def row(model: str, what: str, cost: Cost, verdict: Verdict | None) -> list[str]:
    """A line of the table."""
    predicted = [f"{cost.peak / MIB:,.0f}", *map(_ms, (cost.compute, cost.communication))]
    if verdict is None or verdict.memory is None:
        compiled = ["not", "", ""]
    else:
        times = map(_ms, (verdict.compute_seconds, verdict.communication_seconds))
        compiled = [f"{verdict.memory.total / MIB:,.0f}", *times]
    return [model, what, *predicted, *compiled]


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:,.1f}"


def main() -> int:
    """Print a row for each variant of each model; returns the exit code."""
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if number < 2 else "right")
    for name in sys.argv[1:] or SIZES:
        for scan in (False, True):
            model = f"{name}, {'scanned' if scan else 'unrolled'}"
            for what, module in variants(name, scan=scan):
                table.add_row(*row(model, what, *measured(module)))
    Console(width=140).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
