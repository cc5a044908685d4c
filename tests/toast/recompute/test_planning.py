"""Plans of steps with layers recomputed: what is written, recorded, chosen and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.examples.variants import module_of
from tests.toast.recompute.layered import step_of
from toast.analysis.errors import InvalidRequest, ToastError
from toast.analysis.load import load
from toast.pipeline.plan_module import make_plan
from toast.pipeline.variants import Variant, Variants
from toast.pipeline.write_result import write_result
from toast.plans.choices import request_of
from toast.plans.plan import Plan
from toast.plans.result import PlanResult
from toast.recompute.policy import Policy
from toast.request.request import GROUP_POLICIES
from toast.request.settings import make_request
from toast.verify.verification import verify

LAYERS = "state/params/layers"


@pytest.fixture(scope="module")
def gpt() -> bytes:
    return module_of(("gpt", "tiny", True))


def planned(module: bytes, *recompute: str, **settings: Any) -> PlanResult:
    request = make_request(
        mesh=settings.pop("mesh", "data=2,model=4"),
        device="tpu-v5e",
        rollouts=200,
        threads=1,
        advice=False,
        recompute=recompute,
        **settings,
    )
    return make_plan(module, request)


def test_a_request_knows_the_policies() -> None:
    assert set(GROUP_POLICIES) == set(Policy)


def test_a_plan_is_recorded_said_and_agrees_with_the_step(gpt: bytes, tmp_path: Path) -> None:
    result = planned(gpt, "all", microbatches=2)
    plan = result.plan
    assert plan.recompute is not None
    assert plan.time is not None
    (group,) = plan.recompute.groups
    assert (group.name, group.layers, group.policy) == (LAYERS, 2, "all")
    assert group.kept_bytes < group.before_bytes
    assert "Recompute: state/params/layers, 2 layers made again" in str(plan)
    assert Plan.from_json(plan.to_json()) == plan
    assert request_of(plan, 1).recompute == (f"{LAYERS}=all",)
    write_result(tmp_path, result)
    (tmp_path / "original.mlirbc").write_bytes(gpt)
    assert verify(tmp_path).verdict == "equal"


def test_a_step_that_does_not_fit_is_recomputed() -> None:
    """Of `auto`: the fastest that fits is taken, and what it saves and costs is told."""
    plan = tightly_planned("auto")
    assert plan.fits
    assert plan.time is None
    assert plan.recompute is not None
    first, *others = plan.recompute.tried
    assert not first.fits
    assert first.peak_bytes is not None
    assert (1, "all") in {(row.microbatches, row.recompute) for row in others}
    fitting = [row.step_seconds for row in others if row.fits and row.step_seconds]
    assert plan.predicted.step_seconds <= min(fitting) * (1 + 1e-9)
    assert plan.predicted.peak_bytes < 0.75 * first.peak_bytes
    assert "less memory and" in str(plan)


def test_the_fastest_rewriting_that_fits_is_taken() -> None:
    """Of `fit`: more parts are faster here than fewer, and recomputing is not needed."""
    plan = tightly_planned(fit=True)
    assert plan.fits
    assert plan.recompute is None
    assert plan.time is not None
    first, *others = plan.time.tried
    assert not first.fits
    fitting = {row.microbatches: row.step_seconds for row in others if row.fits}
    assert plan.time.microbatches == min(fitting, key=lambda count: fitting[count] or 0.0) > 2
    assert {2, plan.time.microbatches, 2 * plan.time.microbatches} <= fitting.keys()


def tightly_planned(*recompute: str, **settings: Any) -> Plan:
    """A plan of scanned layers with seven tenths of the memory that they take."""
    module = step_of(8, scan=True, rows=1 << 20).encode()
    plain = planned(module, mesh="data=2").plan
    assert plain.recompute is None
    tight = round(plain.predicted.peak_bytes * 0.7)
    return planned(module, *recompute, mesh="data=2", memory=f"{tight}B", **settings).plan


def test_a_group_that_is_not_there_is_refused(gpt: bytes) -> None:
    with pytest.raises(InvalidRequest, match=f"no group of layers 'blocks'.*{LAYERS}"):
        planned(gpt, "blocks=all")


def test_a_policy_that_is_not_there_is_refused(gpt: bytes) -> None:
    with pytest.raises(ToastError, match="should be none, all, products"):
        planned(gpt, "some")


def test_what_is_asked_for_and_what_is_looked_for_go_together(gpt: bytes) -> None:
    """Layers under a policy, microbatches looked for; and the other way round."""
    plan = planned(gpt, "products", microbatches="auto").plan
    assert plan.recompute is not None
    assert plan.recompute.groups[0].policy == "products"
    other = planned(gpt, "auto", microbatches=2).plan
    assert other.time is not None
    assert other.time.microbatches == 2


def test_both_at_once_do_no_work_twice() -> None:
    """What layers read again, behind barriers, is in the loop over the microbatches alone."""
    module = step_of(4).encode()
    variants = Variants(module=module, request=make_request(mesh="data=2", device="tpu-v5e"))
    layers = (("weights/layers/*", "all"),)
    again = str(load(variants.written(Variant(recompute=layers))).loaded.module)
    both = str(load(variants.written(Variant(recompute=layers, microbatches=2))).loaded.module)
    assert "stablehlo.while" in both
    assert both.count("stablehlo.dot_general") == again.count("stablehlo.dot_general")
