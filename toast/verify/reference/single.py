"""Single ops, compiled for one device and run on arrays; equal ops are compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jax._src.lib import xla_client
from jaxlib.mlir import ir

Array = np.ndarray[Any, Any]
Write = Callable[[Any, list[Any]], list[Any]]
"""Writes ops into a block, on its arguments; returns the results."""


class SingleOps:
    """Compiles what is written into a function, and runs it."""

    def __init__(self) -> None:
        self._compiled: dict[str, Any] = {}
        self._device: Any = jax.devices()[0]

    def run(self, given: list[list[Array]], types: Sequence[Any], write: Write) -> list[list[Array]]:
        """The results for each device of what is `write`n, for operands of these types.

        `given` and what is returned are by device. Devices that hold the same arrays are run once.
        """
        executable = self._executable(types, write)
        known: dict[tuple[int, ...], list[Array]] = {}
        found = []
        for operands in given:
            key = tuple(map(id, operands))
            if key not in known:
                known[key] = self._call(executable, operands)
            found.append(known[key])
        return found

    def _executable(self, types: Sequence[Any], write: Write) -> Any:
        with ir.Location.unknown():
            module = ir.Module.create()
            function = ir.Operation.create(
                "func.func",
                attributes={
                    "sym_name": ir.StringAttr.get("main"),
                    "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(types), [])),
                },
                regions=1,
                ip=ir.InsertionPoint(module.body),
            )
            block = function.regions[0].blocks.append(*types)
            results = write(block, list(block.arguments))
            made = ir.FunctionType.get(list(types), [value.type for value in results])
            function.attributes["function_type"] = ir.TypeAttr.get(made)
            ir.Operation.create("func.return", operands=results, ip=ir.InsertionPoint(block))
        key = module.operation.get_asm(enable_debug_info=False)
        if key not in self._compiled:
            self._compiled[key] = self._compile(module)
        return self._compiled[key]

    def _compile(self, module: ir.Module) -> Any:
        options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
        options.executable_build_options.debug_options.xla_backend_optimization_level = 0
        client: Any = self._device.client
        return client.compile_and_load(
            module, xla_client.DeviceList((self._device,)), options
        )

    def _call(self, executable: Any, operands: list[Array]) -> list[Array]:
        arguments = [jax.device_put(value, self._device) for value in operands]
        results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
        return [np.asarray(shards[0]) for shards in results]
