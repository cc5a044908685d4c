"""Other batches: priced as the program lowered at that batch, and the largest that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples.forms import serialize
from examples.models import MODELS
from tests.modules import evaluator_of, text
from tests.toast.advice.misfits import MESH, SMALL, Job, planned, step
from tests.toast.planned import request
from toast.pipeline.advice.batches import Batch, BatchSizes, batch_of, largest_batch
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
    plan = sizes(planned()).closest(size, Control())
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
    assert broken.closest(4, Control()) is None
    assert broken.why_not


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
