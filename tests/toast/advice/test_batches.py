"""Other batches: priced as the program lowered at that batch, and the largest that fits."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from examples.forms import serialize
from examples.models import MODELS
from tests.modules import evaluator_of, text
from tests.toast.advice.misfits import MESH, SMALL, Job, in_parts, planned, step
from tests.toast.planned import request
from toast.costmodel.resolved import resolve
from toast.pipeline.advice.batches import Batch, BatchSizes, PricedPlan, batch_of, largest_batch
from toast.pipeline.advice.microbatches import Gradients, fewest_microbatches, plan_of_a_part
from toast.pipeline.plan_module import make_plan
from toast.plans.baselines import data_parallel
from toast.plans.costs import PredictedCost
from toast.search.problem import Found
from toast.search.progress import Control

ROOMY = 10**12


def batch(job: Job) -> Batch:
    found = batch_of(job.best.problem.evaluator, job.best.found)
    assert found is not None
    return found


def sizes(job: Job) -> BatchSizes:
    return BatchSizes.of(job.module, job.search, job.best, batch(job))


def lowered(size: int, memory: int) -> PredictedCost:
    """The plan of the step lowered at a batch."""
    config = replace(SMALL, batch=size)
    asked = request(mesh=MESH, memory=memory, advice=False, rollouts=400)
    return make_plan(step(config), asked).plan.predicted


def test_the_batch_is_what_data_parallelism_splits() -> None:
    found = batch(planned())
    assert found.size == 32
    assert found.argument.startswith("batch")
    assert found.step == 2
    names = [argument.name for argument in planned().search.source.program.arguments]
    assert {names[number] for number in found.carriers} == {"batch['tokens']", "batch['targets']"}


def test_the_step_of_a_batch_that_every_device_has_one_of() -> None:
    whole = replace(batch(planned()), shards=32)
    assert whole.step == 16
    assert replace(whole, shards=1).step == 1
    assert replace(whole, size=7, shards=7).step == 1


@pytest.mark.parametrize("size", [4, 12, 64])
def test_another_batch_costs_what_it_costs_lowered(size: int) -> None:
    plan = sizes(planned()).closest(size, ROOMY, Control())
    assert plan is not None
    there = evaluator_of(step(replace(SMALL, batch=size)), MESH)
    again = there.cost(planned().best.found.state)
    assert (plan.cost.seconds, plan.cost.peak) == (again.seconds, again.peak)


@pytest.mark.parametrize("share", [0.55, 0.8])
def test_the_largest_batch_fits_and_the_next_does_not(share: float) -> None:
    memory = int(planned().peak * share)
    job = planned(memory=memory)
    found = largest_batch(sizes(job), 0.0, Control())
    assert found is not None
    assert found.fits is not None
    assert found.too_large == found.fits + found.step
    assert found.peak_bytes is not None
    assert found.peak_bytes <= memory
    assert lowered(found.fits, memory).fits
    assert not lowered(found.too_large, memory).fits


def test_where_no_batch_fits() -> None:
    job = planned(memory=1 << 16)
    found = largest_batch(sizes(job), 0.0, Control())
    assert found is not None
    assert (found.fits, found.step_seconds) == (None, None)
    assert found.too_large == found.step


def test_without_time_only_what_is_known_is_told() -> None:
    job = planned(memory=int(planned().peak * 0.5))
    found = largest_batch(sizes(job), 0.0, Control(budget=0.0))
    assert found is not None
    assert (found.fits, found.too_large) == (None, 32)


def test_a_size_that_cannot_be_had_says_why() -> None:
    kept = text("mlp").replace(b"return ", b"%m = stablehlo.custom_call @mystery(%arg0) return ")
    job = planned()
    broken = BatchSizes.of(kept, job.search, job.best, batch(job))
    assert broken.closest(4, ROOMY, Control()) is None
    assert broken.why_not


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_microbatches_are_near_a_step_that_adds_gradients_up(parts: int) -> None:
    """The same layouts in the program that the estimate is of."""
    memory = int(make_plan(in_parts(parts), request(mesh=MESH)).plan.predicted.peak_bytes * 1.02)
    job = planned(memory=memory)
    gradients = Gradients(job.search.source.program, batch(job))
    found = fewest_microbatches(sizes(job), gradients, 0.0, Control())
    assert found is not None
    assert (found.count, found.size) == (parts, 32 // parts)
    assert found.peak_bytes <= memory
    part = plan_of_a_part(sizes(job), parts, gradients, Control())
    assert part is not None
    asked = request(mesh=MESH, rollouts=400, pins=pins(part))
    by_hand = make_plan(in_parts(parts), asked).plan.predicted
    assert found.peak_bytes == pytest.approx(by_hand.peak_bytes, rel=0.05)
    assert found.step_seconds == pytest.approx(by_hand.step_seconds, rel=0.25)


def pins(plan: PricedPlan) -> tuple[str, ...]:
    """The layouts of the state that a plan has."""
    evaluator = plan.problem.evaluator
    masks = resolve(evaluator, plan.state).masks
    found = []
    for argument in evaluator.analysis.program.arguments:
        tensor = int(evaluator.layouts.value_tensor[argument.value])
        items = [item for _, item in evaluator.layouts.tensors[tensor][1]]
        spec = ["a" if item >= 0 and masks[item] else "None" for item in items]
        if spec and argument.name.startswith("state"):
            found.append(f"{argument.name}={','.join(spec)}")
    return tuple(found)


def test_sums_are_laid_out_as_the_weights_of_their_plan() -> None:
    job = planned()
    gradients = Gradients(job.search.source.program, batch(job))
    whole = PricedPlan.of(job.best.problem, ())
    split = PricedPlan.of(job.best.problem, job.best.found.state)
    weights = [
        math.prod(program.shape(argument.value)) * 4
        for program in (job.search.source.program,)
        for argument in program.arguments
        if "params" in argument.name and "norm" not in argument.name
    ]
    assert gradients.bytes(whole) == sum(weights)
    assert gradients.bytes(split) <= gradients.bytes(whole)


def test_the_batch_of_inference_is_no_dimension_of_its_weights() -> None:
    model = MODELS["itx"]
    module = serialize(model.make_step(model.config("tiny")), "bytecode")
    found = batch_of(evaluator_of(module, MESH), Found.after((), 1.0, 1, "given"))
    assert found is not None
    assert "params" not in found.argument


def test_what_meets_itself_in_an_argument_is_no_batch() -> None:
    graph = b"""
func.func @main(%a: tensor<16x16xf32>, %x: tensor<16x4xf32>) -> tensor<16x4xf32> {
  %y = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0]
    : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %z = stablehlo.dot_general %a, %y, contracting_dims = [1] x [0]
    : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  return %z : tensor<16x4xf32>
}
"""
    evaluator = evaluator_of(graph, MESH)
    assert data_parallel(evaluator)
    assert batch_of(evaluator, Found.after((), 1.0, 1, "given")) is None
