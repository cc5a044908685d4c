"""The process that runs both modules: `python -m toast.verify.child DIR SEED EXECUTOR`.

It is started by `toast.verify.verification` with as many virtual CPU devices as the plan's mesh
has. The sharded module gets its arguments laid out as `plan.json` says, so a plan that does not
describe its module fails here too.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jax._src.lib import xla_client
from jax.sharding import NamedSharding, PartitionSpec
from jaxlib.mlir import ir

from toast.analysis.errors import InvalidModule
from toast.analysis.forms import Loaded, decode
from toast.plans.plan import Plan, Spec, Tensor
from toast.process.messages import Emitter, complete, leave
from toast.verify.inputs import describe_arguments, main_of, make_inputs
from toast.verify.reference.run import collectives_in, run_reference
from toast.verify.verification import (
    REFERENCE,
    Difference,
    Verification,
    find_module,
    form_of,
    read_plan,
)

Array = np.ndarray[Any, Any]

# Relative to the largest magnitude of the result. Sums in another order differ by some units in
# the last place; a wrong collective differs by far more than these.
TOLERANCE_BITS = {"float64": 2**-40, "float32": 2**-15, "float16": 2**-8, "bfloat16": 2**-5}
COLLECTIVE = re.compile(
    r"= .*? (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)


class VerifyStages:
    """Seconds by stage, announced as they start."""

    def __init__(self, emitter: Emitter) -> None:
        self.seconds: dict[str, float] = {}
        self._emitter = emitter

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        self._emitter.emit("stage", stage=name)
        started = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - started


def compile_module(loaded: Loaded, devices: int) -> Any:
    """An executable over the first `devices` devices, partitioned by Shardy."""
    chosen = jax.devices()[:devices]
    options = compiler.get_compile_options(
        num_replicas=1,
        num_partitions=devices,
        device_assignment=np.arange(devices).reshape(1, devices),
    )
    build = options.executable_build_options
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = True
    client: Any = chosen[0].client
    with loaded.module.context:
        return client.compile_and_load(loaded.module, xla_client.DeviceList(tuple(chosen)), options)


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


def compare(tensor: Tensor, expected: Array, actual: Array) -> Difference:
    """How far `actual` is from `expected`; bit-equal for what is no float."""
    dtype = expected.dtype.name
    tolerance = TOLERANCE_BITS.get(dtype, 0.0 if expected.dtype.kind in "iub" else 2**-3)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    if wide is np.complex128:
        tolerance = TOLERANCE_BITS["float32" if dtype == "complex64" else "float64"]
    first, second = expected.astype(wide), actual.astype(wide)
    both = np.isfinite(first) & np.isfinite(second)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    mismatched = int(np.count_nonzero(~both & ~same))
    largest = float(np.max(np.abs(first - second), where=both, initial=0.0))
    scale = float(np.max(np.abs(first), where=both, initial=0.0))
    relative = largest / scale if scale else (0.0 if largest == 0 else float("inf"))
    return Difference(
        index=tensor.index,
        name=tensor.name,
        shape=tensor.shape,
        dtype=tensor.dtype,
        largest=largest,
        scale=scale,
        relative=min(relative, sys.float_info.max),
        tolerance=tolerance,
        mismatched=mismatched,
        finite=bool(both.all()),
        ok=mismatched == 0 and relative <= tolerance,
    )


def check_pair(plan: Plan, original: Loaded, sharded: Loaded) -> None:
    """Both modules and the plan have to speak of the same arguments and results."""
    first, second = _signature(original.module), _signature(sharded.module)
    counts = [[len(side) for side in both] for both in (first, second)]
    local = form_of(plan) == "local"  # which has of each tensor what one device holds
    if counts[0] != counts[1] or (not local and first != second):
        raise InvalidModule(
            "The sharded module does not have the arguments and results of the original.",
            "Give the directory as `toast plan -o DIR` wrote it.",
        )
    if counts[0] != [len(plan.arguments), len(plan.results)]:
        raise InvalidModule(
            "plan.json does not describe this module.",
            "Give the directory as `toast plan -o DIR` wrote it.",
        )


def _signature(module: ir.Module) -> tuple[list[str], list[str]]:
    kind = ir.FunctionType(ir.TypeAttr(main_of(module).attributes["function_type"]).value)
    return [str(t) for t in kind.inputs], [str(t) for t in kind.results]


def collectives_of(executable: Any) -> dict[str, int]:
    """How many collectives of each kind XLA put into the partitioned program."""
    counts: dict[str, int] = {}
    for line in executable.get_hlo_text().splitlines():
        if match := COLLECTIVE.search(line):
            kind = match[1].replace("-", "_")
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def run_planned(
    module: Loaded, plan: Plan, inputs: list[Array], executor: str, stages: VerifyStages
) -> tuple[list[Array], dict[str, int]]:
    """The results of the sharded module, and how many collectives of each kind it has."""
    if executor == REFERENCE:
        with stages.stage("run the sharded module device by device"):
            return run_reference(module, plan, inputs), collectives_in(module)
    with stages.stage("compile the sharded module"):
        parallel = compile_module(module, len(jax.devices()))
    with stages.stage("run the sharded module"):
        return run_sharded(parallel, plan, inputs), collectives_of(parallel)


def verify_directory(directory: Path, seed: int, executor: str, emitter: Emitter) -> Verification:
    """Load, compile and run both modules, then compare."""
    stages = VerifyStages(emitter)
    with stages.stage("load"):
        plan = read_plan(directory)
        original = decode(find_module(directory, "original").read_bytes())
        sharded = decode(find_module(directory, "sharded").read_bytes())
        check_pair(plan, original, sharded)
        with original.module.context:
            inputs = make_inputs(describe_arguments(original.module), seed)
    with stages.stage("compile the original"):
        plain = compile_module(original, 1)
    with stages.stage("run the original"):
        expected = run_original(plain, inputs)
    actual, collectives = run_planned(sharded, plan, inputs, executor, stages)
    with stages.stage("compare"):
        pairs = zip(plan.results, expected, actual, strict=True)
        differences = [compare(*pair) for pair in pairs]
    return Verification(
        devices=math.prod(axis.size for axis in plan.mesh.axes),
        seed=seed,
        differences=differences,
        collectives=collectives,
        seconds=stages.seconds,
    )


def main(arguments: list[str]) -> int:
    """The whole process; returns its exit code."""
    jax.config.update("jax_enable_x64", True)  # else 64-bit inputs would be made 32-bit

    def verify(emitter: Emitter) -> None:
        directory, seed, executor = arguments
        verification = verify_directory(Path(directory), int(seed), executor, emitter)
        emitter.emit("verification", verification=verification.model_dump(mode="json"))

    return complete(
        verify,
        (jax.errors.JaxRuntimeError, ValueError),
        lambda reason: InvalidModule(
            f"XLA refuses to compile or to run the pair on virtual CPU devices: {reason}.",
            "A module with ops of one platform alone can only be verified on that platform.",
        ),
    )


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
