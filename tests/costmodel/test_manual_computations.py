"""Regions of `shard_map` cost what the same work costs where a plan asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

from toast.pipeline.plan_module import make_plan
from toast.plans.plan import Plan
from toast.request.request import PlanRequest

DATA, MODEL = 2, 4
MESH = jax.sharding.AbstractMesh((DATA, MODEL), ("data", "model"))
X = jax.ShapeDtypeStruct((4096, 2048), "float32")
W = jax.ShapeDtypeStruct((2048, 8192), "float32")
V = jax.ShapeDtypeStruct((8192, 2048), "float32")
PINS = ("x=data,None", "w=None,model", "v=model,None")


def layers(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w) @ v


def summed(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
    return jax.lax.psum(layers(x, w, v), "model")


def in_region(body: Callable[..., Any], **specs: Any) -> Callable[..., Any]:
    specs = {"in_specs": (P("data"), P(None, "model"), P("model")), "out_specs": P("data")} | specs

    def step(x: jax.Array, w: jax.Array, v: jax.Array) -> Any:
        return jax.shard_map(body, mesh=MESH, check_vma=False, **specs)(x, w, v)

    return step


def planned(
    step: Callable[..., Any], pins: tuple[str, ...] = PINS, device: str = "tpu-v5e"
) -> Plan:
    module = (
        jax.jit(step)
        .trace(X, W, V)
        .lower(lowering_platforms=("cpu",))
        .as_text(debug_info=True)
        .encode()
    )
    request = PlanRequest(mesh="data=2,model=4", device=device, rollouts=50, threads=1, pins=pins)
    return make_plan(module, request).plan


def sent(plan: Plan) -> list[tuple[str, tuple[str, ...], float, float]]:
    return sorted((c.kind, tuple(c.axes), c.count, c.bytes) for c in plan.collectives)


@pytest.fixture(scope="module")
def region() -> Plan:
    return planned(in_region(summed))


def test_a_region_costs_what_the_plan_that_it_writes_out_costs() -> None:
    def scattered(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
        return jax.lax.psum_scatter(layers(x, w, v), "model", scatter_dimension=1, tiled=True)

    written, plain = planned(in_region(scattered, out_specs=P("data", "model"))), planned(layers)
    assert sent(written) == sent(plain) != []
    one, other = written.predicted, plain.predicted
    assert one.communication_seconds == pytest.approx(other.communication_seconds)
    assert one.compute_seconds == pytest.approx(other.compute_seconds, rel=0.1)
    assert one.peak_bytes == pytest.approx(other.peak_bytes, rel=0.05)


def test_the_account_has_the_work_and_the_collectives_of_a_region(region: Plan) -> None:
    account = region.explanation
    assert account is not None
    (row,) = account.collectives
    assert (row.why, row.reason) == ("region", "in_region")
    seconds = sum(row.seconds for row in account.fusions) + account.other_fusions.seconds
    assert seconds == pytest.approx(region.predicted.compute_seconds)


def test_what_a_region_keeps_inside_is_in_memory() -> None:
    def wide(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
        kept = [jnp.tanh((x * n) @ w) for n in range(1, 5)]
        return jax.lax.psum(sum(jnp.sort(one) for one in reversed(kept)) @ v, "model")

    inner = X.shape[0] // DATA * W.shape[1] // MODEL * 4
    more = planned(in_region(wide), device="a100-40gb").predicted.peak_bytes
    less = planned(in_region(summed), device="a100-40gb").predicted.peak_bytes
    assert more >= less + 2 * inner


def test_a_region_in_a_loop_runs_as_often_as_the_loop(region: Plan) -> None:
    def repeated(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
        step = in_region(summed)
        return jax.lax.fori_loop(0, 6, lambda _, y: step(y, w, v), x)

    ((_, _, count, size),) = sent(planned(repeated))
    ((_, _, one, bytes_of_one),) = sent(region)
    assert (count, size) == (6 * one, 6 * bytes_of_one)


@pytest.mark.parametrize(
    ("kind", "axes", "body"),
    [
        ("all_gather", ["data"], partial(jax.lax.all_gather, axis_name="data", tiled=True)),
        ("reduce_scatter", ["model"], partial(jax.lax.psum_scatter, axis_name="model", tiled=True)),
        (
            "all_to_all",
            ["model"],
            partial(jax.lax.all_to_all, axis_name="model", split_axis=1, concat_axis=0, tiled=True),
        ),
        (
            "collective_permute",
            ["data"],
            partial(jax.lax.ppermute, axis_name="data", perm=[(0, 1), (1, 0)]),
        ),
        ("all_reduce", ["data", "model"], partial(jax.lax.psum, axis_name=("data", "model"))),
    ],
)
def test_every_collective_of_a_region_is_found(
    kind: str, axes: list[str], body: Callable[[jax.Array], jax.Array]
) -> None:
    def step(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
        return body(jnp.sin(x))

    plan = planned(in_region(step, out_specs=P(("data", "model"))), PINS[:1])
    assert [(one.kind, list(one.axes)) for one in plan.collectives] == [(kind, axes)]
    local = X.size // DATA * 4
    assert plan.collectives[0].bytes <= 2 * DATA * local
