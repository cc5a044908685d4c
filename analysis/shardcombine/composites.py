"""Composites at other sizes: the decomposition's types change with the op's.

A size stands for the same dimension wherever it appears in a decomposition, so a new size replaces
the old one in every type; the verifier says whether the outcome is an op.
"""

from __future__ import annotations

import re
from typing import Any

from jaxlib.mlir import ir

NAME = "stablehlo.composite"

_TENSOR = re.compile(r"tensor<((?:\d+x)+)")


def resized(module: Any, old: tuple[Any, ...], new: tuple[Any, ...]) -> str | None:
    """The text of `module` with the operands of its op at `new` sizes; None when they clash."""
    sizes: dict[int, int] = {}
    for before, after in zip(old, new, strict=True):
        for size, wanted in zip(before, after, strict=True):
            if sizes.setdefault(size, wanted) != wanted:
                return None
    text: str = module.operation.get_asm(print_generic_op_form=True)

    def change(match: re.Match[str]) -> str:
        dims = [int(size) for size in match[1].split("x") if size]
        return "tensor<" + "".join(f"{sizes.get(size, size)}x" for size in dims)

    return _TENSOR.sub(change, text)


def bring(source: Any, target: Any, op: Any, number: int) -> None:
    """Give the composite `op` in `target` a decomposition of its own, copied from `source`."""
    for function in source.body.operations:
        name = ir.StringAttr(function.operation.attributes["sym_name"]).value
        if name == "main":
            continue
        copy = function.operation.clone(ip=ir.InsertionPoint(target.body))
        copy.operation.attributes["sym_name"] = ir.StringAttr.get(f"{name}.{number}")
        op.attributes["decomposition"] = ir.FlatSymbolRefAttr.get(f"{name}.{number}")
