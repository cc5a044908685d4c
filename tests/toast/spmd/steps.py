"""Steps whose layers are scanned, and how they are run whole and as a pipeline in one module."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jaxlib.mlir import ir

import toast
from examples.forms import serialize
from examples.models import gpt, t2b
from tests.toast.microbatch.steps import drawn, lowered
from toast.analysis.forms import decode
from toast.costmodel.network.mesh import Mesh
from toast.spmd.layouts import Layout, LayoutPlanner, LayoutsBeside
from toast.spmd.rewrite import SpmdPipeline, pipeline_module
from toast.verify import execution

LAYERS, WIDTH, BATCH = 4, 8, 8
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How far a pipeline is off, and what XLA made of it."""

    deviation: float
    permutes: int
    bytes_of_stacks: int
    bytes_of_parts: int
    loops: int
    arguments: tuple[Layout, ...]
    bytes_of_arguments: int
    bytes_by_layouts: int


def like(*shape: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


def scan(layer: Callable[[Any, Any], Any], x: Any, weights: Any, **settings: Any) -> Any:
    return jax.lax.scan(lambda carry, weight: (layer(carry, weight), None), x, weights, **settings)[
        0
    ]


def training(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Plain gradient descent; the loss is a result too."""

    def step(weights: Any, *batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, *batch)
        return jax.tree.map(lambda one, other: one - 0.1 * other, weights, gradients), value

    return step


def forward(weights: Any, x: Any) -> Any:
    return scan(lambda x, weight: jnp.tanh(x @ weight), x, weights)


def numbered(weights: Any, x: Any) -> Any:
    """Each layer computes with its number."""

    def layer(carry: Any, both: Any) -> Any:
        number, weight = both
        return jnp.tanh(carry @ weight) * (1.0 + number)

    return scan(layer, x, (jnp.arange(LAYERS, dtype=jnp.float32), weights))


def counted(weights: Any, x: Any) -> Any:
    """The number of the layer is handed from layer to layer."""

    def layer(carry: Any, weight: Any) -> Any:
        x, key = carry
        return jnp.tanh(x @ weight) * (1.0 + key.sum()), key * 2 + 1

    return scan(layer, (x, jnp.ones(2)), weights)


def indexed(weights: Any, x: Any) -> Any:
    """A loop that takes its weights, and computes, by its counter."""

    def layer(number: Any, carry: Any) -> Any:
        return jnp.tanh(carry @ weights[number]) * (number + 1)

    return jax.lax.fori_loop(0, LAYERS, layer, x)


def shared_loss(weights: Any, x: Any) -> Any:
    """All layers read one bias, and add to a sum over the batch."""
    stacked, bias = weights

    def layer(carry: Any, weight: Any) -> Any:
        x, penalty = carry
        x = x + jnp.tanh(x @ weight + bias)
        return x, penalty + jnp.square(x).sum()

    x, penalty = scan(layer, (x, jnp.zeros(())), stacked)
    return x.mean() + 0.01 * penalty


def mixed_loss(weights: Any, x: Any, mask: Any) -> Any:
    """Layers that are computed in bf16, with a mask of the batch, before and behind other work."""

    def layer(x: Any, weight: Any) -> Any:
        return x + jnp.where(mask[:, None], jnp.tanh(x @ weight.astype(jnp.bfloat16)), 0)

    made = scan(layer, (x * 2).astype(jnp.bfloat16), weights)
    return jnp.square(made.astype(jnp.float32)).mean()


def backwards(weights: Any, x: Any) -> Any:
    """The last layer first."""
    return scan(lambda x, weight: jnp.tanh(x @ weight), x, weights, reverse=True)


def from_zeros(weights: Any, x: Any) -> Any:
    """The first layer gets zeros; the batch comes in beside."""
    return scan(lambda h, weight: jnp.tanh(h @ weight + x), jnp.zeros_like(x), weights)


def plain_loss(weights: Any, x: Any) -> Any:
    return jnp.square(forward(weights, x)).mean()


def checkpointed_loss(weights: Any, x: Any) -> Any:
    layer = jax.checkpoint(lambda x, weight: jnp.tanh(x @ weight))
    return jnp.square(scan(layer, x, weights)).mean()


def with_data(weights: Any, x: Any, steps: Any) -> Any:
    """A loop over data before that over layers; it begins with zeros, and mixes examples."""
    first = scan(lambda x, step: x + step - step.mean(), jnp.zeros_like(x), steps)
    return forward(weights, x + first)


STACK, X = like(LAYERS, WIDTH, WIDTH), like(BATCH, WIDTH)
STEPS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "forward": (forward, (STACK, X)),
    "numbered": (numbered, (STACK, X)),
    "counted": (counted, (STACK, X)),
    "indexed": (indexed, (STACK, X)),
    "backwards": (backwards, (STACK, X)),
    "zeros": (from_zeros, (STACK, X)),
    "data": (with_data, (STACK, X, like(3, BATCH, WIDTH))),
    "plain": (training(plain_loss), (STACK, X)),
    "checkpointed": (training(checkpointed_loss), (STACK, X)),
    "shared": (training(shared_loss), ((STACK, like(WIDTH)), X)),
    "mixed": (training(mixed_loss), (STACK, X, like(BATCH, dtype=jnp.bool_))),
}


def module_of(name: str) -> bytes:
    """The StableHLO of a step of this file, or of a model with four scanned layers."""
    if name in STEPS:
        step, arguments = STEPS[name]
        return lowered(step, *arguments).encode()
    model: Any = {"gpt": gpt, "t2b": t2b}[name]
    config = replace(model.PRESETS["tiny"], layers=LAYERS, scan=True)
    return serialize(model.MODEL.make_step(config), "bytecode")


def split_by(last: tuple[str, ...], batch: tuple[str, ...]) -> Callable[[bytes], LayoutPlanner]:
    """A planner that shares the last dimension of all matrices of weights, and the batch."""

    def layout(shape: tuple[int, ...]) -> Layout:
        if shape[:1] == (LAYERS,):
            return (*[()] * (len(shape) - 1), last if len(shape) > 2 else ())
        return tuple(batch if dim == 0 and shape[0] == BATCH else () for dim in range(len(shape)))

    def of(data: bytes) -> LayoutPlanner:
        main: Any = ir.SymbolTable(decode(data).module.operation)["main"]
        given, made = (
            [layout(tuple(ir.RankedTensorType(kind).shape)) for kind in kinds]
            for kinds in (main.type.inputs, main.type.results)
        )

        def plan(pins: Mapping[int, Layout]) -> LayoutsBeside:
            arguments = [pins.get(number, one) for number, one in enumerate(given)]
            return LayoutsBeside(arguments=tuple(arguments), results=tuple(made))

        return plan

    return of


PLANNERS: dict[str, Callable[[bytes], LayoutPlanner]] = {
    "weights over model": split_by(("model",), ("data",)),
    "weights over both": split_by(("data", "model"), ("data",)),
    "a batch that is too small": split_by((), ("data", "model")),
}


def outcome(name: str, mesh: str, count: int, planner: str | None = None) -> Outcome:
    """Run a step whole on one device, and as a pipeline on all of a mesh."""
    data, devices = module_of(name), Mesh.parse(mesh)
    inputs = drawn(data)
    whole = execution.compile_module(decode(data).module, 1)
    expected = execution.run_original(whole, inputs)
    module = decode(data).module
    found = None if planner is None else PLANNERS[planner](data)
    made = pipeline_module(module, devices, "pipe", count, found)
    executable = execution.compile_module(module, devices.devices)
    got = _run(executable, devices, made, inputs, expected)
    own = executable.get_compiled_memory_stats().argument_size_in_bytes
    stacks = [
        one.nbytes
        for one, spec in zip(inputs, made.arguments, strict=True)
        if ("pipe",) in spec
    ]  # fmt: skip
    parts = own - sum(one.nbytes for one in inputs) + sum(stacks)  # less where the batch is shared
    return Outcome(
        deviation=max(_relative(one, other) for one, other in zip(expected, got, strict=True)),
        permutes=execution.collectives_of(executable).get("collective_permute", 0),
        bytes_of_stacks=sum(stacks),
        bytes_of_parts=parts,
        loops=len(made.loops),
        arguments=made.arguments,
        bytes_of_arguments=own,
        bytes_by_layouts=sum(
            one.nbytes // _shares(spec, devices)
            for one, spec in zip(inputs, made.arguments, strict=True)
        ),
    )


def _shares(spec: Layout, mesh: Mesh) -> int:
    sizes = {axis.name: axis.size for axis in mesh.axes}
    return math.prod(sizes[name] for axes in spec for name in axes)


def _run(
    executable: Any, mesh: Mesh, made: SpmdPipeline, inputs: list[Array], like: list[Array]
) -> list[Array]:
    sizes, names = zip(*((axis.size, axis.name) for axis in mesh.axes), strict=True)
    grid = jax.sharding.Mesh(np.array(jax.devices()[: mesh.devices]).reshape(sizes), names)

    def layout(spec: Any) -> NamedSharding:
        return NamedSharding(grid, execution.partition_spec(spec))

    given = [
        jax.device_put(value, layout(spec))
        for value, spec in zip(inputs, made.arguments, strict=True)
    ]
    results = executable.execute_sharded(given).disassemble_into_single_device_arrays()
    return [
        np.asarray(jax.make_array_from_single_device_arrays(one.shape, layout(spec), parts))
        for one, spec, parts in zip(like, made.results, results, strict=True)
    ]


def _relative(expected: Array, got: Array) -> float:
    one, other = np.asarray(expected, np.float64), np.asarray(got, np.float64)
    return float(np.abs(one - other).max() / max(1e-3, np.abs(one).max()))


def deviation_of_export() -> float:
    """A step that `jax.export` wrote, planned by users' means and called by JAX on a mesh."""
    step, arguments = STEPS["plain"]
    exported = jax.export.export(jax.jit(step))(*arguments)
    mesh = "pipe=2,data=2,model=2"
    with TemporaryDirectory() as folder:
        toast.plan_spmd(exported, folder, mesh=mesh, microbatches=4, rollouts=50)
        blob = (Path(folder) / "sharded.jax_export").read_bytes()
    made = jax.export.deserialize(bytearray(blob))
    names = ("pipe", "data", "model")
    grid = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(2, 2, 2), names)
    random = np.random.default_rng(0)
    given = [random.normal(size=one.shape).astype(one.dtype) for one in arguments]
    call = jax.jit(made.call, in_shardings=made.in_shardings_jax(grid))
    pairs = zip(jax.tree.leaves(jax.jit(step)(*given)), jax.tree.leaves(call(*given)), strict=True)
    return max(_relative(np.asarray(one), np.asarray(other)) for one, other in pairs)
