"""Small steps with repeated layers, and how they are run whole and as pipelines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from toast.analysis.forms import decode
from toast.analysis.load import load
from toast.schedules.orders import make_schedule
from toast.stages.cut import CutProgram, Cutting, cut_program
from toast.stages.files import write_pipeline
from toast.stages.run import PipelineRunner

LAYERS, WIDTH, BATCH, VOCABULARY = 4, 8, 8, 12
Step = Callable[..., Any]


def weights(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def block(weight: Any, x: Any) -> Any:
    """A residual layer with a norm."""
    normed = (x - x.mean(-1, keepdims=True)) * weight["scale"]
    return x + jax.nn.relu(normed @ weight["up"]) @ weight["down"]


def layers() -> list[dict[str, Any]]:
    return [
        {"scale": weights(WIDTH), "up": weights(WIDTH, 16), "down": weights(16, WIDTH)}
        for _ in range(LAYERS)
    ]


def forward(params: Any, tokens: Any) -> Any:
    """A model whose first and last weight are one."""
    x = params["embedding"][tokens]
    for weight in params["layers"]:
        x = block(weight, x)
    return x @ params["embedding"].T


def loss(params: Any, tokens: Any, targets: Any) -> Any:
    logits = jax.nn.log_softmax(forward(params, tokens))
    return -jnp.take_along_axis(logits, targets[:, None], 1).mean()


def clipped_step(state: Any, tokens: Any, targets: Any) -> Any:
    """Momentum on gradients that are clipped by the norm of all of them."""
    value, gradients = jax.value_and_grad(loss)(state["params"], tokens, targets)
    norm = jnp.sqrt(sum(jnp.sum(one**2) for one in jax.tree.leaves(gradients)))
    scale = jnp.minimum(1.0, 0.1 / norm)
    trace = jax.tree.map(lambda old, new: 0.9 * old + scale * new, state["trace"], gradients)
    params = jax.tree.map(lambda old, new: old - 0.1 * new, state["params"], trace)
    return {"params": params, "trace": trace, "count": state["count"] + 1}, value, norm


def parameters() -> dict[str, Any]:
    return {"embedding": weights(VOCABULARY, WIDTH), "layers": layers()}


def tokens() -> Any:
    return jax.ShapeDtypeStruct((BATCH,), jnp.int32)


def training() -> tuple[Step, tuple[Any, ...]]:
    """The step, and the shapes of its arguments."""
    count = jax.ShapeDtypeStruct((), jnp.int32)
    state = {"params": parameters(), "trace": parameters(), "count": count}
    return clipped_step, (state, tokens(), tokens())


def inference() -> tuple[Step, tuple[Any, ...]]:
    return forward, (parameters(), tokens())


STEPS = {"training": training, "inference": inference}


def text_of(name: str) -> bytes:
    """The StableHLO of a step of this file."""
    step, arguments = STEPS[name]()
    return jax.jit(step).lower(*arguments).as_text(debug_info=True).encode()


def values(name: str) -> Any:
    """Arguments of a step, drawn."""
    generator = np.random.default_rng(0)

    def draw(one: Any) -> Any:
        if one.dtype == jnp.int32:
            return np.asarray(generator.integers(0, VOCABULARY, one.shape), np.int32)
        return np.asarray(generator.standard_normal(one.shape) * 0.3, np.float32)

    return jax.tree.map(draw, STEPS[name]()[1])


def cut(name: str, cutting: Cutting) -> CutProgram:
    """A step of this file in stages."""
    text = text_of(name)
    names = [argument.name for argument in load(text).program.arguments]
    return cut_program(decode(text).module, names, cutting)


def deviation(name: str, cutting: Cutting, schedule: str, folder: Path) -> float:
    """How far the results of a pipeline are from those of the step, relative to the largest."""
    made = cut(name, cutting)
    order = make_schedule(
        schedule,
        cutting.stages,
        cutting.microbatches,
        chunks=cutting.chunks,
        training=made.program.training,
    )
    write_pipeline(folder, made.program, made.texts(), order)
    arguments = values(name)
    runner = PipelineRunner(folder)
    runner.step(jax.tree.leaves(arguments))
    got = runner.step(jax.tree.leaves(arguments))
    expected = jax.tree.leaves(jax.jit(STEPS[name]()[0])(*arguments))
    return max(_relative(one, other) for one, other in zip(expected, got, strict=True))


def _relative(expected: Any, got: Any) -> float:
    one, other = np.asarray(expected, np.float64), np.asarray(got, np.float64)
    assert one.shape == other.shape
    return float(np.abs(one - other).max() / max(1e-3, np.abs(one).max()))
