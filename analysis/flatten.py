"""Normal form: one function `main` without calls.

Every call is replaced by a copy of its callee's body, so each place in the program has ops, names
and, later, shardings of its own. (MLIR's `inline` leaves functions in place whose ops its cost
model dislikes, so the copying is done here; it changes nothing but the calls.)
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from toast.analysis.errors import UnsupportedModule

_CALL = "func.call"
_COMPOSITE = "stablehlo.composite"


def flatten(module: ir.Module) -> ir.Operation:
    """Inline every call of `module` in place; returns the operation of `main`.

    Raises `UnsupportedModule` when there is no `main` or a function calls itself.
    """
    functions = _functions(module)
    main = functions.get("main")
    if main is None:
        names = ", ".join(sorted(functions)) or "none"
        raise UnsupportedModule(
            f"The module has no function `main` (functions: {names}).",
            "Lower the whole step with jax.jit(step).lower(...), or rename its entry to main.",
        )
    _Inliner(functions).run("main")
    for name, function in functions.items():
        if name != "main":
            function.erase()
    return main


def _functions(module: ir.Module) -> dict[str, ir.Operation]:
    return {
        ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }


class _Inliner:
    """Flattens functions callee first, so that every body is copied already flat."""

    def __init__(self, functions: dict[str, ir.Operation]) -> None:
        self._functions = functions
        self._done: set[str] = set()
        self._open: list[str] = []

    def run(self, name: str) -> None:
        """Make the body of `name` free of calls."""
        if name in self._open:
            chain = " -> ".join([*self._open, name])
            raise UnsupportedModule(
                f"The module is recursive ({chain}).", "Write the recursion as a loop."
            )
        if name in self._done:
            return
        self._open.append(name)
        for call, callee in _calls(self._functions[name]):
            if callee not in self._functions:
                raise UnsupportedModule(
                    f"The module calls `{callee}`, which it does not contain.",
                    "Link the missing function into the module.",
                )
            self.run(callee)
            _inline(call, self._functions[callee])
        self._open.pop()
        self._done.add(name)


def _calls(function: ir.Operation) -> list[tuple[ir.Operation, str]]:
    found: list[tuple[ir.Operation, str]] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == _CALL:
            found.append((op, ir.FlatSymbolRefAttr(op.attributes["callee"]).value))
        elif op.name == _COMPOSITE:
            found.append((op, ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value))
        return ir.WalkResult.ADVANCE

    function.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _inline(call: ir.Operation, callee: ir.Operation) -> None:
    """Replace `call` by a copy of the body of `callee`."""
    copy: Any = callee.clone()
    if not list(copy.regions[0].blocks):
        copy.erase()
        raise UnsupportedModule(
            "The module calls a function that has no body.", "Link its definition into the module."
        )
    block = copy.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, list(call.operands), strict=True):
        argument.replace_all_uses_with(operand)
    for op in list(block.operations):
        if op.operation.name == "func.return":
            for result, value in zip(call.results, list(op.operation.operands), strict=True):
                result.replace_all_uses_with(value)
        else:
            op.operation.move_before(call)
    call.erase()
    copy.erase()
