"""The main job in one process: what the plan says, and that the module says the same."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import cast

import jax
import jax.numpy as jnp
import jsonschema
import pytest

from tests.modules import text
from tests.toast.planned import gemma_text, request
from toast.analysis.errors import InvalidMesh, InvalidRequest, ToastError, UnknownDevice
from toast.analysis.forms import Form, decode
from toast.analysis.load import Source
from toast.emit.specs import stations
from toast.inspect.inspect_module import inspect_module
from toast.pipeline import plan_module as planning
from toast.pipeline.plan_module import make_plan
from toast.pipeline.stages import Stages
from toast.plans.plan import Plan
from toast.plans.result import PlanResult
from toast.search.progress import COMPILING, Progress


@cache
def gemma_plan() -> PlanResult:
    return make_plan(gemma_text(), request())


def test_the_plan_validates_against_its_schema_and_reads_back() -> None:
    plan = gemma_plan().plan
    jsonschema.validate(json.loads(plan.to_json()), Plan.model_json_schema(by_alias=True))
    assert Plan.from_json(plan.to_json()) == plan


def test_every_argument_and_result_is_named_and_laid_out() -> None:
    plan = gemma_plan().plan
    assert len(plan.arguments) == plan.module.arguments
    sizes = {axis.name: axis.size for axis in plan.mesh.axes}
    for tensor in [*plan.arguments, *plan.results]:
        assert len(tensor.spec) == len(tensor.shape)
        for size, axes in zip(tensor.shape, tensor.spec, strict=True):
            product = 1
            for axis in axes:
                product *= sizes[axis]
            assert size % product == 0
    names = {tensor.name for tensor in plan.arguments}
    assert "state['params']['embedding']" in names
    assert "batch['tokens']" in names


def test_groups_cover_every_argument_once() -> None:
    plan = gemma_plan().plan
    members = [index for group in plan.groups for index in group.arguments]
    assert sorted(members) == list(range(len(plan.arguments)))
    for group in plan.groups:
        assert {tuple(map(tuple, plan.arguments[i].spec)) for i in group.arguments} == {
            tuple(map(tuple, group.spec))
        }


def test_costs_are_consistent() -> None:
    plan = gemma_plan().plan
    for cost in (plan.predicted, plan.unsharded, *plan.baselines):
        total = cost.compute_seconds + cost.communication_seconds
        assert cost.step_seconds == pytest.approx(total)
        assert cost.fits == (cost.peak_bytes <= plan.memory_bytes)
    assert plan.predicted.step_seconds < plan.unsharded.step_seconds
    assert plan.unsharded.communication_seconds == 0
    communication = sum(row.seconds for row in plan.collectives)
    assert communication == pytest.approx(plan.predicted.communication_seconds)
    assert [baseline.name for baseline in plan.baselines] == ["data_parallel"]


def test_the_last_decision_reaches_the_cost_of_the_search() -> None:
    plan = gemma_plan().plan
    assert plan.decisions[-1].cost_after == pytest.approx(plan.search.cost)
    assert len(plan.decisions) <= 30


def test_stages_are_timed() -> None:
    stages = gemma_plan().plan.stages
    expected = {"load.parse", "load.walk", "analyse", "tables", "search", "write", "describe"}
    assert expected <= set(stages)
    assert all(seconds >= 0 for seconds in stages.values())
    assert stages["describe"] > 0


def test_what_goes_on_is_timed_until_now(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0.0, 10.0)
    monkeypatch.setattr(
        "toast.pipeline.stages.time", SimpleNamespace(perf_counter=lambda: next(clock))
    )
    stages = Stages(None)
    source = cast(Source, SimpleNamespace(seconds={"parse": 3.0}))
    for stage in ("kernels", "load", "search"):
        stages.enter(stage, 0.0)
    first = stages.until_now(source)
    assert list(first) == ["kernels", "load.parse", "search"]
    assert first["load.parse"] == 3.0
    assert stages.until_now(source)["search"] > first["search"] >= 10.0


def test_the_module_is_annotated_as_the_plan_says() -> None:
    result = gemma_plan()
    module = decode(result.module).module
    with module.context:
        main = next(op for op in module.body.operations if op.operation.name == "func.func")
        written = main.operation.attributes["arg_attrs"]
        for tensor, attributes in zip(result.plan.arguments, written, strict=True):
            found = re.findall(r"\{([^{}]*)\}", str(attributes["sdy.sharding"]))
            axes = [re.findall(r'"(\w+)"', item) for item in found]
            assert axes == tensor.spec
    assert module.operation.attributes["mhlo.num_partitions"].value == 8


def test_only_shardings_are_added() -> None:
    before = decode(gemma_text()).module
    after = decode(gemma_plan().module).module
    constraints = str(after).count("sdy.sharding_constraint")
    assert constraints >= 1
    for op in ("dot_general", "reduce", "transpose", "gather", "scatter"):
        pattern_of = re.compile(rf"stablehlo\.{op}\b")
        assert len(pattern_of.findall(str(before))) <= len(pattern_of.findall(str(after)))


def test_the_same_seed_gives_the_same_module() -> None:
    again = make_plan(gemma_text(), request())
    assert again.module == gemma_plan().module


@pytest.mark.parametrize("planner", ["mcts", "greedy", "beam", "ilp", "random"])
def test_every_planner_gives_a_plan(planner: str) -> None:
    plan = make_plan(text("mlp"), request(planner=planner)).plan
    assert plan.search.planner == planner
    assert plan.predicted.step_seconds <= plan.unsharded.step_seconds
    assert (plan.lower_bound is not None) == (planner == "ilp")


def test_a_proof_is_a_bound_and_a_gap() -> None:
    plan = make_plan(text("attention"), request(planner="ilp")).plan
    assert plan.lower_bound is not None
    assert plan.gap == pytest.approx(1 - plan.lower_bound / plan.search.cost)
    assert plan.relaxation in ("branch and bound", "linear relaxation")


def test_a_program_too_large_for_integer_programs_has_a_bound_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for most in ("DIRECT", "LARGE", "TINY"):
        monkeypatch.setattr(f"toast.search.pairwise.solve.{most}", 0)
    plan = make_plan(text("attention"), request(planner="ilp", budget=20.0)).plan
    assert plan.relaxation == "prices of memory"
    assert plan.lower_bound is not None
    assert plan.gap == pytest.approx(1 - plan.lower_bound / plan.search.cost)


def test_what_fits_nothing_says_by_how_much() -> None:
    plan = make_plan(gemma_text(), request(memory=1000)).plan
    assert not plan.predicted.fits
    assert plan.predicted.peak_bytes > plan.memory_bytes == 1000
    assert plan.predicted.peak_bytes < plan.unsharded.peak_bytes


def test_who_waits_for_kernels_sees_them_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_kernels(on_share: Callable[[float], None]) -> None:
        for share in (0.0, 0.25, 0.75):
            on_share(share)

    monkeypatch.setattr(planning, "warm_kernels", compile_kernels)
    events: list[Progress] = []
    plan = make_plan(gemma_text(), request(rollouts=1), on_progress=events.append).plan
    assert [event.stage for event in events[:5]] == ["kernels", *[COMPILING] * 3, "load"]
    shares = [event.fraction for event in events]
    assert shares == sorted(shares)
    assert 0.0 < shares[2] < shares[3] < shares[4] < shares[-1] <= 1.0, "the job is still to come"
    assert "kernels" in plan.stages
    assert COMPILING not in plan.stages


def test_a_cancelled_job_still_gives_a_plan() -> None:
    looks = itertools.count()
    result = make_plan(gemma_text(), request(rollouts=10**6), cancelled=lambda: next(looks) > 3)
    assert result.plan.search.termination == "cancelled"
    assert result.module


def test_progress_runs_from_nothing_to_the_whole_job() -> None:
    seen: list[Progress] = []
    make_plan(gemma_text(), request(), on_progress=seen.append)
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    stages = list(dict.fromkeys(progress.stage for progress in seen))
    assert stages == [
        "kernels",
        "load",
        "analyse",
        "tables",
        "search",
        "choices",
        "explain",
        "alternatives",
        "write",
        "describe",
    ]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"mesh": "a=1"}, InvalidMesh),
        ({"mesh": "a=2,a=2"}, InvalidMesh),
        ({"mesh": "a=7"}, InvalidMesh),
        ({"mesh": "a=2@nvlink"}, InvalidMesh),
        ({"device": "abacus"}, UnknownDevice),
        ({"planner": "oracle"}, InvalidRequest),
    ],
)
def test_bad_requests(changes: dict[str, object], error: type[ToastError]) -> None:
    with pytest.raises(error) as caught:
        make_plan(text("mlp"), request(**changes))
    assert caught.value.hint


def test_the_plan_says_which_networks_each_axis_was_priced_over() -> None:
    settings = {"device": "a100-40gb", "rollouts": 64, "threads": 1}
    chosen = make_plan(text("mlp"), request(mesh="data=2,model=8", **settings)).plan
    given = make_plan(
        text("mlp"), request(mesh="data=2@infiniband,model=8@nvlink", **settings)
    ).plan
    assert [axis.places for axis in chosen.mesh.axes] == [["infiniband:2"], ["nvlink:8"]]
    assert given.mesh == chosen.mesh
    assert given.predicted == chosen.predicted


def test_a_module_without_arguments_is_planned() -> None:
    data = (
        b"func.func @main() -> tensor<8xf32> { %0 = stablehlo.constant dense<1.0> : tensor<8xf32>"
    )
    plan = make_plan(data + b" return %0 : tensor<8xf32> }", request(mesh="a=2")).plan
    assert plan.arguments == []
    assert plan.decisions == []


def test_ops_without_a_rule_are_listed() -> None:
    data = (
        b"func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {"
        b" %y = stablehlo.custom_call @mystery(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>"
        b" %z = stablehlo.add %y, %x : tensor<8x8xf32>"
        b" return %z : tensor<8x8xf32> }"
    )
    plan = make_plan(data, request(mesh="a=2")).plan
    assert [(row.op, row.count, row.reason) for row in plan.unpriced] == [
        ("custom_call mystery", 1, "no_rule")
    ]


def step(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w).sum(0)


@pytest.mark.parametrize("platforms", [["cpu"], ["cpu", "tpu"]])
def test_an_export_comes_back_as_one_with_its_shardings(platforms: list[str]) -> None:
    shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((64, 32), (32, 64))]
    exported = jax.export.export(jax.jit(step), platforms=platforms)(*shapes)
    result = make_plan(bytes(exported.serialize()), request())
    assert result.suffix == ".jax_export"
    again = jax.export.deserialize(bytearray(result.module))
    assert again.nr_devices == 8
    assert [str(aval) for aval in again.in_avals] == [str(aval) for aval in exported.in_avals]
    mesh = jax.sharding.AbstractMesh((2, 4), ("data", "model"))
    specs = [sharding.spec for sharding in again.in_shardings_jax(mesh)]
    planned = [tensor.spec for tensor in result.plan.arguments][-2:]
    for spec, axes in zip(specs, planned, strict=True):
        flat = [tuple([item] if isinstance(item, str) else item or ()) for item in spec]
        assert [list(item) for item in flat] == axes
    assert decode(result.module).form is Form.EXPORT


def test_inspection_tells_colours_conflicts_sets_and_groups() -> None:
    found = inspect_module(gemma_text())
    named = {row.name: row for row in found.colours}
    assert named["state['params']['embedding'].1"].colours == 1
    hidden = next(row for row in found.colours if "['down'].0" in row.name)
    assert hidden.colours == 2
    assert hidden.size == 128
    assert len(found.sets) == 1
    assert found.sets[0].isomorphic == 2
    assert "2 places" in found.sets[0].description
    assert any("gemma.py:" in row.location for row in found.conflicts)
    assert any(row.name.endswith("['gate']") for row in found.groups)
    assert found.no_rule == []
    assert all(row.arguments for row in found.colours[:5])


@pytest.mark.parametrize(
    ("have", "want", "expected"),
    [
        ([["a"]], [["a", "b"]], ()),
        ([["b"]], [["a", "b"]], ([["b", "a"]],)),
        ([["a", "b"]], [["b"]], ([["b", "a"]],)),
        ([["a", "b"]], [["a"]], ()),
        ([["a"], ["b"]], [["a"], []], ()),
        ([[]], [["a", "b"]], ()),
        ([["a", "c"]], [["c", "b"]], ([["c", "a"]],)),
    ],
)
def test_stations_let_common_axes_lead(
    have: list[list[str]], want: list[list[str]], expected: tuple[list[list[str]], ...]
) -> None:
    assert stations(have, want) == expected


def test_a_plan_without_a_pass_is_priced_so_and_says_so() -> None:
    asked = {"rollouts": 5, "device": "tpu-v5e"}
    plain = make_plan(gemma_text(), request(**asked)).plan
    plan = make_plan(gemma_text(), request(**asked, without=("fusion",))).plan
    assert plan.request is not None
    assert plan.request.without == ("fusion",)
    assert plan.unsharded.step_seconds > plain.unsharded.step_seconds
    assert json.loads(plan.to_json())["request"]["without"] == ["fusion"]
