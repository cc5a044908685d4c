"""The process that compiles: `python -m toast.aot.child DIR`, started by `compiling`.

DIR holds `job.json` and `module`; the final HLO goes to DIR/compiled.hlo.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jax._src.lib import xla_client
from jax.experimental import topologies

from toast.analysis.errors import InvalidModule, InvalidRequest
from toast.analysis.forms import decode
from toast.aot.dump import DUMP, Report, memory_report
from toast.aot.installed import check_installed
from toast.aot.target import Target
from toast.aot.verdict import Memory, Refusal
from toast.process.messages import Emitter, complete, leave

_USED = re.compile(
    r"(?:Used |\()([\d.]+)([KMGT]?)\)? (?:of|exceeds available HBM) \(?([\d.]+)([KMGT]?)\)?"
)
_TOTAL = re.compile(r"Total hbm usage >= ([\d.]+)([KMGT]?)")
_ALLOCATING = re.compile(r"allocat\w* ([\d.]+)\s?([KMGT]?)i?B", re.I)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_NO_TILES = re.compile(r"tile sizes|triton", re.I)
_MEMORY = re.compile(r"RESOURCE_EXHAUSTED|Ran out of memory|out of memory", re.I)


def topology_devices(target: Target, reserved_bytes: int = 0) -> list[Any]:
    """The devices of a topology that is not there; raises where the compiler is not installed.

    GPUs have so much less memory as is reserved; a TPU's compiler has a flag for it.
    """
    check_installed(target)
    if target.chip.platform == "tpu":
        slices = {"num_slices": target.slices} if target.slices > 1 else {}
        topology = topologies.get_topology_desc(
            platform="tpu", topology_name=target.topology, **slices
        )
    else:
        topology = topologies.get_topology_desc(
            platform="cuda",
            topology_name="",
            target_config=target.gpu_config(reserved_bytes),
            topology=f"1x{target.devices}x1",
        )
    return list(topology.devices)


def in_mesh(devices: list[Any], target: Target, count: int, positions: list[int]) -> list[Any]:
    """The devices in the order of the mesh, whose `positions` are numbers slice by slice."""
    if target.slices == 1:
        return devices[:count]
    inside, there = count // target.slices, len(devices) // target.slices
    return [devices[at // inside * there + at % inside] for at in positions]


def compile_options(ids: list[int], flags: dict[str, str]) -> Any:
    """Partition over these devices, the mesh's first axis outermost."""
    options = compiler.get_compile_options(
        num_replicas=1,
        num_partitions=len(ids),
        device_assignment=np.array(ids).reshape(1, len(ids)),
        env_options_overrides=flags,
    )
    build = options.executable_build_options
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = True
    return options


def flags_to_try(target: Target, dump: Path, reserved_bytes: int = 0) -> tuple[dict[str, str], ...]:
    """The compiler's flags, and others for where it fails with those.

    The memory statistics of a TPU's compiler mix its memories, so it writes its own report of each
    to `dump` (read by `toast.aot.dump`). Without a GPU that of GPUs cannot try which Triton tiles
    work, and fails where the one that it takes does not; cuBLAS has no tiles to choose.
    """
    if target.chip.platform == "tpu":
        taken = {"xla_tpu_user_reserved_hbm_bytes": str(reserved_bytes)} if reserved_bytes else {}
        return ({"xla_dump_to": str(dump), **taken},)
    plain = {"xla_gpu_autotune_level": "0"}
    return plain, {**plain, "xla_gpu_enable_triton_gemm": "False"}


def compile_directory(directory: Path, emitter: Emitter) -> None:
    """Compile DIR/module and report what came out, or why nothing did."""
    job = json.loads((directory / "job.json").read_text())
    target, count = Target.parse(job["target"]), int(job["devices"])
    reserved = int(job["reserved_bytes"])
    devices = in_mesh(topology_devices(target, reserved), target, count, job["positions"])
    # The TPU's library catches it, and acts only when it has compiled.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if len(devices) < count:
        raise InvalidRequest(
            f"{target} has {len(devices)} devices and the plan's mesh {count}.",
            "Give a topology of as many devices as the mesh has.",
        )
    dump = directory / DUMP
    started = time.perf_counter()
    try:
        flags = flags_to_try(target, dump, reserved)
        executable = first_executable((directory / "module").read_bytes(), devices, flags)
    except jax.errors.JaxRuntimeError as error:
        _refused(str(error), time.perf_counter() - started, emitter)
        return
    seconds = time.perf_counter() - started
    (directory / "compiled.hlo").write_text(executable.hlo_modules()[0].to_string())
    memory = memory_of(executable.get_compiled_memory_stats(), memory_report(dump))
    emitter.emit("compiled", memory=_plain(memory), seconds=seconds)


def first_executable(module: bytes, devices: list[Any], to_try: tuple[dict[str, str], ...]) -> Any:
    """The executable by the first flags that work; raises the compiler's error."""
    *first, last = to_try
    for flags in first:
        try:
            return executable_of(module, devices, flags)
        except jax.errors.JaxRuntimeError as error:
            if not _NO_TILES.search(str(error)):
                raise
    return executable_of(module, devices, last)


def executable_of(module: bytes, devices: list[Any], flags: dict[str, str]) -> Any:
    """The module compiled for these devices with these flags."""
    options = compile_options([device.id for device in devices], flags)
    loaded = decode(module)
    client: Any = devices[0].client
    with loaded.module.context:
        return client.compile(loaded.module, xla_client.DeviceList(tuple(devices)), options)


def memory_of(stats: Any, report: Report) -> Memory:
    """The compiler's memory statistics, and what its report says of the main memory."""
    return Memory(
        argument=stats.argument_size_in_bytes,
        output=stats.output_size_in_bytes,
        temp=stats.temp_size_in_bytes,
        alias=stats.alias_size_in_bytes,
        peak=int(getattr(stats, "peak_memory_in_bytes", 0)),
        code=stats.generated_code_size_in_bytes,
        main=report.main,
        on_chip=report.on_chip,
    )


def refusal_of(message: str) -> Refusal:
    """What the compiler's message says about memory."""
    needed = available = None
    if (used := _USED.search(message)) is not None:
        needed, available = _size(used[1], used[2]), _size(used[3], used[4])
    elif (total := _TOTAL.search(message) or _ALLOCATING.search(message)) is not None:
        needed = _size(total[1], total[2])
    return Refusal(message=message.strip()[:4000], needed=needed, available=available)


def _size(number: str, unit: str) -> int:
    return int(float(number) * _UNITS[unit.upper()])


def _refused(message: str, seconds: float, emitter: Emitter) -> None:
    if not _MEMORY.search(message):
        first = (message.strip().splitlines() or ["no reason given"])[0]
        raise InvalidModule(f"The compiler refuses the module: {first}", "Please report this.")
    emitter.emit("refused", refusal=_plain(refusal_of(message)), seconds=seconds)


def _plain(record: Memory | Refusal) -> dict[str, Any]:
    return {name: getattr(record, name) for name in type(record).__slots__}


def main(arguments: list[str]) -> int:
    """The whole process; returns its exit code."""
    return complete(
        partial(compile_directory, Path(arguments[0])),
        (jax.errors.JaxRuntimeError, RuntimeError, ValueError),
        lambda reason: InvalidRequest(
            f"The compiler could not be started: {reason}",
            "It has to be of the same version as jaxlib; install the `aot` extra.",
        ),
    )


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
