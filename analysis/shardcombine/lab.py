"""Runs ops with XLA on the CPU, many in one compilation.

XLA may abort the process, so this runs in a child (`child.py`) unless the op is known to be tame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src.lib import xla_client
from jaxlib.mlir import ir

from toast.analysis.shardcombine import composites
from toast.analysis.shardcombine.extract import add_copy, finish, place
from toast.analysis.shardcombine.numbers import Array
from toast.analysis.shardcombine.opcopy import OpCopy

_BATCH = 96
_QUICK: list[tuple[str, bool | int]] = [
    ("xla_backend_optimization_level", 0),
    ("xla_cpu_use_fusion_emitters", False),
    ("xla_llvm_disable_expensive_passes", True),
]
"""Compiling costs more than running by far: the quick emitters take a tenth of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRun:
    """An op to run on each of several sets of inputs."""

    op: OpCopy
    inputs: Sequence[Sequence[Array]]


Outputs = list[list[Array]]
"""For each set of inputs the results of the op."""


class Lab:
    """A CPU with a count of what it was asked: `compilations` and `runs`."""

    def __init__(self) -> None:
        self._device = jax.local_devices(backend="cpu")[0]
        self._overrides = _QUICK
        self.compilations = 0
        self.runs = 0

    def run(self, runs: Sequence[OpRun]) -> list[Outputs | None]:
        """The results of every run, None for those that XLA refuses."""
        found: list[Outputs | None] = []
        for start in range(0, len(runs), _BATCH):
            found.extend(self._batch(runs[start : start + _BATCH]))
        return found

    def _batch(self, runs: Sequence[OpRun]) -> list[Outputs | None]:
        try:
            found = self._together(runs)
        except (RuntimeError, ValueError, ir.MLIRError):
            if len(runs) == 1:
                return [None]
            middle = len(runs) // 2
            return self._batch(runs[:middle]) + self._batch(runs[middle:])
        self.runs += len(runs)
        return found

    def _together(self, runs: Sequence[OpRun]) -> list[Outputs | None]:
        """Compile each op once, and call the program until every run has had its turn."""
        shared: dict[int, list[int]] = {}
        for number, run in enumerate(runs):
            shared.setdefault(id(run.op), []).append(number)
        groups = list(shared.values())
        program = self._compile([runs[group[0]].op for group in groups])
        found: list[Outputs] = [[] for _ in runs]
        for turn in range(max(map(len, groups))):
            chosen = [group[min(turn, len(group) - 1)] for group in groups]
            outputs = self._call(program, [runs[number] for number in chosen])
            for number, output in zip(chosen, outputs, strict=True):
                found[number] = output
        return list(found)

    def _compile(self, ops: Sequence[OpCopy]) -> Any:
        self.compilations += 1
        module = _module_of(ops)
        devices = xla_client.DeviceList((self._device,))
        options = xla_client.CompileOptions()
        options.env_option_overrides = self._overrides
        try:
            return self._device.client.compile_and_load(module, devices, options)
        except RuntimeError as error:
            if "ompile option" not in str(error) or not self._overrides:
                raise
            self._overrides = []
            return self._compile(ops)

    def _call(self, program: Any, runs: Sequence[OpRun]) -> list[Outputs]:
        found: list[Outputs] = [[] for _ in runs]
        for number in range(len(runs[0].inputs)):
            flat = self._execute(program, [a for run in runs for a in run.inputs[number]])
            for run, outputs in zip(runs, found, strict=True):
                count = len(run.op.results)
                outputs.append(flat[:count])
                flat = flat[count:]
        return found

    def _execute(self, program: Any, arrays: Sequence[Array]) -> list[Array]:
        with jax.enable_x64(True):
            buffers = [jax.device_put(np.array(a, order="C"), self._device) for a in arrays]
            results = program.execute_sharded(buffers).disassemble_into_single_device_arrays()
        return [np.asarray(shards[0]) for shards in results]


def _module_of(ops: Sequence[OpCopy]) -> ir.Module:
    """One `main` that runs every op on arguments of its own."""
    module = ir.Module.create()
    types = [value.type for op in ops for value in op.op.operands]
    block = place(module, types)
    arguments = list(block.arguments)
    results: list[Any] = []
    for number, op in enumerate(ops):
        count = len(op.operands)
        copy = add_copy(op.op, block, arguments[:count])
        arguments = arguments[count:]
        if op.name == composites.NAME:
            composites.bring(op.module, module, copy, number)
        results.extend(copy.results)
    finish(block, results)
    return module
