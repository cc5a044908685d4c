"""Plans of steps in microbatches: what is written, recorded, said and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from tests.examples.variants import module_of
from tests.toast.microbatch.steps import lowered
from toast.analysis.errors import InvalidRequest
from toast.pipeline.plan_module import make_plan
from toast.pipeline.write_result import write_result
from toast.plans.choices import request_of
from toast.plans.page.document import report_html
from toast.plans.plan import Plan
from toast.plans.result import PlanResult
from toast.request.settings import make_request
from toast.verify.verification import verify


@pytest.fixture(scope="module")
def gpt() -> bytes:
    return module_of(("gpt", "tiny", True))


def planned(module: bytes, **settings: Any) -> PlanResult:
    request = make_request(
        mesh="data=2,model=4", device="tpu-v5e", rollouts=300, threads=1, advice=False, **settings
    )
    return make_plan(module, request)


def test_a_plan_in_microbatches_agrees_with_the_step(gpt: bytes, tmp_path: Path) -> None:
    """The sharded loop on eight virtual devices, against the step as it came."""
    result = planned(gpt, microbatches=4, pins=("batch/**=data,None,None",))
    assert result.plan.time is not None
    write_result(tmp_path, result)
    (tmp_path / "original.mlirbc").write_bytes(gpt)
    found = verify(tmp_path)
    assert found.verdict == "equal"
    assert found.collectives, "the batch is sharded, so gradients are summed over devices"


def test_the_record_says_what_the_loop_carries(gpt: bytes) -> None:
    plan = planned(gpt, microbatches=4).plan
    time = plan.time
    assert time is not None
    assert (time.argument, time.dimension, time.size) == ("batch['inputs']", 0, 8)
    assert time.arguments == ["batch['inputs']", "batch['targets']"]
    assert time.microbatches == 4
    parameters = sum(4 * _elements(one.shape) for one in plan.arguments if "['params']" in one.name)
    loss = 4
    assert time.sum_bytes == parameters + loss
    assert Plan.from_json(plan.to_json()) == plan
    assert "runs in 4 microbatches of 2" in str(plan)
    assert "runs in 4 microbatches of 2" in report_html(plan)
    assert request_of(plan, 1).microbatches == 4


def wide_step() -> bytes:
    """A step whose activations take most of the memory, and more than is on a chip."""
    x = jax.ShapeDtypeStruct((2**22, 64), jnp.float32)

    def step(ws: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def loss(ws: jax.Array) -> jax.Array:
            h, _ = lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, ws)
            return (h**2).mean()

        value, grad = jax.value_and_grad(loss)(ws)
        return ws - 0.1 * grad, value

    return lowered(step, jnp.ones((6, 64, 64)), x).encode()


def layered_step(*, centred: bool = False) -> bytes:
    """A step of which a v5e keeps 16 GiB, and somewhat less if it computes some of it again.

    Where `centred`, each layer needs the mean of the whole batch.
    """
    x = jax.ShapeDtypeStruct((2**26, 64), jnp.float32)

    def step(ws: list[jax.Array], x: jax.Array) -> tuple[list[jax.Array], jax.Array]:
        def loss(ws: list[jax.Array]) -> jax.Array:
            h = x
            for w in ws:
                h = jax.nn.gelu(h @ w)
                h = h - h.mean(0) if centred else h
            return (h**2).mean()

        value, grads = jax.value_and_grad(loss)(ws)
        return [w - 0.1 * grad for w, grad in zip(ws, grads, strict=True)], value

    return lowered(step, [jnp.ones((64, 64))] * 6, x).encode()


def test_a_step_that_does_not_fit_gets_parts() -> None:
    """Of `fit`: nothing is tried where a layout fits, and parts where none does."""
    module = wide_step()
    roomy = planned(module, fit=True).plan
    assert roomy.fits
    assert roomy.time is None
    least = planned(module, memory=2**20).plan.predicted.peak_bytes
    tight = planned(module, memory=int(least * 0.8), fit=True, recompute=("none",)).plan
    time = tight.time
    assert time is not None
    assert not time.tried[0].fits
    assert time.tried[0].microbatches == 1
    (chosen,) = [row for row in time.tried if row.chosen]
    assert chosen.fits
    assert chosen.microbatches == time.microbatches > 1
    assert tight.fits
    assert "Rewritings that were tried" in str(tight)


def test_parts_that_are_too_few_are_not_tried() -> None:
    """Arguments stay as they are; at best all else is divided by the number of parts."""
    module = wide_step()
    given = 2**22 * 64 * 4 // 8
    least = planned(module, memory=2**20).plan.predicted.peak_bytes
    memory = given + (least - given) // 6
    plan = planned(module, memory=memory, fit=True, recompute=("none",)).plan
    assert plan.fits
    assert plan.time is not None
    assert [row.microbatches for row in plan.time.tried][:2] == [1, 8]


def test_a_step_that_only_pressing_would_fit_gets_parts() -> None:
    """Plans that lean on the compiler are taken where `fit` is not asked for."""
    module = layered_step()
    pressed = planned(module).plan
    assert pressed.fits
    assert pressed.time is None
    assert any("expected to press it" in text for text in pressed.warnings)
    roomy = planned(module, fit=True).plan
    assert roomy.fits
    assert roomy.time is not None
    assert not any("expected to press it" in text for text in roomy.warnings)


def test_a_step_that_has_to_be_pressed_stays_as_it_is() -> None:
    """Where no rewriting has room, the plan that leans on the compiler is the answer."""
    plan = planned(layered_step(centred=True), fit=True).plan
    assert plan.fits
    assert plan.time is None
    assert plan.recompute is None
    assert any("expected to press it" in text for text in plan.warnings)
    assert any("tried has room for all" in text for text in plan.warnings)


def test_what_cannot_fit_is_not_tried(gpt: bytes) -> None:
    """Arguments alone above the memory, or with the sums: what is written would not fit either."""
    whole = planned(gpt, memory=2**30).plan
    given = sum(4 * _elements(one.shape) for one in whole.arguments) // 8
    plan = planned(gpt, memory=f"{given // 2}B", fit=True).plan
    assert plan.time is None
    assert plan.recompute is None
    assert any("No rewriting was tried" in text for text in plan.warnings)
    plan = planned(gpt, memory=f"{given + 1024}B", microbatches="auto").plan
    assert plan.time is None
    assert any("Microbatches were not tried" in text for text in plan.warnings)


def test_the_fastest_that_fits_is_taken(gpt: bytes) -> None:
    """With room for all, parts only cost time."""
    plan = planned(gpt, microbatches="auto").plan
    assert plan.fits
    assert plan.time is None
    assert any("the step stays as it is" in text for text in plan.warnings)


def test_an_export_stays_one(tmp_path: Path) -> None:
    def step(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, grad = jax.value_and_grad(lambda w: (jnp.tanh(x @ w) ** 2).mean())(w)
        return w - grad, loss

    exported = jax.export.export(jax.jit(step))(jnp.ones((8, 8)), jnp.ones((16, 8)))
    data = bytes(exported.serialize())
    result = planned(data, microbatches=2)
    assert result.suffix == ".jax_export"
    again = jax.export.deserialize(bytearray(result.module))
    assert "while" in again.mlir_module()
    assert list(map(str, again.in_avals)) == list(map(str, exported.in_avals))


def test_an_export_of_scanned_layers_runs_in_parts() -> None:
    """Exports keep constants outside of loops, which carry them no more than before."""

    def step(ws: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def loss(ws: jax.Array) -> jax.Array:
            return (lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, ws)[0] ** 2).mean()

        value, grad = jax.value_and_grad(loss)(ws)
        return ws - grad, value

    exported = jax.export.export(jax.jit(step))(jnp.ones((3, 8, 8)), jnp.ones((16, 8)))
    plan = planned(bytes(exported.serialize()), microbatches=2).plan
    assert plan.time is not None
    assert plan.time.microbatches == 2


def test_a_batch_is_named_by_the_request(gpt: bytes) -> None:
    plan = planned(gpt, microbatches=2, batch="batch/targets:0").plan
    assert plan.time is not None
    assert plan.time.size == 8
    with pytest.raises(InvalidRequest, match="names dimension 7"):
        planned(gpt, microbatches=2, batch="batch/targets:7")
    with pytest.raises(InvalidRequest, match="5 parts do not divide"):
        planned(gpt, microbatches=5)


def test_what_is_blocked_says_which_op() -> None:
    def step(w: jax.Array, x: jax.Array) -> jax.Array:
        def loss(w: jax.Array) -> jax.Array:
            h = x @ w
            return ((h - h.mean(0)) ** 2).sum()

        return w - jax.grad(loss)(w)

    module = lowered(step, jnp.ones((8, 32)), jnp.ones((16, 8))).encode()
    with pytest.raises(InvalidRequest, match=r"stablehlo.subtract .* at .*test_planning.py:"):
        planned(module, microbatches=2)
    plan = planned(module, microbatches="auto").plan
    assert plan.time is None
    assert any("cannot run in microbatches" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"microbatches": 0}, "'microbatches' is out of range"),
        ({"microbatches": "many"}, "'microbatches' is out of range"),
        ({"batch": "x:0"}, "'batch' goes with"),
        ({"microbatches": 4, "fit": True}, "Give one of the two"),
        ({"microbatches": "auto", "decisions": ("a=b",)}, "look for one"),
        ({"accumulate": "f16"}, "'accumulate' is out of range"),
    ],
)
def test_settings_that_will_not_do(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        make_request(mesh="data=2", device="tpu-v5e", **settings)


def _elements(shape: list[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found
