"""How an op is handled, found out from what the analysis does with it."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import _chlo_ops_gen, _stablehlo_ops_gen

from tests.analysis.op_modules import ELEMENTWISE
from tests.analysis.op_modules_special import SHAPED_AT_RUN_TIME, SPECIAL
from tests.analysis.op_modules_structured import STRUCTURED
from toast.analysis import rules
from toast.analysis.errors import InvalidModule, UnsupportedModule
from toast.analysis.forms import decode
from toast.analysis.load import load

MODULES = ELEMENTWISE | STRUCTURED | SPECIAL | SHAPED_AT_RUN_TIME
CONTROL = frozenset({"stablehlo.while", "stablehlo.if", "stablehlo.case", "stablehlo.return"})


def installed_ops() -> set[str]:
    """Every op of the installed StableHLO and CHLO dialects."""
    return {
        view.OPERATION_NAME
        for generated in (_stablehlo_ops_gen, _chlo_ops_gen)
        for view in vars(generated).values()
        if isinstance(view, type) and hasattr(view, "OPERATION_NAME")
    }


def handling(name: str, text: str) -> str:
    """One word of docs/ops.md for the op in a module that holds it."""
    if name in CONTROL:
        return "walked into"
    try:
        source = load(text.encode())
    except (InvalidModule, UnsupportedModule):
        return "refused"
    program = source.program
    if name not in program.names and f"{name} " not in " ".join(program.names):
        return "whole" if name == "stablehlo.custom_call" else "inlined"
    if _shardy_has_a_rule(name, text):
        return "Shardy"
    if name in program.no_rule:
        return "whole"
    return "own" if _have_a_rule(name, text) else "discovered"


def _instances(name: str, module: Any) -> list[Any]:
    found: list[Any] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == name:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _shardy_has_a_rule(name: str, text: str) -> bool:
    module = decode(text.encode()).module
    with module.context:
        rules.populate(module)
        return all(rules.RULE in op.attributes for op in _instances(name, module))


def _have_a_rule(name: str, text: str) -> bool:
    module = decode(text.encode()).module
    with module.context:
        (op,) = _instances(name, module)
        shapes = [
            [tuple(ir.RankedTensorType(value.type).shape) for value in values]
            for values in (op.operands, op.results)
        ]
        return rules.own_rule(name, *shapes).known
