"""A pipeline run by its schedule, in plain JAX: the reference for other runners.

Each stage has one device, or a mesh of several. JAX starts work without waiting for it, so
stages work at the same time as far as what they send each other lets them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jax._src.core import ShapedArray
from jax._src.interpreters import mlir as jax_mlir
from jax._src.interpreters import pxla
from jax._src.lib import xla_client
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib.mlir import ir

from toast.analysis.errors import InvalidRequest
from toast.process.lapack import load_lapack
from toast.schedules.simulation import simulate
from toast.schedules.steps import PipelineSchedule, StageStep, Work
from toast.schedules.timeline import ChunkCosts
from toast.stages.files import module_text, read_pipeline
from toast.stages.wiring import TIME, Layout, Phase, PipelineProgram, StageModule

_PHASES = {Work.FORWARD: Phase.FORWARD, Work.BACKWARD: Phase.BACKWARD}


def run_pipeline(
    directory: str | Path, arguments: Sequence[Any], *, devices: Sequence[Any] | None = None
) -> list[Any]:
    """Run one step of a pipeline that `toast pipeline` wrote; the results of the step, in order.

    `arguments` are the leaves of the step's arguments, arrays of the shapes that the module says.
    The devices, by default all of `jax.devices()`, are dealt out to the stages in order, to each as
    many as its mesh has. The modules are compiled in this process: run only what you trust.

    Raises:
        InvalidRequest: the folder holds no pipeline, there are fewer devices than stages, or
            another number of arguments than the step takes.
    """
    return PipelineRunner(directory, devices).step(arguments)


class PipelineRunner:
    """Compiles the modules of a pipeline once; `step` runs them as often as wanted."""

    def __init__(self, directory: str | Path, devices: Sequence[Any] | None = None) -> None:
        folder = Path(directory)
        self._program, self._schedule = read_pipeline(folder)
        meshes = _meshes(self._program, list(jax.devices() if devices is None else devices))
        self._modules = {
            module: _Executable(module, module_text(folder, module), meshes[module.stage])
            for module in self._program.modules
        }
        self._order = list(working_order(self._schedule))

    def place(self, arguments: Sequence[Any]) -> list[Any]:
        """The arguments on the devices that read them first, so that `step` need not send them."""
        wanted: dict[str, NamedSharding] = {}
        for module in self._program.modules:
            for name, sharding in zip(module.inputs, self._modules[module].inputs, strict=True):
                wanted.setdefault(name, sharding)
        return [
            jax.device_put(value, wanted.get(f"argument:{number}"))
            for number, value in enumerate(arguments)
        ]

    def step(self, arguments: Sequence[Any]) -> list[Any]:
        """The results of one step."""
        if len(arguments) != len(self._program.arguments):
            raise InvalidRequest(
                f"{len(arguments)} arguments were given, the step takes "
                f"{len(self._program.arguments)}.",
                "Give the leaves of all arguments, as jax.tree.leaves orders them.",
            )
        run = _StepRun(self._program, self._modules)
        return run.results(arguments, self._order)


def working_order(schedule: PipelineSchedule) -> Iterator[StageStep]:
    """The steps of all stages in an order in which each follows what it needs."""
    costs = [ChunkCosts(forward=1.0, backward=2.0)] * (schedule.last_chunk + 1)
    for timed in simulate(schedule, costs, lambda *_: 0.0).steps:
        yield timed.step


@dataclass(slots=True)
class _StepRun:
    """The values of one step, by name, microbatch and stage."""

    program: PipelineProgram
    modules: dict[StageModule, _Executable]
    _values: dict[tuple[str, int], dict[NamedSharding | None, Any]] = field(default_factory=dict)
    _reads: Counter[str] = field(default_factory=Counter)
    _left: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for module in self.program.modules:
            if module.phase in (Phase.FORWARD, Phase.BACKWARD):
                self._reads.update(module.inputs)

    def results(self, arguments: Sequence[Any], order: Sequence[StageStep]) -> list[Any]:
        for number, value in enumerate(arguments):
            self._values[f"argument:{number}", 0] = {None: value}
        for module in self.program.of(Phase.BEFORE):
            self._run(module, 0)
        found = {(module.phase, module.number): module for module in self.program.modules}
        for step in order:
            if step.work in _PHASES and (_PHASES[step.work], step.chunk) in found:
                self._run(found[_PHASES[step.work], step.chunk], step.microbatch)
        for module in self.program.of(Phase.AFTER):
            self._run(module, 0)
        return [next(iter(self._values[name, 0].values())) for name in self.program.results]

    def _run(self, module: StageModule, microbatch: int) -> None:
        executable = self.modules[module]
        inputs = [
            self._read(name, microbatch, sharding)
            for name, sharding in zip(module.inputs, executable.inputs, strict=True)
        ]
        for name, made in zip(module.outputs, executable(inputs), strict=True):
            key = name, microbatch if name.startswith("value:") else 0
            self._values[key] = {made.sharding: made}
            self._left[key] = self._reads[name]
        for name in module.inputs:
            self._forget(name, microbatch)

    def _read(self, name: str, microbatch: int, sharding: NamedSharding) -> Any:
        """A value as a module wants it, sent there if it is not."""
        if name == TIME:
            return jax.device_put(np.int32(microbatch), sharding)
        there = self._values[name, microbatch if name.startswith("value:") else 0]
        if sharding not in there:
            there[sharding] = jax.device_put(next(iter(there.values())), sharding)
        return there[sharding]

    def _forget(self, name: str, microbatch: int) -> None:
        """Let go of a microbatch's value once all that read it have run."""
        if name.startswith("value:"):
            key = name, microbatch
            self._left[key] -= 1
            if not self._left[key]:
                del self._values[key]


def _meshes(program: PipelineProgram, devices: list[Any]) -> list[Mesh]:
    """The mesh of each stage."""
    each = program.stage_devices
    if len(devices) < program.stages * each:
        raise InvalidRequest(
            f"{program.stages} stages of {each} need {program.stages * each} devices; there are "
            f"{len(devices)}.",
            "Set XLA_FLAGS=--xla_force_host_platform_device_count=8 for virtual ones.",
        )
    names = tuple(name for name, _ in program.mesh)
    sizes = [size for _, size in program.mesh]
    return [
        Mesh(np.array(devices[stage * each : (stage + 1) * each]).reshape(sizes), names)
        for stage in range(program.stages)
    ]


class _Executable:
    """One module compiled for the mesh of its stage; called with arrays laid out as `inputs`."""

    def __init__(self, module: StageModule, text: str, mesh: Mesh) -> None:
        self.inputs = _shardings(mesh, module.input_specs, len(module.inputs))
        self._handlers: Any = None
        self._outputs = _shardings(mesh, module.output_specs, len(module.outputs))
        devices = tuple(mesh.devices.flat)
        options = compiler.get_compile_options(
            num_replicas=1,
            num_partitions=len(devices),
            device_assignment=np.array([[device.id for device in devices]]),
        )
        build = options.executable_build_options
        build.use_spmd_partitioning = len(devices) > 1
        build.use_shardy_partitioner = len(devices) > 1
        load_lapack()
        with jax_mlir.make_ir_context():
            parsed = ir.Module.parse(text)
            kind = ir.SymbolTable(parsed.operation)["main"].type
            self._shapes = [tuple(ir.RankedTensorType(one).shape) for one in kind.results]
            self._executable = devices[0].client.compile_and_load(
                parsed, xla_client.DeviceList(devices), options
            )

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Start the module's work; its results, which may still be computed."""
        executed = self._executable.execute_sharded(inputs)
        if self._handlers is None:
            made = self._assembled(executed.disassemble_into_single_device_arrays())
            kinds = [ShapedArray(one.shape, one.dtype) for one in made]
            self._handlers = pxla.global_avals_to_results_handler(
                kinds, self._outputs, committed=True
            ).handlers
            return made
        return list(executed.consume_with_handlers(self._handlers))

    def _assembled(self, made: Sequence[Sequence[Any]]) -> list[Any]:
        """Arrays of the parts on each device; slower than the handlers, which need the types."""
        return [
            jax.make_array_from_single_device_arrays(shape, sharding, shards)
            for shape, sharding, shards in zip(self._shapes, self._outputs, made, strict=True)
        ]


def _shardings(mesh: Mesh, specs: Sequence[Layout], count: int) -> list[NamedSharding]:
    """The layouts of so many tensors; whole where nothing is said."""
    if not specs:
        return [NamedSharding(mesh, PartitionSpec())] * count
    return [
        NamedSharding(mesh, PartitionSpec(*(tuple(axes) or None for axes in spec)))
        for spec in specs
    ]
