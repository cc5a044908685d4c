"""What a TPU's compiler keeps in the memory on the chip, and what that takes in main memory."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered

MARK = 384
"""Columns of the buffer that is looked at: nothing else has as many."""
SIZES = (1, 8, 16, 24, 27, 29, 32, 48, 64, 96)
"""MiB of a buffer that the next product reads."""
FILLERS = (0, 4, 8, 12, 16, 20, 24, 32)
"""Products between the making of a buffer and its last use: each takes a v5e some 90 us."""
FILLER = 2048
STACKS, STACKED = (2, 4, 8, 12, 16, 32), (64, 32, 1024)
_PLACE = re.compile(rf"= f32\[\d+,{MARK}\]{{[^}}]*}}")


def chain(length: int) -> bytes:
    """Products with weights that are fetched while earlier ones run."""

    def step(x: Any, *weights: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return x

    return lowered(step, *[(512, 512)] * (length + 1))


def training(length: int) -> bytes:
    """A step of gradient descent on such products, which takes the weights' buffers."""

    def step(weights: Any, x: Any) -> Any:
        def loss(weights: Any) -> Any:
            made = x
            for weight in weights:
                made = jnp.tanh(made @ weight)
            return (made * made).mean()

        slopes = jax.grad(loss)(weights)
        return [weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)]

    square = jax.ShapeDtypeStruct((512, 512), jnp.float32)
    return str(jax.jit(step, donate_argnums=0).lower([square] * length, square).as_text()).encode()


def handed_on(mebibytes: int) -> bytes:
    """A product that the next product reads, after a reduction that keeps them apart."""
    rows = mebibytes * 2**20 // (4 * MARK) // 8 * 8

    def step(x: Any, w: Any, v: Any) -> Any:
        made = jax.lax.optimization_barrier(x @ w)
        return made @ v, made.max(axis=0)

    return lowered(step, (rows, 128), (128, MARK), (MARK, 128))


def kept(fillers: int) -> bytes:
    """A buffer of 1 MiB that is used again behind so many products."""
    rows = 2**20 // (4 * MARK) // 8 * 8

    def step(x: Any, w: Any, v: Any, y: Any, u: Any) -> Any:
        made = jax.lax.optimization_barrier(x @ w)
        y = y + made.sum()
        for _ in range(fillers):
            y = jnp.tanh(y @ u)
        made, y = jax.lax.optimization_barrier((made, y))
        return made @ v, y

    square = (FILLER, FILLER)
    return lowered(step, (rows, 128), (128, MARK), (MARK, 128), square, square)


def stacked(stacks: int) -> bytes:
    """A loop that writes so many stacks of 8 MiB, and one that reads them all."""

    def step(x: Any, weights: Any) -> Any:
        def write(x: Any, weight: Any) -> tuple[Any, list[Any]]:
            made = [jnp.sin(x * (1.0 + n)) for n in range(stacks)]
            return jnp.tanh(x + made[0].sum() * weight), made

        def read(total: Any, made: list[Any]) -> tuple[Any, None]:
            return total + sum(one * (2.0 + n) for n, one in enumerate(made)), None

        x, made = jax.lax.scan(write, x, weights)
        return jax.lax.scan(read, x, made, reverse=True)[0]

    return lowered(step, STACKED[1:], STACKED[:1])


def stacks_on_chip(compiled: Compiled) -> list[int]:
    """How many of the stacks that the first loop carries are on the chip, and how many it has."""
    loop = next(line for line in compiled.text.splitlines() if " while(" in line)
    shape = ",".join(map(str, STACKED))
    made = re.findall(rf"f32\[{shape}\]{{[^}}]*}}", loop.split(" while(")[0])
    return [sum("S(1)" in one for one in made), len(made)]


def on_chip(compiled: Compiled) -> list[int]:
    """Of the buffers that are looked at, how many are on the chip, and how many there are."""
    made = [
        line
        for line in compiled.text.split("ENTRY ")[-1].splitlines()
        if _PLACE.search(line) and " parameter(" not in line
    ]
    there = [line for line in made if "S(1)" in _PLACE.findall(line)[0]]
    return [len(there), len(made)]


def tables(compiled: Compiled) -> dict[str, int]:
    """Bytes of main memory beside arguments and results, and what copies there are.

    A copy of a whole argument before the program starts (`prefetched`) is one of `copies`.
    """
    memory, text = compiled.verdict.memory, compiled.text
    assert memory is not None
    assert memory.main is not None
    return {
        "bytes": memory.main - memory.argument - memory.output + memory.alias,
        "copies": text.count(" copy-start("),
        "prefetched": text.count("cross_program_prefetch_index"),
        "slices": text.count(" slice-start("),
    }


PROBE = Probe(
    name="memory_space_assignment",
    figures="bytes of tables of copies; how many buffers are on the chip, and how many there are",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2"),
    cases={
        "tables of 8 products": Case.of(partial(chain, 8), tables),
        "tables of 16 products": Case.of(partial(chain, 16), tables),
        "tables of a training step": Case.of(partial(training, 8), tables),
    }
    | {f"{size} MiB handed on": Case.of(partial(handed_on, size), on_chip) for size in SIZES}
    | {f"1 MiB behind {n} products": Case.of(partial(kept, n), on_chip) for n in FILLERS}
    | {f"{n} stacks of 8 MiB": Case.of(partial(stacked, n), stacks_on_chip) for n in STACKS},
)
