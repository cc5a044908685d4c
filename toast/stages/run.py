"""A pipeline run by its schedule, in plain JAX: the reference for other runners.

Each stage has one device, or several that hold the same. JAX starts work without waiting for it, so
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
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import xla_client
from jaxlib.mlir import ir

from toast.analysis.errors import InvalidRequest
from toast.schedules.simulation import simulate
from toast.schedules.steps import PipelineSchedule, StageStep, Work
from toast.schedules.timeline import ChunkCosts
from toast.stages.files import module_text, read_pipeline
from toast.stages.wiring import TIME, Phase, PipelineProgram, StageModule

_PHASES = {Work.FORWARD: Phase.FORWARD, Work.BACKWARD: Phase.BACKWARD}


def run_pipeline(
    directory: str | Path, arguments: Sequence[Any], *, devices: Sequence[Any] | None = None
) -> list[Any]:
    """Run one step of a pipeline that `toast pipeline` wrote; the results of the step, in order.

    `arguments` are the leaves of the step's arguments, arrays of the shapes that the module says.
    Stage `s` runs on `devices[s]`, by default on the first of `jax.devices()`. The modules are
    compiled in this process: run only what you trust.

    Raises:
        InvalidRequest: the folder holds no pipeline, there are fewer devices than stages, or
            another number of arguments than the step takes.
    """
    return PipelineRunner(Path(directory), devices).step(arguments)


class PipelineRunner:
    """Compiles the modules of a pipeline once; `step` runs them as often as wanted."""

    def __init__(self, folder: Path, devices: Sequence[Any] | None = None) -> None:
        self._program, self._schedule = read_pipeline(folder)
        self._devices = list(jax.devices() if devices is None else devices)
        if len(self._devices) < self._program.stages:
            raise InvalidRequest(
                f"{self._program.stages} stages need as many devices; there are "
                f"{len(self._devices)}.",
                "Set XLA_FLAGS=--xla_force_host_platform_device_count=8 for virtual ones.",
            )
        self._modules = {
            module: _compiled(module_text(folder, module), self._devices[module.stage])
            for module in self._program.modules
        }
        self._order = list(working_order(self._schedule))

    def step(self, arguments: Sequence[Any]) -> list[Any]:
        """The results of one step."""
        if len(arguments) != len(self._program.arguments):
            raise InvalidRequest(
                f"{len(arguments)} arguments were given, the step takes "
                f"{len(self._program.arguments)}.",
                "Give the leaves of all arguments, as jax.tree.leaves orders them.",
            )
        run = _StepRun(self._program, self._modules, self._devices)
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
    modules: dict[StageModule, Any]
    devices: Sequence[Any]
    _made_on: dict[str, int] = field(default_factory=dict)
    _values: dict[tuple[str, int], dict[int, Any]] = field(default_factory=dict)
    _reads: Counter[str] = field(default_factory=Counter)
    _left: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for module in self.program.modules:
            if module.phase in (Phase.FORWARD, Phase.BACKWARD):
                self._reads.update(module.inputs)

    def results(self, arguments: Sequence[Any], order: Sequence[StageStep]) -> list[Any]:
        for number, value in enumerate(arguments):
            self._values[f"argument:{number}", 0] = {-1: value}
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
        inputs = [self._read(name, microbatch, module.stage) for name in module.inputs]
        executed = self.modules[module].execute_sharded(inputs)
        made = executed.disassemble_into_single_device_arrays()
        for name, shards in zip(module.outputs, made, strict=True):
            key = name, microbatch if name.startswith("value:") else 0
            self._values[key] = {module.stage: shards[0]}
            self._left[key] = self._reads[name]
        for name in module.inputs:
            self._forget(name, microbatch)

    def _read(self, name: str, microbatch: int, stage: int) -> Any:
        if name == TIME:
            return jax.device_put(np.int32(microbatch), self.devices[stage])
        there = self._values[name, microbatch if name.startswith("value:") else 0]
        if stage not in there:
            there[stage] = jax.device_put(next(iter(there.values())), self.devices[stage])
        return there[stage]

    def _forget(self, name: str, microbatch: int) -> None:
        """Let go of a microbatch's value once all that read it have run."""
        if name.startswith("value:"):
            key = name, microbatch
            self._left[key] -= 1
            if not self._left[key]:
                del self._values[key]


def _compiled(text: str, device: Any) -> Any:
    """An executable for one device."""
    options = compiler.get_compile_options(
        num_replicas=1, num_partitions=1, device_assignment=np.array([[device.id]])
    )
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(text)
        return device.client.compile_and_load(module, xla_client.DeviceList((device,)), options)
