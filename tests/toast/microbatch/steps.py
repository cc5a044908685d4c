"""Small training steps whose batch is, or is not, cut; and how both are run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from toast.analysis.forms import decode
from toast.microbatch.time_axis import Accumulate, Cut, Dimension, TimeAxis

Array = np.ndarray[Any, Any]


def lowered(function: Callable[..., Any], *arguments: Any) -> str:
    """The StableHLO of a function, with the lines of the ops."""
    text: str = jax.jit(function).lower(*arguments).as_text(debug_info=True)
    return text


def cut_at(text: str | bytes, dimension: Dimension) -> Cut:
    """The proof for the batch that an argument has there."""
    data = text.encode() if isinstance(text, str) else text
    axis = TimeAxis(decode(data).module)
    return axis.cut(axis.named(dimension))


def in_parts(
    text: str | bytes, count: int, dimension: Dimension | None = None, dtype: Accumulate = "program"
) -> tuple[str, Cut]:
    """The program in so many microbatches."""
    data = text.encode() if isinstance(text, str) else text
    axis = TimeAxis(decode(data).module)
    cut = axis.best() if dimension is None else axis.cut(axis.named(dimension, count))
    made = axis.write(cut, count, dtype)
    with made.context:
        return str(made), cut


def run(text: str | bytes, inputs: list[Array]) -> list[Array]:
    """The results of a program on one device."""
    from toast.verify import execution

    data = text.encode() if isinstance(text, str) else text
    return execution.run_original(execution.compile_module(decode(data).module, 1), inputs)


def drawn(text: str | bytes, seed: int = 0) -> list[Array]:
    """Arguments of a program: small floats, and whole numbers from 0 to 2."""
    from toast.analysis.load import load

    data = text.encode() if isinstance(text, str) else text
    program = load(data).program
    generator = np.random.default_rng(seed)
    found: list[Array] = []
    for argument in program.arguments:
        shape, dtype = program.shape(argument.value), program.dtype(argument.value)
        if dtype in ("f32", "bf16"):
            values = np.abs(generator.standard_normal(shape)) * 0.1
            found.append(np.asarray(values).astype(jax.numpy.dtype(_NAMES[dtype])))
        else:
            found.append(np.asarray(generator.integers(0, 3, shape)).astype(_NAMES[dtype]))
    return found


_NAMES = {
    "bf16": "bfloat16",
    "f32": "float32",
    "i1": "bool",
    "i32": "int32",
    "ui32": "uint32",
}


def close(expected: list[Array], actual: list[Array], tolerance: float = 2e-5) -> bool:
    """Whether results differ by no more than sums in another order do."""
    pairs = [(np.asarray(one, np.float64), np.asarray(other, np.float64))
             for one, other in zip(expected, actual, strict=True)]  # fmt: skip
    return all(
        np.allclose(
            one, other, rtol=0, atol=tolerance * max(1e-6, float(np.abs(one).max(initial=0)))
        )
        for one, other in pairs
    )
