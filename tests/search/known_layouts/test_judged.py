"""Where the plan is not the named layout to the letter: the compiler for the chip is asked.

Compute is the compiler's own estimate, collectives are those of the compiled program. Both times
are told by `pytest -m nightly --log-cli-level=info`.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from dataclasses import replace

import pytest

from benchmarks.planners.layouts import Choice, named
from examples.forms import Step
from examples.models import gns, itx
from tests.search.known_layouts.planned import plan_step
from tests.search.known_layouts.steps import attention_forward, mlp_training, module_of
from toast.analysis.load import load
from toast.aot import Target, judge
from toast.aot.collective_time import collective_seconds
from toast.costmodel.evaluator import State
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs
from toast.emit.writer import write
from toast.search.problem import Problem

LOG = logging.getLogger(__name__)
COMPILING = 1200.0
"""Seconds after which a compilation is given up."""
HAS_LIBTPU = bool(os.environ.get("TPU_LIBRARY_PATH") or importlib.util.find_spec("libtpu"))


def compiled(problem: Problem, module: bytes, state: State) -> tuple[float, int]:
    """The step time of a state by the compiler for 8 or 32 TPU v5e, and the bytes of a device."""
    evaluator = problem.evaluator
    specs = Specs(resolve(evaluator, state))
    sharded = write(load(module), evaluator.mesh, specs, specs.constraints())
    topology = {8: "2x4", 32: "4x8"}[evaluator.mesh.devices]
    target = Target.parse(f"tpu-v5e:{topology}")
    verdict = judge(sharded, target, evaluator.mesh, deadline_s=COMPILING)
    assert verdict.compute_seconds is not None, verdict.refusal
    moving = collective_seconds(verdict.collectives, evaluator.mesh, evaluator.device)
    return verdict.compute_seconds + moving, verdict.needed_bytes or 0


CASES: dict[str, tuple[Step, str, tuple[Choice, ...]]] = {
    "all rows": (
        mlp_training(layers=2, width=8192, hidden=32768, tokens=65536),
        "data=8,model=4",
        tuple((name, 0, axis) for name in ("['x']", "['up']") for axis in ("data", "model")),
    ),
    "data parallel": (
        mlp_training(layers=3, width=512, hidden=2048, tokens=131072),
        "data=8",
        (("['x']", 0, "data"),),
    ),
    "Megatron pairs of attention": (
        attention_forward(
            layers=2, batch=1, seq=1024, width=4096, heads=32, size=128, shared=False
        ),
        "model=8",
        tuple((weight, 1, "model") for weight in ("['query']", "['key']", "['value']")),
    ),
    "batch, Megatron and multi-query": (
        itx.make_step(replace(itx.PRESETS["paper_5b"], layers=2, batch=4, prompt=2048, seq=2048)),
        "data=4,model=2",
        (("tokens", 0, "data"), ("['up']", 1, "model"), ("['query']", 1, "model")),
    ),
    "edge sharding": (
        gns.make_step(replace(gns.PRESETS["paper"], steps=2)),
        "data=8",
        (("['senders']", 0, "data"),),
    ),
}


@pytest.mark.nightly
@pytest.mark.timeout(2 * COMPILING + 300)  # two compilations, behind a search
@pytest.mark.skipif(not HAS_LIBTPU, reason="libtpu, from the `aot` extra, is not installed")
@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_faster_or_smaller_than_the_named_layout(name: str) -> None:
    """Where it is only smaller, it is at most 1 % slower."""
    step, mesh, choices = CASES[name]
    plan = plan_step(step, mesh)
    state, cost = named(plan.problem, choices)
    assert plan.found.cost <= cost
    module = module_of(step)
    seconds, size = compiled(plan.problem, module, plan.found.state)
    known, bound = compiled(plan.problem, module, state)
    told = f"{name}: {seconds * 1e3:.2f} ms, as named {known * 1e3:.2f} ms; "
    LOG.info(told + f"{size / 2**20:.0f} MiB, as named {bound / 2**20:.0f} MiB")
    assert seconds <= known or (size < bound and seconds <= 1.01 * known)
