"""Modules compiled and run on virtual CPU devices. XLA may end the process."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jax._src.lib import xla_client
from jax.sharding import NamedSharding, PartitionSpec
from jaxlib.mlir import ir

from toast.analysis.errors import InvalidModule
from toast.plans.plan import Plan, Spec, Tensor
from toast.process.lapack import load_lapack

Array = np.ndarray[Any, Any]

COLLECTIVE = re.compile(
    r"= .*? (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)


def compile_module(module: ir.Module, devices: int, **flags: Any) -> Any:
    """An executable over the first `devices` devices, partitioned by Shardy; flags of XLA."""
    chosen = jax.devices()[:devices]
    options = compiler.get_compile_options(
        num_replicas=1,
        num_partitions=devices,
        device_assignment=np.arange(devices).reshape(1, devices),
        env_options_overrides=flags or None,
    )
    build = options.executable_build_options
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = True
    client: Any = chosen[0].client
    load_lapack()
    with module.context:
        return client.compile_and_load(module, xla_client.DeviceList(tuple(chosen)), options)


def run_original(executable: Any, inputs: list[Array]) -> list[Array]:
    """The results on one device, as NumPy arrays."""
    device = jax.devices()[0]
    arguments = [jax.device_put(value, device) for value in inputs]
    results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
    return [np.asarray(shards[0]) for shards in results]


def run_sharded(executable: Any, plan: Plan, inputs: list[Array]) -> list[Array]:
    """The results on the plan's mesh, laid out and put together as the plan says."""
    sizes = [axis.size for axis in plan.mesh.axes]
    names = tuple(axis.name for axis in plan.mesh.axes)
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(sizes), names)
    arguments = [
        jax.device_put(value, NamedSharding(mesh, partition_spec(tensor.spec)))
        for value, tensor in zip(inputs, plan.arguments, strict=True)
    ]
    results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
    return [
        _assemble(tensor, NamedSharding(mesh, partition_spec(tensor.spec)), shards)
        for tensor, shards in zip(plan.results, results, strict=True)
    ]


def _assemble(tensor: Tensor, sharding: NamedSharding, shards: list[Any]) -> Array:
    shape = tuple(tensor.shape)
    expected = sharding.shard_shape(shape)
    if shards[0].shape != expected:
        raise InvalidModule(
            f"Result {tensor.index} comes back in pieces of {list(shards[0].shape)} where the plan "
            f"says {list(expected)}.",
            "The plan does not describe this module; plan it again.",
        )
    return np.asarray(jax.make_array_from_single_device_arrays(shape, sharding, shards))


def partition_spec(spec: Spec) -> PartitionSpec:
    """The JAX form of a plan's spec."""
    return PartitionSpec(*(tuple(axes) or None for axes in spec))


def collectives_of(executable: Any) -> dict[str, int]:
    """How many collectives of each kind XLA put into the partitioned program."""
    counts: dict[str, int] = {}
    for line in executable.get_hlo_text().splitlines():
        if match := COLLECTIVE.search(line):
            kind = match[1].replace("-", "_")
            counts[kind] = counts.get(kind, 0) + 1
    return counts
