"""What a program says of its arguments and results: names, and attributes by number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

_NAME = re.compile(r'loc\("((?:[^"\\]|\\.)*)"[()]')


def argument_names(main: ir.Operation, given: Sequence[str] | None) -> list[str]:
    """The names of a function's own parameters, with the paths of their leaves.

    They are the module's locations; where those are lost, what came beside the module (`given`).
    """
    block = main.regions[0].blocks[0]
    beside = list(given or ())
    attributes = dictionaries(main, "arg_attrs", len(block.arguments))
    extra = sum("jax.global_constant" in item for item in attributes)
    if len(beside) + extra != len(block.arguments):
        beside, extra = [], 0
    names = []
    for index, argument in enumerate(block.arguments):
        told = name_in(argument.location)
        other = beside[index - extra] if beside and index >= extra else f"arg{index}"
        names.append(other if told is None else told)
    return names


def name_in(location: Any) -> str | None:
    """The name that a location begins with; None where it has none."""
    match = _NAME.match(str(location))
    return match[1] if match else None


def dictionaries(main: ir.Operation, name: str, count: int) -> list[Any]:
    """The attributes of each argument (`arg_attrs`) or result (`res_attrs`) of a function."""
    if name not in main.attributes:
        return [{}] * count
    return list(ir.ArrayAttr(main.attributes[name]))
