"""The process that measures: `python -m toast.calibrate.child DEVICES [--quick]`.

Emits one `machine` event, then a `sample` event for each microbenchmark. Each runs several times in
a row within one program, that the compiler may not shorten; the time is that of the quickest run.
Virtual devices share the processors of one host, so each op runs on all of them at once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain as chain_of
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import psutil
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from toast.analysis.errors import InvalidRequest
from toast.costmodel.calibration import Sample
from toast.process.messages import Emitter, complete, leave

DTYPES = {
    "bf16": jnp.bfloat16,
    "f16": jnp.float16,
    "f32": jnp.float32,
    "f64": jnp.float64,
    "i8": jnp.int8,
}
_CHAIN = 8
"""How often a program does what is measured, so that starting it weighs little."""
_ENOUGH = 0.5
"""Seconds of a program after which no larger size is tried, and four times that no more runs."""


def seconds(program: Callable[..., Any], x: Any, *, quick: bool) -> float:
    """Of the quickest of several runs, each with its result waited for; without compilation."""
    jax.block_until_ready(program(x))
    times: list[float] = []
    while len(times) < (5 if quick else 20) and sum(times) < 4 * _ENOUGH:
        started = time.perf_counter()
        jax.block_until_ready(program(x))
        times.append(time.perf_counter() - started)
    return min(times)


def chain(step: Callable[[Any], Any], count: int = _CHAIN) -> Callable[[Any], Any]:
    """A program that does `step` so often, each on the result of the one before."""

    def program(x: Any) -> Any:
        for _ in range(count):
            x = lax.optimization_barrier(step(x))
        return x

    return program


@dataclass(frozen=True, slots=True)
class OnEach:
    """Runs a step on each of some devices at once, every one with data of its own."""

    devices: tuple[Any, ...]
    quick: bool

    def spent(self, step: Callable[[Any], Any], shape: tuple[int, ...], dtype: Any) -> float:
        """Seconds until the last device has done the step on an array of this shape."""
        mesh = Mesh(np.array(self.devices), ("all",))
        x = jax.device_put(
            jnp.zeros((len(self.devices) * shape[0], *shape[1:]), dtype),
            NamedSharding(mesh, P("all")),
        )
        program = jax.shard_map(
            step, mesh=mesh, in_specs=P("all"), out_specs=P("all"), check_vma=False
        )
        return seconds(jax.jit(program), x, quick=self.quick)

    def start(self, count: int) -> float:
        """Seconds until a program with so many small arguments and results has run."""
        mesh = Mesh(np.array(self.devices), ("all",))
        small = jnp.zeros((len(self.devices), 8), jnp.float32)
        given = [jax.device_put(small, NamedSharding(mesh, P("all"))) for _ in range(count)]
        return seconds(jax.jit(lambda some: [x + 1 for x in some]), given, quick=self.quick)

    def sample(
        self,
        step: Callable[[Any], Any],
        shape: tuple[int, ...],
        dtype: Any,
        **fields: Any,
    ) -> Sample:
        """One step of a chain of them."""
        spent = self.spent(chain(step), shape, dtype)
        return _sample(spent=spent, devices=len(self.devices), **fields)


def single(devices: Sequence[Any], *, quick: bool) -> Iterator[Sample]:
    """Microbenchmarks of one device: the first, or of all at once where they share a host."""
    shared = devices[0].platform == "cpu"
    each = OnEach(tuple(devices if shared else devices[:1]), quick)
    sizes = (64, 128, 256) if quick else (256, 512, 1024, 2048, 4096, 8192)
    for name, dtype in DTYPES.items():
        yield from growing(partial(_matmul, each, name, dtype), sizes)
    if len(each.devices) > 1:
        alone = OnEach(each.devices[:1], quick)
        yield from growing(partial(_matmul, alone, "f32", DTYPES["f32"]), sizes)
    # Copies are of more than a cache holds; elements are counted where caches hold them.
    yield from growing(partial(_copy, each), (16, 18, 20, 22) if quick else (24, 25, 26, 27))
    yield from growing(partial(_elements, each), (14, 16, 18, 20, 22))
    for count in (4, 16, 64, 256):
        spent = each.spent(chain(lambda x: x @ x, count), (8, 8), jnp.float32)
        yield Sample(
            bench="ops",
            what="f32",
            work=float(count),
            seconds=spent,
            starts=1.0,
            devices=len(each.devices),
        )

    for count in (1, 8, 64):
        yield Sample(
            bench="buffers",
            what="f32",
            work=2.0 * count,
            seconds=each.start(count),
            starts=1.0,
            devices=len(each.devices),
        )


def _matmul(each: OnEach, name: str, dtype: Any, size: int) -> Sample:
    result = jnp.int32 if name == "i8" else dtype
    product = partial(jnp.matmul, preferred_element_type=result)
    return each.sample(
        lambda x: product(x, x).astype(dtype),
        (size, size),
        dtype,
        bench="matmul",
        what=name,
        work=2.0 * size**3,
    )


def _copy(each: OnEach, power: int) -> Sample:
    size = 1 << power
    return each.sample(
        lambda x: x + 1, (size,), jnp.float32, bench="copy", what="f32", work=8.0 * size
    )


def _elements(each: OnEach, power: int) -> Sample:
    size = 1 << power
    return each.sample(
        lambda x: x + 1, (size,), jnp.int8, bench="elementwise", what="i8", work=float(size)
    )


def _sample(*, spent: float, **fields: Any) -> Sample:
    """One step of a program of `_CHAIN` steps."""
    return Sample(seconds=spent / _CHAIN, starts=1.0 / _CHAIN, **fields)


def collectives(devices: list[Any], *, quick: bool) -> Iterator[Sample]:
    """Each kind, over all devices and over smaller groups at once, at several sizes."""
    count = len(devices)
    groups = sorted({2, count} if quick else {n for n in (2, 4, count) if count % n == 0})
    for group in groups if count > 1 else ():
        mesh = Mesh(np.array(devices).reshape(-1, group), ("outer", "inner"))
        powers = (10, 14, 18) if quick else (10, 14, 18, 20, 22, 24)
        for name in STEPS:
            yield from growing(partial(_collective, mesh, name, quick=quick), powers)


def growing(measure: Callable[[int], Sample], sizes: Iterable[int]) -> Iterator[Sample]:
    """One measurement at ever larger sizes, until it takes long enough."""
    for size in sizes:
        sample = measure(size)
        yield sample
        if sample.seconds * _CHAIN > _ENOUGH:
            return


def _collective(mesh: Mesh, name: str, power: int, *, quick: bool) -> Sample:
    """One kind; each device has about 2^`power` floats on the larger side."""
    group, step = mesh.shape["inner"], STEPS[name]
    elements = (1 << power) // group * group

    spec = P(("outer", "inner"))
    program = chain(lambda x: step(x, group))
    sharded = jax.shard_map(program, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    x = jax.device_put(
        jnp.zeros(elements * mesh.devices.size, jnp.float32), NamedSharding(mesh, spec)
    )
    return _sample(
        bench="collective",
        what=name,
        work=4.0 * elements,
        spent=seconds(jax.jit(sharded), x, quick=quick),
        devices=mesh.devices.size,
        group=group,
    )


def _all_gather(x: Any, group: int) -> Any:
    mine = x[: x.size // group]
    return lax.all_gather(mine, "inner", tiled=True)


def _reduce_scatter(x: Any, _group: int) -> Any:
    mine = lax.psum_scatter(x, "inner", tiled=True)
    return lax.dynamic_update_slice(x, mine, (0,))


def _permute(x: Any, group: int) -> Any:
    return lax.ppermute(x, "inner", [(n, (n + 1) % group) for n in range(group)])


STEPS: dict[str, Callable[..., Any]] = {
    "all_reduce": lambda x, _: lax.psum(x, "inner"),
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": lambda x, _: lax.all_to_all(x, "inner", 0, 0, tiled=True),
    "collective_permute": _permute,
}


def machine(devices: list[Any]) -> dict[str, Any]:
    """What was measured; the memory of a CPU's devices is the host's, shared."""
    memory = psutil.virtual_memory().total // len(devices) if devices[0].platform == "cpu" else None
    return {
        "platform": devices[0].platform,
        "device_kind": devices[0].device_kind,
        "devices": len(devices),
        "jax": jax.__version__,
        "memory_bytes": memory,
    }


def measure(count: int, emitter: Emitter, *, quick: bool) -> None:
    """All microbenchmarks on `count` devices, 0 for all; raises `InvalidRequest` for too many."""
    devices = list(jax.devices())
    if count > len(devices):
        raise InvalidRequest(
            f"JAX finds {len(devices)} devices, not {count}.", "Ask for fewer with --devices."
        )
    devices = devices[: count or len(devices)]
    emitter.emit("machine", **machine(devices))
    for sample in chain_of(single(devices, quick=quick), collectives(devices, quick=quick)):
        emitter.emit("sample", **{name: getattr(sample, name) for name in Sample.__slots__})


def main(arguments: list[str]) -> int:
    """The whole process; returns its exit code."""
    devices, quick = int(arguments[0]), "--quick" in arguments[1:]
    return complete(
        lambda emitter: measure(devices, emitter, quick=quick),
        (jax.errors.JaxRuntimeError, RuntimeError, TypeError),
        lambda reason: InvalidRequest(
            f"The measurement failed: {reason}",
            "Check that JAX works on this machine, or choose another --platform.",
        ),
    )


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
