"""Names that people recognise for colours and groups of arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analysis.analyse import Analysis
from analysis.program import Program

_INDEX = re.compile(r"\[\d+\]|(?<=[._/])\d+(?=[._/]|$)")


def pattern(name: str) -> str:
    """An argument's path with the numbers of its layers starred: `['layers'][*]['gate']`."""
    return _INDEX.sub(lambda match: "[*]" if match[0].startswith("[") else "*", name)


def common_pattern(names: Sequence[str]) -> str:
    """One pattern for several argument names: the parts on which they agree."""
    patterns = list(dict.fromkeys(pattern(name) for name in names))
    if len(patterns) == 1:
        return patterns[0]
    pieces = [re.split(r"(?=[\[.])", item) for item in patterns]
    if len({len(piece) for piece in pieces}) != 1:
        return patterns[0] + f" and {len(patterns) - 1} more"
    joined = []
    for column in zip(*pieces, strict=True):
        joined.append(column[0] if len(set(column)) == 1 else "[*]")
    return "".join(joined)


def colour_names(analysis: Analysis) -> list[str]:
    """A name for each colour group: the largest argument that carries it, and the dimension.

    Groups that no argument carries are named after the op that defines them.
    """
    program, groups = analysis.program, analysis.groups
    names = [""] * groups.colours
    largest = [0] * groups.colours
    for argument in program.arguments:
        size = _elements(program, argument.value)
        for dim, name in enumerate(program.def_names(argument.value).tolist()):
            colour = int(analysis.colours.colour[name]) if name >= 0 else -1
            if colour < 0:
                continue
            group = int(groups.of_colour[colour])
            if size > largest[group]:
                largest[group] = size
                names[group] = f"{pattern(argument.name)}.{dim}"
    return _with_ops(analysis, names)


def _with_ops(analysis: Analysis, names: list[str]) -> list[str]:
    program, groups = analysis.program, analysis.groups
    for value in range(program.values):
        for dim, name in enumerate(program.def_names(value).tolist()):
            colour = int(analysis.colours.colour[name]) if name >= 0 else -1
            if colour >= 0 and not names[int(groups.of_colour[colour])]:
                op = int(program.value_op[value])
                names[int(groups.of_colour[colour])] = f"{program.kind(op)}#{op}.{dim}"
    return names


def _elements(program: Program, value: int) -> int:
    total = 1
    for size in program.shape(value):
        total *= size
    return total
