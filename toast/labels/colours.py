"""Names that people recognise for colours and groups of arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from toast.analysis.analyse import Analysis
from toast.analysis.program import Ints, Program
from toast.costmodel.program_facts import spans
from toast.labels.layers import argument_patterns
from toast.labels.value_flow import ValueFlow
from toast.request.patterns import starred

Carrier = tuple[int, int]
"""An argument (by number) and one of its dimensions."""


def colour_names(analysis: Analysis) -> list[str]:
    """A name for each colour group: the chief argument that carries it, and the dimension.

    The chief argument is the largest; of equals one that feeds contractions, then the one with
    the most uses: a weight before its moments. Groups that no argument carries are named after
    the op that defines them.
    """
    carriers, rank = _carriers(analysis), _ranks(analysis.program)
    patterns = argument_patterns(analysis.program)
    chosen: dict[int, tuple[list[str], int]] = {}
    for group, held in carriers.items():
        chief, dim = max(held, key=lambda carrier: (rank[carrier[0]], -carrier[0], -carrier[1]))
        arguments = analysis.program.arguments
        alike = [number for number, other in held if other == dim]
        same = [number for number in alike if patterns[number] == patterns[chief]]
        chosen[group] = ([arguments[number].name for number in same], dim)
    names = [""] * analysis.groups.colours
    for group, (members, dim) in chosen.items():
        names[group] = f"{starred(members)}.{dim}"
    for group in _repeated(names):
        members, dim = chosen[group]
        names[group] = f"{starred(members, listed=True)}.{dim}"
    return _with_ops(analysis, names)


def _carriers(analysis: Analysis) -> dict[int, list[Carrier]]:
    """The arguments and dimensions that carry each colour group."""
    program, found = analysis.program, dict[int, list[Carrier]]()
    values = np.array([argument.value for argument in program.arguments], dtype=np.int64)
    first = program.value_dims[values]
    ranks = program.value_dims[values + 1] - first
    names = program.dim_name[spans(first, ranks)]
    number = np.repeat(np.arange(len(values)), ranks)
    dim = spans(np.zeros_like(ranks), ranks)
    group = groups_of(analysis, names)
    for one, argument, place in zip(group.tolist(), number.tolist(), dim.tolist(), strict=True):
        if one >= 0:
            found.setdefault(one, []).append((argument, place))
    return found


def groups_of(analysis: Analysis, names: Ints) -> Ints:
    """The colour groups of some names, -1 for none; so too for names that are -1."""
    colours = np.where(names >= 0, analysis.colours.colour[names], -1)
    found: Ints = np.append(analysis.groups.of_colour, -1)[colours]
    return found


def _ranks(program: Program) -> list[tuple[int, bool, int]]:
    """For each argument what makes it the one to name a colour after."""
    values = [argument.value for argument in program.arguments]
    starts, _ = program.readers
    feeding, uses = ValueFlow(program).feeding[values].tolist(), np.diff(starts)[values].tolist()
    return list(zip([program.elements[value] for value in values], feeding, uses, strict=True))


def _repeated(names: Sequence[str]) -> list[int]:
    """The groups whose name another group has too."""
    counts = Counter(names)
    return [group for group, name in enumerate(names) if name and counts[name] > 1]


def _with_ops(analysis: Analysis, names: list[str]) -> list[str]:
    """Name what no argument carries: after a dimension of a result, else a factor of an op."""
    program = analysis.program
    if all(names):
        return names
    for group, place in _firsts(groups_of(analysis, program.dim_name)):
        if not names[group]:
            value = int(np.searchsorted(program.value_dims, place, side="right")) - 1
            op, dim = program.makers[value], place - int(program.value_dims[value])
            names[group] = f"{program.kind(op)}#{op}.{dim}"
    for group, factor in _firsts(np.append(analysis.groups.of_colour, -1)[analysis.colours.colour]):
        if not names[group]:
            op = int(np.searchsorted(program.op_factors, factor, side="right")) - 1
            index = factor - int(program.op_factors[op])
            names[group] = f"{program.kind(op)}#{op}.factor{index}"
    return names


def _firsts(groups: Ints) -> Iterator[tuple[int, int]]:
    """Each group, and the first place that it has."""
    first = np.full(int(groups.max(initial=-1)) + 1, -1)
    there = np.flatnonzero(groups >= 0)[::-1]
    first[groups[there]] = there  # of several the last that is written stays
    for group in np.flatnonzero(first >= 0).tolist():
        yield group, int(first[group])
