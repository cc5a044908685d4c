"""Single ops on the arrays of one device.

What is small StableHLO's own interpreter runs, which is the specification made runnable and needs
no compilation. The rest XLA compiles for one device; equal ops are compiled once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jax._src.lib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.process.lapack import load_lapack

Array = np.ndarray[Any, Any]
Write = Callable[[Any, list[Any]], list[Any]]
"""Writes ops into a block, on its arguments; returns the results."""


SMALL = 4096
"""Elements of operands and results that the interpreter handles as fast as XLA compiles."""
_INTERPRETED = frozenset({"f32", "f64", "i32", "i64", "ui32", "i1"})
_OPS = frozenset(
    f"stablehlo.{name}"
    for name in (  # noqa: SIM905 - so many words are easier to read without commas
        "abs add and broadcast_in_dim ceil clamp compare concatenate constant convert convolution "
        "cosine divide dot_general dynamic_slice dynamic_update_slice exponential "
        "exponential_minus_one floor gather iota is_finite log log_plus_one logistic maximum "
        "minimum multiply negate not or pad power reduce reduce_window remainder reshape reverse "
        "round_nearest_afz round_nearest_even rsqrt scatter select select_and_scatter "
        "shift_left shift_right_arithmetic shift_right_logical sign sine slice sort sqrt subtract "
        "tanh transpose xor"
    ).split()
)
"""The ops that the interpreter is given: it ends the process at one that it does not know."""


class SingleOps:
    """Runs what is written into a function."""

    def __init__(self) -> None:
        self._compiled: dict[str, Any] = {}
        self._device: Any = jax.devices()[0]

    def run(
        self, given: list[list[Array]], types: Sequence[Any], write: Write
    ) -> list[list[Array]]:
        """The results for each device of what is `write`n, for operands of these types.

        `given` and what is returned are by device. Devices that hold the same arrays are run once.
        """
        run = self._runner(types, write)
        known: dict[tuple[int, ...], list[Array]] = {}
        found = []
        for operands in given:
            key = tuple(map(id, operands))
            if key not in known:
                known[key] = run(operands)
            found.append(known[key])
        return found

    def _runner(self, types: Sequence[Any], write: Write) -> Callable[[list[Array]], list[Array]]:
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
        if _is_small(block, [*types, *made.results]):
            return partial(_interpret, module, list(types))
        key = module.operation.get_asm(enable_debug_info=False)
        if key not in self._compiled:
            self._compiled[key] = self._compile(module)
        return partial(self._call, self._compiled[key])

    def _compile(self, module: ir.Module) -> Any:
        options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
        options.executable_build_options.debug_options.xla_backend_optimization_level = 0
        client: Any = self._device.client
        load_lapack()
        return client.compile_and_load(module, xla_client.DeviceList((self._device,)), options)

    def _call(self, executable: Any, operands: list[Array]) -> list[Array]:
        arguments = [jax.device_put(value, self._device) for value in operands]
        results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
        return [np.asarray(shards[0]) for shards in results]


def _is_small(block: Any, types: list[Any]) -> bool:
    """Whether the interpreter runs what is in a block, and soon."""
    elements = sum(math.prod(one.shape) for one in types)
    known = all(str(one.element_type) in _INTERPRETED for one in types)
    names = [view.operation.name for view in block.operations][:-1]
    return known and _OPS.issuperset(names) and elements <= SMALL


def _interpret(module: ir.Module, types: list[Any], operands: list[Array]) -> list[Array]:
    given = [
        ir.DenseElementsAttr.get(np.array(array, order="C"), type=kind)
        for array, kind in zip(operands, types, strict=True)
    ]
    return [np.array(result) for result in stablehlo.eval_module(module, given)]
