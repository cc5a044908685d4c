"""Normal form of a module that is to be written: one function `main` without calls.

Every call is replaced by a copy of its callee's body, so each place in the program has ops and
shardings of its own. (MLIR's `inline` leaves functions in place whose ops its cost model dislikes,
so the copying is done here; it changes nothing but the calls.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.calls import Calls, calls_in, inline, resolve_calls
from toast.analysis.operations import BRANCHING


def flatten(module: ir.Module) -> ir.Operation:
    """Inline every call of `module` in place; returns the operation of `main`.

    Raises `UnsupportedModule` when there is no `main` or a function calls itself.
    """
    return flatten_calls(resolve_calls(module))


def flatten_calls(calls: Calls) -> ir.Operation:
    """Inline every call, callee first, so that every body is copied already flat."""
    for function in calls.functions.values():
        for call, callee in calls_in(function):
            inline(call, calls.functions[callee])
    for function in calls.functions.values():
        if function is not calls.main:
            function.erase()
    calls.functions = {"main": calls.main}
    return calls.main


def ops_in_order(main: ir.Operation) -> Iterator[Any]:
    """The operation behind each op of the program, in order, where `main` has no calls."""
    block = main.regions[0].blocks[0]
    yield from block.arguments
    yield from _block(block)


def _block(block: Any) -> Iterator[Any]:
    for view in block.operations:
        op = view.operation
        name = op.name
        if name == "stablehlo.while":
            yield op
            for region in op.regions:
                yield from _block(region.blocks[0])
            yield op
        elif name in BRANCHING:
            for region in op.regions:
                yield from _block(region.blocks[0])
                yield op
            yield op
        elif name != "stablehlo.return":
            yield op
