"""Explicit collectives are those that the plan has, and compute what the program computes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from jaxlib.mlir import ir

from examples import mlp
from tests.examples.variants import TINY, Variant, module_of
from tests.libraries.corpus import SET_GROUPS, kept
from tests.toast.forms.lowered import pair
from tests.toast.forms.programs import REGION
from tests.toast.planned import gemma_text, request
from toast.analysis.forms import decode
from toast.costmodel.network.mesh import Mesh
from toast.emit.lowering.devices import Devices
from toast.pipeline.plan_module import make_plan
from toast.verify.compare import deviation
from toast.verify.comparison import compare
from toast.verify.conditioning import find_baseline
from toast.verify.execution import compile_module, run_original
from toast.verify.inputs import describe_arguments
from toast.verify.reference.run import run_reference
from toast.verify.sums import reordered

MESHES = ("data=2,model=4", "data=4,model=2", "x=2,y=2,z=2", "data=8,model=1", "data=1,model=8")
FORMS = ("collectives", "local")


def mlp_text() -> bytes:
    """A training step of two layers with Adam, as text."""
    step = mlp.make_step(mlp.PRESETS["tiny"])
    return step.lower().as_text(debug_info=True).encode()


def in_module(module: ir.Module, mesh: str) -> Counter[str]:
    """The collectives of a module by kind, read back from it."""
    found: Counter[str] = Counter()
    kinds = ("all_gather", "all_reduce", "all_to_all", "collective_permute", "reduce_scatter")

    def visit(op: ir.Operation) -> ir.WalkResult:
        dialect, _, kind = op.name.partition(".")
        if dialect in ("sdy", "stablehlo") and kind in kinds:
            found[kind] += 1
            if "replica_groups" in op.attributes:
                _check_groups(op, Devices(Mesh.parse(mesh)))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _check_groups(op: ir.Operation, devices: Devices) -> None:
    groups = np.array(ir.DenseIntElementsAttr(op.attributes["replica_groups"]))
    assert sorted(groups.flatten().tolist()) == list(range(devices.count))


@pytest.mark.parametrize("mesh", MESHES)
def test_the_collectives_of_a_step_are_those_of_its_plan(mesh: str) -> None:
    found = pair(gemma_text(), mesh, "local")
    assert found.written == found.priced
    assert not found.lowered.undone


def check_collectives(data: bytes, mesh: str, form: str) -> None:
    found = pair(data, mesh, form, rollouts=50)
    assert found.written == found.priced
    assert not found.lowered.undone


@pytest.mark.parametrize("name", ["bert", "nnx_transformer", "resnet", "vit"])
def test_the_collectives_of_a_library_are_those_of_its_plan(name: str) -> None:
    check_collectives(kept(name), "data=2,model=4", "local")


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", sorted(SET_GROUPS))
def test_the_collectives_of_every_library_on_every_mesh(name: str, mesh: str, form: str) -> None:
    check_collectives(kept(name), mesh, form)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("variant", TINY)
def test_the_collectives_of_the_models_of_the_paper(variant: Variant, form: str) -> None:
    check_collectives(module_of(variant), "data=2,model=4", form)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_counted_is_what_is_written(form: str) -> None:
    found = pair(gemma_text(), "data=2,model=4", form)
    kinds = Counter[str]()
    for (kind, _), count in found.written.items():
        kinds[kind] += count
    assert in_module(found.lowered.module, "data=2,model=4") == kinds


def agree(data: bytes, mesh: str, form: str, memory: int | None = None) -> None:
    """Run a planned module device by device, and compare it with the program as it came."""
    original = decode(data)
    with original.module.context:
        arguments = describe_arguments(original.module)
    plain = compile_module(original.module, 1)
    baseline = find_baseline(arguments, 0, lambda inputs: run_original(plain, inputs))
    made = make_plan(data, request(form=form, mesh=mesh, rollouts=100, memory=memory))
    assert made.plan.decisions or memory is None
    actual = run_reference(decode(made.module).module, made.plan, baseline.inputs)
    again = run_original(compile_module(reordered(original.module), 1), baseline.inputs)
    rows = zip(baseline.results, again, baseline.moved, strict=True)
    own = [[moved, deviation(first, second)] for first, second, moved in rows]
    for found in compare(made.plan, baseline, actual, own):
        assert found.verdict != "differs", found


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("form", FORMS)
def test_a_step_computes_what_it_computes_whole(mesh: str, form: str) -> None:
    agree(mlp_text(), mesh, form, memory=12_000)  # where it does not fit unless it is split


@pytest.mark.parametrize("form", FORMS)
def test_a_region_of_shard_map_computes_what_it_computes(form: str) -> None:
    made = make_plan(REGION, request(form=form, rollouts=50))
    given = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    (actual,) = run_reference(decode(made.module).module, made.plan, [given])
    summed = given.reshape(8, 4, 4).sum(axis=1)
    assert np.allclose(actual, np.tanh(np.tile(summed, (1, 4))), atol=1e-6)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["gemma", *sorted(SET_GROUPS)])
def test_libraries_compute_what_they_compute_whole(name: str, mesh: str, form: str) -> None:
    agree(gemma_text() if name == "gemma" else kept(name), mesh, form)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("variant", TINY)
def test_the_models_of_the_paper_compute_what_they_compute_whole(
    variant: Variant, form: str
) -> None:
    agree(module_of(variant), "data=2,model=4", form)


def test_partial_sums_are_said_to_be_partial() -> None:
    module = str(pair(gemma_text(), "data=2,model=4", "collectives").lowered.module)
    assert 'unreduced={"data"}' in module
    assert "sdy.reduce_scatter" in module


def test_a_device_has_its_part_of_arguments_and_results() -> None:
    made = make_plan(mlp_text(), request(form="local", mesh="data=2,model=4", rollouts=100))
    devices = Devices(Mesh.parse("data=2,model=4"))
    module = decode(made.module).module
    main = next(op for op in module.body.operations if str(op.name) == '"main"')
    for argument, tensor in zip(main.arguments, made.plan.arguments, strict=True):
        local = ir.RankedTensorType(argument.type).shape
        assert tuple(local) == devices.local(tensor.shape, tensor.spec)
