"""The calls of a module: who calls whom, how often, and which calls cannot stay.

Every call is read as a copy of its callee's body. Bodies are therefore read once and copied as
arrays (`template.py`); in MLIR they are copied only where the module is written (`flatten.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.errors import UnsupportedModule
from toast.analysis.operations import CONTROL, put_in_place

CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""Ops that call a function, and the attribute that names it."""
MAX_DEPTH = 128
"""How deep calls may lie in calls; what jax lowers is some ten deep."""


@dataclass(slots=True, kw_only=True)
class Calls:
    """The functions of a module that `main` leads to, callees first, `main` last.

    `times` says how often the body of each stands in the program.
    """

    main: ir.Operation
    functions: dict[str, ir.Operation]
    times: dict[str, int] = field(default_factory=dict)

    def body(self, op: ir.Operation) -> Any:
        """The block of what an op calls; None for an op that is no call."""
        name = callee_of(op)
        return None if name is None else self.functions[name].regions[0].blocks[0]


def callee_of(op: ir.Operation) -> str | None:
    """The name of what an op calls; None for an op that is no call."""
    attribute = CALLS.get(op.name)
    return None if attribute is None else ir.FlatSymbolRefAttr(op.attributes[attribute]).value


def calls_in(function: ir.Operation) -> list[tuple[ir.Operation, str]]:
    """The calls within an op, each with the name of its callee, in order."""
    found: list[tuple[ir.Operation, str]] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in CALLS:
            name = callee_of(op)
            assert name is not None
            found.append((op, name))
        return ir.WalkResult.ADVANCE

    function.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def functions_of(module: ir.Module) -> dict[str, ir.Operation]:
    """The functions of a module by name."""
    return {
        ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }


def resolve_calls(module: ir.Module) -> Calls:
    """Find the functions of the program, remove all others, and inline calls that cannot stay.

    Those are calls within the regions of ops such as `reduce`, which are read as one op.
    Raises `UnsupportedModule` when there is no `main`, a callee is missing or has no body, or a
    function calls itself.
    """
    functions = functions_of(module)
    main = functions.get("main")
    if main is None:
        names = ", ".join(sorted(functions)) or "none"
        raise UnsupportedModule(
            f"The module has no function `main` (functions: {names}).",
            "Lower the whole step with jax.jit(step).lower(...), or rename its entry to main.",
        )
    resolver = _Resolver(functions)
    resolver.run("main")
    times = _times(resolver.called)
    for name, function in functions.items():
        if name not in times:
            function.erase()
    kept = {name: functions[name] for name in resolver.called if name in times}
    return Calls(main=main, functions=kept, times=times)


def _times(called: dict[str, list[str]]) -> dict[str, int]:
    """How often each function stands in the program, from what each one calls, callees first."""
    times = {"main": 1}
    for caller in reversed(called):
        if caller in times:
            for callee in called[caller]:
                times[callee] = times.get(callee, 0) + times[caller]
    return times


class _Resolver:
    """Goes through functions callee first; `called` names what each of them then calls."""

    def __init__(self, functions: dict[str, ir.Operation]) -> None:
        self._functions = functions
        self._open: list[str] = []
        self.called: dict[str, list[str]] = {}

    def run(self, name: str) -> None:
        if len(self._open) >= MAX_DEPTH and name not in self._open:
            raise UnsupportedModule(
                f"The module's functions call each other more than {MAX_DEPTH} deep.",
                "Lower the step with jax.jit, or write what repeats as a loop.",
            )
        if name in self._open:
            chain = " -> ".join([*self._open, name])
            raise UnsupportedModule(
                f"The module is recursive ({chain}).", "Write the recursion as a loop."
            )
        if name in self.called:
            return
        self._open.append(name)
        kept: list[str] = []
        for call, callee in calls_in(self._functions[name]):
            if callee not in self._functions:
                raise UnsupportedModule(
                    f"The module calls `{callee}`, which it does not contain.",
                    "Link the missing function into the module.",
                )
            self.run(callee)
            if not list(self._functions[callee].regions[0].blocks):
                raise UnsupportedModule(
                    "The module calls a function that has no body.",
                    "Link its definition into the module.",
                )
            if _is_part_of_op(call):
                self._inline_all(call)
            else:
                kept.append(callee)
        self._open.pop()
        self.called[name] = kept

    def _inline_all(self, call: ir.Operation) -> None:
        """Inline a call, and every call in what it calls."""
        name = callee_of(call)
        assert name is not None
        for op in inline(call, self._functions[name]):
            for nested, _ in calls_in(op):
                self._inline_all(nested)


def _is_part_of_op(call: ir.Operation) -> bool:
    """Whether a call stands in a region that is read as part of its op."""
    parent = call.parent
    while parent.name != "func.func":
        if parent.name not in CONTROL:
            return True
        parent = parent.operation.parent
    return False


def inline(call: ir.Operation, callee: ir.Operation) -> list[ir.Operation]:
    """Replace `call` by a copy of the body of `callee`; returns the ops of the copy."""
    copy: Any = callee.clone()
    block = copy.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, list(call.operands), strict=True):
        argument.replace_all_uses_with(operand)
    moved = put_in_place(call, block)
    copy.erase()
    return moved
