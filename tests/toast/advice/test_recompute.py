"""What recomputing repeated blocks saves, beside the same step with `jax.checkpoint`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from examples import gemma
from examples.forms import Step, serialize
from tests.modules import text
from tests.toast.advice.misfits import SMALL, step
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Cost, Evaluator, State
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.labels.labels import Labels
from toast.pipeline.advice.recompute import Recomputation
from toast.plans.advice import RecomputedBlocks
from toast.plans.baselines import data_parallel

DEEP = replace(SMALL, layers=5)


def estimated(
    module: bytes, *, sharded: bool = False, memory: float = 1e12
) -> tuple[Cost, list[RecomputedBlocks]]:
    """A step's cost, unsharded or over two devices, and what recomputing would do."""
    source = load(module)
    evaluator = Evaluator(analyse(source.program), Mesh.parse("a=2"), find("cpu"))
    state: State = data_parallel(evaluator) if sharded else ()
    resolved = resolve(evaluator, state)
    terms = explain(resolved)
    say = Labels(source, evaluator.analysis)
    return resolved.cost, Recomputation(resolved, terms, say, memory).estimates()


@pytest.mark.parametrize("sharded", [False, True])
def test_layers_are_near_layers_with_a_checkpoint(sharded: bool) -> None:
    cost, rows = estimated(step(DEEP), sharded=sharded)
    remat, none = estimated(step(replace(DEEP, remat=True)), sharded=sharded)
    (row,) = rows
    assert (row.name, row.blocks) == ("state/params/layers/*", 5)
    assert row.saved_bytes == pytest.approx(cost.peak - row.peak_bytes, abs=1)
    assert row.peak_bytes == pytest.approx(remat.peak, rel=0.1)
    extra = remat.seconds - cost.seconds
    assert extra <= row.extra_seconds <= 1.6 * extra
    assert row.saved_bytes <= row.residual_bytes <= cost.peak
    assert sum(one.saved_bytes for one in none) < 0.2 * row.saved_bytes


def looped(*, checkpoint: bool) -> bytes:
    """A training step whose layers are the turns of a loop."""
    shape = jax.ShapeDtypeStruct

    def layer(x: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
        return x + jnp.sin(jnp.tanh(x @ w) @ w.T), None

    def train(weights: jax.Array, x: jax.Array) -> Any:
        body = jax.checkpoint(layer) if checkpoint else layer

        def loss(weights: jax.Array) -> jax.Array:
            return jnp.sum(jax.lax.scan(body, x, weights)[0] ** 2)

        return weights - 0.1 * jax.grad(loss)(weights)

    arguments = (shape((12, 64, 256), "float32"), shape((4096, 64), "float32"))
    return serialize(Step(function=jax.jit(train), arguments=arguments), "text")


def test_a_loop_is_near_a_loop_with_a_checkpoint() -> None:
    cost, (row,) = estimated(looped(checkpoint=False))
    remat, _ = estimated(looped(checkpoint=True))
    assert row.blocks == 12
    assert row.name.startswith("the loop at test_recompute.py:")
    assert row.peak_bytes == pytest.approx(remat.peak, rel=0.1)
    extra = remat.seconds - cost.seconds
    assert extra <= row.extra_seconds <= 2.5 * extra


def test_it_is_told_whether_that_fits() -> None:
    _, (row,) = estimated(step(DEEP))
    assert row.fits
    for memory, fits in ((row.peak_bytes + 1.0, True), (row.peak_bytes - 1.0, False)):
        _, (again,) = estimated(step(DEEP), memory=memory)
        assert again.fits is fits


def test_layers_that_are_numbered_below_other_layers_count_once() -> None:
    """`blocks/0/parts/1`: the outer blocks are what is recomputed."""

    def train(p: Any, x: jax.Array) -> Any:
        def loss(p: Any) -> jax.Array:
            y = x
            for block in p["blocks"]:
                for weight in block["parts"]:
                    y = y + jnp.sin(jnp.tanh(y @ weight))
            return jnp.sum(y**2)

        return jax.tree.map(lambda w, g: w - 0.1 * g, p, jax.grad(loss)(p))

    weight = jax.ShapeDtypeStruct((64, 64), "float32")
    weights = {"blocks": [{"parts": [weight] * 2} for _ in range(3)]}
    arguments = (weights, jax.ShapeDtypeStruct((2048, 64), "float32"))
    module = serialize(Step(function=jax.jit(train), arguments=arguments), "text")
    _, (row,) = estimated(module)
    assert (row.name, row.blocks) == ("p/blocks/*", 3)


def test_a_module_without_a_backward_pass_has_nothing_to_recompute() -> None:
    assert estimated(text("attention"))[1] == []
    shallow = gemma.make_step(replace(gemma.PRESETS["tiny"], layers=1))
    assert estimated(serialize(shallow, "bytecode"))[1] == []
