"""Arguments of a function that `flax.nnx.jit` lowered are named as they are in their modules."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import toast
from toast.analysis.load import load
from toast.api import module_bytes
from toast.request.nnx_names import with_names

nnx: Any = pytest.importorskip("flax.nnx", reason="flax: see `.[libraries]`")
optax: Any = pytest.importorskip("optax", reason="optax: see `.[libraries]`")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def lowered() -> tuple[Any, Any]:
    def train(model: Any, optimizer: Any, x: jax.Array) -> jax.Array:
        loss, gradients = nnx.value_and_grad(lambda m: jnp.mean(m(x) ** 2))(model)
        optimizer.update(model, gradients)
        return loss

    rngs = nnx.Rngs(0)
    model = nnx.Sequential(*(nnx.Linear(8, 8, use_bias=False, rngs=rngs) for _ in range(2)))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    return model, nnx.jit(train).lower(model, optimizer, jnp.zeros((4, 8)))


def test_names_are_paths_in_the_modules() -> None:
    _, found = lowered()
    names = [one.name for one in load(module_bytes(found)).program.arguments]
    assert names[:2] == ["model.layers[0].kernel", "model.layers[1].kernel"]
    assert names[-1] == "x"
    assert sum(".mu['layers']" in name for name in names) == 2
    assert not any("states[" in name for name in names)


def test_the_layouts_come_in_the_shape_of_the_module() -> None:
    model, found = lowered()
    pin = "model/layers/*/kernel=None,model"
    plan = toast.plan(found, mesh="model=4", device="cpu", rollouts=4, pins=[pin]).plan
    assert plan.groups[0].name == "model.layers[*].kernel"
    specs = plan.partition_specs(model)
    assert specs.layers[1].kernel.get_value() == jax.sharding.PartitionSpec(None, "model")


def test_the_callers_own_module_stays_as_it_was() -> None:
    _, found = lowered()
    module = found.lowered.compiler_ir("stablehlo")
    before = module.operation.get_asm(enable_debug_info=True)
    assert with_names(found, module) is not module
    assert module.operation.get_asm(enable_debug_info=True) == before
