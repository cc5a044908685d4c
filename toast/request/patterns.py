"""Arguments by pattern: `params/**/kernel`, a name as it stands, or an index."""

from __future__ import annotations

import difflib
import re

from toast.analysis.errors import InvalidRequest

_PARTS = re.compile(r"[^\[\]'\"./]+")


def path(name: str) -> str:
    """An argument's pytree path with slashes: `params['layers'][0]['w']` is `params/layers/0/w`."""
    return "/".join(_PARTS.findall(name))


def matching(pattern: str, names: list[str]) -> list[int]:
    """The numbers of the arguments that a pattern means; raises `InvalidRequest` for none.

    `*` matches within one step of a path, `**` any number of steps; a pattern may begin at any
    step.
    """
    pattern = pattern.strip()
    if pattern.isdigit():
        if int(pattern) >= len(names):
            raise InvalidRequest(
                f"There is no argument {pattern}.", f"The module has {len(names)} arguments."
            )
        return [int(pattern)]
    exact = [index for index, name in enumerate(names) if name == pattern]
    expression = re.compile(rf"(?:.*/)?{_expression(path(pattern))}")
    found = exact or [i for i, name in enumerate(names) if expression.fullmatch(path(name))]
    if not found:
        near = difflib.get_close_matches(path(pattern), [path(name) for name in names], 3, 0.3)
        hint = f"Near it: {', '.join(near)}." if near else "`toast inspect` lists the arguments."
        raise InvalidRequest(f"No argument matches {pattern!r}.", hint)
    return found


def _expression(pattern: str) -> str:
    steps = []
    for step in pattern.split("/"):
        if step == "**":
            steps.append(r"(?:[^/]+/)*")
        else:
            steps.append("".join("[^/]*" if c == "*" else re.escape(c) for c in step) + "/")
    return "".join(steps).removesuffix("/")
