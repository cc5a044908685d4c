"""`toast inspect`: what the analysis finds in a module, for people and machines."""

from __future__ import annotations

import time
from collections import Counter

from toast.analysis.analyse import Analysis, analyse
from toast.analysis.load import load
from toast.analysis.program import PSEUDO, Program
from toast.inspect.graph import set_graph
from toast.inspect.records import ColourRow, ConflictRow, GroupRow, Inspection, NoRuleRow
from toast.inspect.sets import SetTeller
from toast.labels.colours import colour_names
from toast.labels.conflict_words import ConflictWords
from toast.labels.layers import argument_patterns


def inspect_module(module: bytes, which: int = 0) -> Inspection:
    """Load and analyse a module; `graph` is that of set group `which`.

    Runs in the calling process, which MLIR may abort. Raises InvalidRequest where there is no
    such set.
    """
    source = load(module)
    analysis = analyse(source.program)
    program = source.program
    started = time.perf_counter()
    names, words = colour_names(analysis), ConflictWords(source, analysis)
    sets = SetTeller(analysis, names, words)
    parts = {
        "colours": _colours(analysis, names, words),
        "conflicts": _conflicts(analysis, names, words),
        "sets": [sets.row(number) for number in range(analysis.groups.sets)],
        "graph": set_graph(analysis, words, which),
    }
    spent = time.perf_counter() - started
    return Inspection(
        ops=sum(program.kind(op) not in PSEUDO for op in range(program.ops)),
        arguments=len(program.arguments),
        values=program.values,
        **parts,
        groups=_groups(program),
        no_rule=[
            NoRuleRow(op=op, count=count)
            for op, count in sorted(program.no_rule.items(), key=lambda item: -item[1])
        ],
        warnings=list(source.warnings),
        stages={**source.seconds, **analysis.seconds, "words": spent},
    )


def _colours(analysis: Analysis, names: list[str], words: ConflictWords) -> list[ColourRow]:
    program = analysis.program
    arguments = _arguments_by_group(analysis)
    sizes, dims = [0] * len(names), [0] * len(names)
    ops: list[set[int]] = [set() for _ in names]
    isomorphic = Counter(analysis.groups.of_colour.tolist())
    for op in range(program.ops):
        for name in program.factors_of(op):
            colour = int(analysis.colours.colour[name])
            if colour >= 0:
                group = int(analysis.groups.of_colour[colour])
                dims[group] += 1
                ops[group].add(op)
                sizes[group] = max(sizes[group], int(program.factor_size[name]))
    rows = [
        ColourRow(
            name=name,
            size=sizes[group],
            dims=dims[group],
            colours=isomorphic[group],
            arguments=arguments.get(group, []),
            ops=len(ops[group]),
            location=_first_line(program, words, ops[group]),
        )
        for group, name in enumerate(names)
    ]
    return sorted(rows, key=lambda row: (not row.arguments, -row.size, -row.dims))


def _first_line(program: Program, words: ConflictWords, ops: set[int]) -> str:
    """Where the first op that is not an argument comes from."""
    real = [op for op in ops if program.kind(op) not in PSEUDO]
    return words.line(min(real)) if real else ""


def _arguments_by_group(analysis: Analysis) -> dict[int, list[str]]:
    program = analysis.program
    found: dict[int, list[str]] = {}
    for argument in program.arguments:
        for dim, name in enumerate(program.def_names(argument.value).tolist()):
            colour = int(analysis.colours.colour[name]) if name >= 0 else -1
            if colour >= 0:
                group = int(analysis.groups.of_colour[colour])
                found.setdefault(group, []).append(f"{argument.name}.{dim}")
    return found


def _conflicts(analysis: Analysis, names: list[str], words: ConflictWords) -> list[ConflictRow]:
    program, groups = analysis.program, analysis.groups
    rows = []
    for index, conflict in enumerate(analysis.conflicts.all):
        tensor = words.tensor(conflict.op, conflict.names)
        ordered = conflict.names[:: -1 if analysis.conflicts.side[index] else 1]
        rows.append(
            ConflictRow(
                colour=names[int(groups.of_colour[conflict.colour])],
                set=int(groups.of_set[analysis.conflicts.set_of[index]]),
                op=f"{program.kind(conflict.op)}#{conflict.op}",
                tensor=words.shape(tensor),
                names=[words.dimension(conflict.op, name, tensor) for name in ordered],
                location=words.line(conflict.op),
            )
        )
    return rows


def _groups(program: Program) -> list[GroupRow]:
    rows: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for argument, pattern in zip(program.arguments, argument_patterns(program), strict=True):
        key = (pattern, program.shape(argument.value))
        rows.setdefault(key, []).append(argument.name)
    return [GroupRow(name=key[0], members=names) for key, names in rows.items() if len(names) > 1]
