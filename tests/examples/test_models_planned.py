"""Every model goes through the analysis and gets a plan."""

from __future__ import annotations

import pytest

from examples.models import MODELS
from tests.examples.variants import FULL, TINY, Variant, module_of
from toast.analysis.analyse import analyse
from toast.analysis.forms import detect
from toast.analysis.load import load
from toast.pipeline.plan_module import make_plan
from toast.plans.plan import Plan
from toast.request.request import PlanRequest

REQUEST = PlanRequest(mesh="data=2,model=4", device="tpu-v5e", rollouts=500, threads=1)


@pytest.mark.parametrize("variant", TINY)
def test_a_tiny_model_is_analysed_whole(variant: Variant) -> None:
    model = MODELS[variant[0]]
    program = load(module_of(variant)).program
    assert program.no_rule == {}
    assert program.warnings == ()
    names = [argument.name for argument in program.arguments]
    assert all("[" in name or name in {"tokens", "position"} for name in names)
    analysis = analyse(program)
    assert 0 < analysis.groups.colours <= analysis.colours.count
    assert (analysis.conflicts.sets > 0) == (
        model.name in {"t2b", "t7b", "unet", "gpt", "gat"}
    ) or (variant[1] == "tiny_prefill")


@pytest.mark.parametrize("variant", TINY)
def test_a_tiny_model_gets_a_plan(variant: Variant) -> None:
    module = module_of(variant)
    result = make_plan(module, REQUEST)
    plan = result.plan
    assert detect(result.module) is detect(module)
    assert 0.0 < plan.search.cost <= 1.0
    assert plan.predicted.step_seconds <= plan.unsharded.step_seconds
    assert plan.unpriced == []
    assert moments_sharded_otherwise(plan) == []


def moments_sharded_otherwise(plan: Plan) -> list[str]:
    """The parameters whose optimizer state has another layout than their own."""
    specs = {tensor.name: tensor.spec for tensor in plan.arguments}
    return [
        name
        for name, spec in specs.items()
        for moment in ("mu", "nu", "momentum")
        if name.startswith("state['params']")
        and specs.get(name.replace("params", moment, 1), spec) != spec
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("variant", FULL)
def test_a_full_size_model_gets_a_plan(variant: Variant) -> None:
    plan = make_plan(module_of(variant), REQUEST).plan
    assert plan.predicted.step_seconds < plan.unsharded.step_seconds
    assert plan.predicted.peak_bytes < plan.unsharded.peak_bytes
    assert plan.unpriced == []
    assert moments_sharded_otherwise(plan) == []
