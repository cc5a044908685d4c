"""How long the search over pipeline, data and tensor parallelism takes for a number of devices.

    python -m benchmarks.bench_pipeline [--layers N] [--devices N] [--microbatches N]

A training step of a transformer, planned in this process with warm kernels for TPU v5e. Seconds of
this process are shown beside those of the clock, which grow where others use the machine.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

from toast.analysis.forms import bytecode
from toast.pipeline.pipelining.plan_pipeline import plan_pipeline
from toast.request.pipeline_request import make_pipeline_request
from toast.search.kernel_cache import warm_kernels

WIDTH, HEADS, BATCH, SEQUENCE, VOCABULARY = 1024, 8, 64, 256, 8192


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--devices", type=int, default=64)
    parser.add_argument("--microbatches", type=int, default=8)
    given = parser.parse_args()
    warm_kernels()
    module = transformer(given.layers)
    request = make_pipeline_request(devices=given.devices, microbatches=given.microbatches)
    clock, own = time.perf_counter(), time.process_time()
    answer = plan_pipeline(module, request, lambda _, __: None).answer
    clock, own = time.perf_counter() - clock, time.process_time() - own
    table = Table("layers", "devices", "ways", "seconds", "of this process", "stages", "mesh")
    row = [given.layers, given.devices, len(answer.tried)]
    found = [str(len(answer.stages)), answer.mesh or "one chip"]
    table.add_row(*map(str, row), f"{clock:.1f}", f"{own:.1f}", *found)
    Console(width=120).print(table)


def transformer(layers: int) -> bytes:
    """The module of a training step whose layers have weights of their own."""
    part = WIDTH // HEADS
    layer = {
        "qkv": _weights(WIDTH, 3, HEADS, part),
        "out": _weights(HEADS, part, WIDTH),
        "up": _weights(WIDTH, 4 * WIDTH),
        "down": _weights(4 * WIDTH, WIDTH),
    }
    params = {
        "embed": _weights(VOCABULARY, WIDTH),
        "layers": [layer] * layers,
        "head": _weights(WIDTH, VOCABULARY),
    }
    tokens = jax.ShapeDtypeStruct((BATCH, SEQUENCE), jnp.int32)
    return bytecode(jax.jit(_step).lower(params, tokens, tokens).compiler_ir("stablehlo"))


def _weights(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _forward(params: Any, tokens: jax.Array) -> Any:
    x = params["embed"][tokens]
    for layer in params["layers"]:
        query, key, value = jnp.einsum("bsd,dchk->cbhsk", x, layer["qkv"])
        scores = jax.nn.softmax(jnp.einsum("bhsk,bhtk->bhst", query, key))
        x += jnp.einsum("bhst,bhtk,hkd->bsd", scores, value, layer["out"])
        x += jax.nn.relu(x @ layer["up"]) @ layer["down"]
    return x @ params["head"]


def _step(params: Any, tokens: jax.Array, labels: jax.Array) -> tuple[jax.Array, Any]:
    def loss(params: Any) -> Any:
        chances = jax.nn.log_softmax(_forward(params, tokens))
        return -jnp.take_along_axis(chances, labels[..., None], -1).mean()

    value, gradients = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda one, change: one - 0.1 * change, params, gradients)


if __name__ == "__main__":
    main()
