"""One op taken out of its program: the text of a module that holds a copy of it, and no more."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import jaxlib
from jaxlib.mlir import ir

from toast.analysis.operations import CONTROL
from toast.analysis.shardcombine.numbers import known_dtype

_VERSION = "1"
"""Part of every key: raise it when the search learns something, and old findings are redone."""
_ANNOTATIONS = ("sdy.sharding_rule", "sdy.sharding", "mhlo.sharding", "mhlo.frontend_attributes")
_DIALECTS = ("stablehlo.", "chlo.")
_RANDOM = frozenset({"stablehlo.rng", "stablehlo.rng_bit_generator"})
_CROSS_DEVICE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_gather",
        "all_reduce",
        "all_to_all",
        "collective_broadcast",
        "collective_permute",
        "cross-replica-sum",
        "partition_id",
        "reduce_scatter",
        "replica_id",
    )
)
_EFFECTS = frozenset(
    f"stablehlo.{name}"
    for name in ("infeed", "outfeed", "send", "recv", "create_token", "after_all")
)
_NEVER = _RANDOM | _CROSS_DEVICE | _EFFECTS | CONTROL | {"func.call"}
_TARGETS = frozenset({"mhlo.erf", "mhlo.topk"})
"""Custom calls that XLA itself expands on every backend; any other could do anything."""


def may_run(op: ir.Operation) -> bool:
    """Whether the op computes its results from its operands, and from nothing else."""
    if not op.name.startswith(_DIALECTS) or not op.operands or not op.results:
        return False
    if op.name == "stablehlo.custom_call" and not _is_known_call(op):
        return False
    values = [*op.operands, *op.results]
    plain = all(_is_plain(value.type) for value in values)
    return plain and _all_may_run(op) and _is_closed(op)


def _is_known_call(op: ir.Operation) -> bool:
    attributes = op.attributes
    effect = "has_side_effect" in attributes and bool(attributes["has_side_effect"].value)
    return attributes["call_target_name"].value in _TARGETS and not effect


def _is_plain(kind: ir.Type) -> bool:
    if not isinstance(kind, ir.RankedTensorType):
        return False
    tensor = ir.RankedTensorType(kind)
    return bool(tensor.has_static_shape) and known_dtype(str(tensor.element_type))


def _all_may_run(op: ir.Operation) -> bool:
    """Neither the op nor what is in its regions may be on the list."""
    allowed = True

    def visit(inner: ir.Operation) -> ir.WalkResult:
        nonlocal allowed
        allowed = allowed and inner.name not in _NEVER
        return ir.WalkResult.ADVANCE

    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return allowed


def _is_closed(op: ir.Operation) -> bool:
    """Whether the regions of `op` use nothing that is defined outside of them."""
    for region in op.regions:
        for block in region.blocks:
            inside = {*block.arguments}
            for view in block.operations:
                inner = view.operation
                if list(inner.regions) or not inside.issuperset(inner.operands):
                    return False
                inside.update(inner.results)
    return True


def text_of(op: ir.Operation) -> str | None:
    """A module with one `main` that holds a copy of `op`; None when it cannot stand alone.

    The functions that the op names (a composite's decomposition) come along.
    """
    with op.context, ir.Location.unknown():
        module = ir.Module.create()
        types = [value.type for value in op.operands]
        main = place(module, types)
        copy = add_copy(op, main, list(main.arguments))
        for name in _ANNOTATIONS:
            if name in copy.attributes:
                del copy.attributes[name]
        finish(main, copy.results)
        if not _bring_functions(op, module):
            return None
        try:
            module.operation.verify()
        except ir.MLIRError:
            return None
        text: str = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=False)
        return text


def place(module: ir.Module, types: list[Any]) -> Any:
    """The block of a new function `main` of `module` with arguments of these types."""
    function = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get("main"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
        },
        regions=1,
        ip=ir.InsertionPoint(module.body),
    )
    return function.regions[0].blocks.append(*types)


def add_copy(op: ir.Operation, block: Any, operands: list[Any]) -> Any:
    """A copy of `op` at the end of `block` that works on `operands`."""
    copy = op.clone(ip=ir.InsertionPoint(block))
    for index, value in enumerate(operands):
        copy.operands[index] = value
    return copy.operation


def finish(main: Any, values: Sequence[Any]) -> None:
    """End the block of `main` by returning `values`."""
    ir.Operation.create("func.return", operands=list(values), ip=ir.InsertionPoint(main))
    inputs = [argument.type for argument in main.arguments]
    kind = ir.FunctionType.get(inputs, [value.type for value in values])
    main.owner.attributes["function_type"] = ir.TypeAttr.get(kind)


def _bring_functions(op: ir.Operation, module: ir.Module) -> bool:
    """Copy the functions that `op` refers to; False when one is not to be found."""
    if "decomposition" not in op.attributes:
        return True
    name = ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value
    for function in _top(op).regions[0].blocks[0].operations:
        attributes = function.operation.attributes
        if "sym_name" in attributes and ir.StringAttr(attributes["sym_name"]).value == name:
            function.operation.clone(ip=ir.InsertionPoint(module.body))
            return _all_may_run(function.operation)
    return False


def _top(op: ir.Operation) -> ir.Operation:
    while op.parent is not None:
        op = op.parent.operation
    return op


def key_of(text: str) -> str:
    """The name under which what is found for this text is kept."""
    stamp = f"{_VERSION} {jaxlib.__version__}\n{text}"
    return hashlib.sha256(stamp.encode()).hexdigest()[:32]
