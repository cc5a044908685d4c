"""Locations of ops: the name stacks that JAX gives them, kept where ops are moved or copied."""

from __future__ import annotations

import re
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.calls import Calls, calls_in, inline
from toast.analysis.operations import operations_within

_LINE = re.compile(r'"([^"]+)":(\d+):\d+')
_FORWARD = "jvp("
_AGAIN = "rematted_computation"
"""What JAX calls a scope of ops that run again."""


def label_of(location: Any) -> str:
    """The name stack of a location, '' where it has none."""
    return str(location.name_str) if isinstance(location, ir.NameLoc) else ""


def line_of(location: Any) -> str:
    """`gpt.py:61`, or '' where nothing is known."""
    line = _LINE.search(str(location))
    return f"{line[1].rsplit('/', 1)[-1]}:{line[2]}" if line and line[1] != "-" else ""


def words_for(op: ir.Operation) -> str:
    """An op for people: what it is, and its line."""
    called = ""
    if op.name == "stablehlo.custom_call":
        called = f" {ir.StringAttr(op.attributes['call_target_name']).value}"
    line = line_of(op.location)
    return f"{op.name.removeprefix('stablehlo.')}{called}{f' at {line}' if line else ''}"


def flatten_with_names(calls: Calls) -> ir.Operation:
    """Inline every call, callee first; what a call brings is named after the call.

    The ops of helpers such as `jnp.where` have names that say nothing of where they are called.
    """
    for function in calls.functions.values():
        for call, callee in calls_in(function):
            outer = call.location
            known: dict[Any, Any] = {}
            for op in inline(call, calls.functions[callee]):
                for one in (op, *operations_within(op)):
                    own = one.location
                    if own.attr not in known:
                        known[own.attr] = _within(own, outer)
                    one.location = known[own.attr]
    for function in calls.functions.values():
        if function is not calls.main:
            function.erase()
    calls.functions = {"main": calls.main}
    return calls.main


def _within(own: Any, call: Any) -> Any:
    label = "/".join(filter(None, (label_of(call), label_of(own))))
    lines = own if line_of(own) else call
    child = lines.child_loc if isinstance(lines, ir.NameLoc) else lines
    return ir.Location.name(label, child) if label else child


def named_again(location: Any) -> Any:
    """The location of a copy in the backward pass, named as JAX names what it recomputes."""
    label = label_of(location)
    if not label:
        return location
    steps = _transposed(label).rsplit("/", 1)
    return ir.Location.name("/".join([*steps[:-1], _AGAIN, steps[-1]]), location.child_loc)


def _transposed(label: str) -> str:
    """A name stack with `transpose(...)` around its `jvp(...)`."""
    start = label.find(_FORWARD)
    if start < 0 or "transpose(" in label:
        return label
    depth = 0
    for place in range(start, len(label)):
        depth += (label[place] == "(") - (label[place] == ")")
        if depth == 0 and label[place] == ")":
            inner = label[start : place + 1]
            return f"{label[:start]}transpose({inner}){label[place + 1 :]}"
    return label
