"""What cannot run as a pipeline in one module is refused, and the op in the way is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from tests.toast.microbatch.steps import lowered
from tests.toast.spmd.steps import (
    BATCH,
    LAYERS,
    STACK,
    WIDTH,
    X,
    forward,
    like,
    module_of,
    scan,
    with_data,
)
from tests.toast.terminal import assert_refused
from tests.toast.terminal import toast as command
from toast.analysis.errors import InvalidRequest
from toast.analysis.forms import decode
from toast.costmodel.network.mesh import Mesh
from toast.spmd.rewrite import pipeline_module


def batch_normed(weights: Any, x: Any) -> Any:
    return scan(lambda x, weight: (x - x.mean(0)) @ weight, x, weights)


def unrolled(weights: Any, x: Any) -> Any:
    for number in range(LAYERS):
        x = x @ weights[number]
    return x


def over_time(_: Any, steps: Any) -> Any:
    """A loop whose stacks are data: not layers."""
    return scan(lambda x, step: jnp.tanh(x + step), jnp.zeros((BATCH, WIDTH)), steps)


def both_ways(weights: Any, x: Any) -> Any:
    return scan(lambda x, pair: jnp.tanh(x @ pair[0]) @ pair[1], x, (weights, weights[::-1]))


def pipelined(
    step: Callable[..., Any], mesh: str = "pipe=2", count: int = 2, given: Any = (STACK, X)
) -> Any:
    module = decode(lowered(step, *given).encode()).module
    return pipeline_module(module, Mesh.parse(mesh), "pipe", count)


def test_a_statistic_of_the_batch_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"stablehlo\.\w+ `.*test_refused\.py:\d+"):
        pipelined(batch_normed)


def test_stages_have_to_divide_the_layers() -> None:
    with pytest.raises(InvalidRequest, match="3 stages do not divide its 4 layers"):
        pipelined(forward, "pipe=3")


def test_microbatches_have_to_divide_the_batch() -> None:
    with pytest.raises(InvalidRequest, match="3 parts do not divide"):
        pipelined(forward, count=3)


def test_layers_have_to_be_scanned() -> None:
    with pytest.raises(InvalidRequest, match="No layers of this program are scanned"):
        pipelined(unrolled)


def test_a_loop_over_data_is_none_over_layers() -> None:
    with pytest.raises(InvalidRequest, match="No layers of this program are scanned"):
        pipelined(over_time, given=(STACK, like(LAYERS, BATCH, WIDTH)))


def test_a_loop_that_stays_whole_is_named() -> None:
    given = (STACK, X, like(LAYERS + 1, BATCH, WIDTH))
    (why,) = pipelined(with_data, given=given).left_out
    assert "steps.py" in why


def test_layers_that_begin_with_zeros_are_refused_by_name() -> None:
    """Nothing but zeros is handed to the first layer, and examples are mixed."""

    def mixed(weights: Any, x: Any) -> Any:
        return scan(lambda h, weight: h @ weight + x - h.mean(0), jnp.zeros_like(x), weights)

    with pytest.raises(InvalidRequest, match=r"stablehlo\.\w+ `.*test_refused\.py:\d+"):
        pipelined(mixed)


def test_weights_may_be_made_of_arguments() -> None:
    made = pipelined(both_ways)
    assert [loop.layers for loop in made.loops] == [LAYERS]
    assert made.arguments[0] == (("pipe",), (), ())


def test_the_batch_lies_over_the_other_axes_that_divide_it() -> None:
    made = pipelined(forward, "pipe=2,data=2,model=4", count=2)
    assert made.batch_axes == ("data",)
    assert made.arguments[1] == (("data",), ())


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scanned") / "step.mlirbc"
    path.write_bytes(module_of("gpt"))
    return path


def test_stages_of_scanned_layers_point_at_this_form(module: Path, tmp_path: Path) -> None:
    done = command("pipeline", module, "--stages", "2", "--microbatches", "2", "-o", tmp_path)
    assert_refused(done)
    assert "--form spmd" in done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--mesh", "pipe=2"], "needs a number of microbatches"),
        (["--mesh", "data=2", "--stages", "1", "--microbatches", "2"], "two stages or more"),
        (["--mesh", "pipe=2", "--microbatches", "2", "--chunks", "2"], "chunks cannot be given"),
        (["--mesh", "pipe=2", "--microbatches", "2", "--schedule", "1f1b"], "schedule gpipe"),
    ],
)
def test_settings_of_stages_are_refused(
    module: Path, tmp_path: Path, flags: list[str], said: str
) -> None:
    done = command("pipeline", module, *flags, "--form", "spmd", "-o", tmp_path)
    assert_refused(done)
    assert said in done.stderr
