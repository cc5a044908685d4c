"""`toast inspect`: what the analysis finds in a module, for people and machines."""

from __future__ import annotations

from collections import Counter

from pydantic import BaseModel, ConfigDict

from analysis.analyse import Analysis, analyse
from analysis.load import Source, load
from analysis.locations import label, source_line
from analysis.program import PSEUDO, Program
from search.warm import warm_kernels
from toast.naming import colour_names, pattern


class Row(BaseModel):
    """Base of the rows of an inspection."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ColourRow(Row):
    """A colour group: `size` of its largest dimension, dimensions and ops that it touches."""

    name: str
    size: int
    dims: int
    colours: int
    arguments: list[str]
    ops: int


class ConflictRow(Row):
    """Two names of one colour on one tensor, and where they collide."""

    colour: str
    op: str
    location: str
    names: list[str]


class SetRow(Row):
    """A group of tied compatibility sets: one bit of a resolution order."""

    id: int
    colour: str
    conflicts: int
    tied: int
    description: str


class GroupRow(Row):
    """Arguments of repeated layers, planned alike."""

    name: str
    members: list[str]


class NoRuleRow(Row):
    """An op that keeps every dimension whole because nobody has a rule for it."""

    op: str
    count: int


class Inspection(Row):
    """All that `toast inspect` prints."""

    ops: int
    arguments: int
    values: int
    colours: list[ColourRow]
    conflicts: list[ConflictRow]
    sets: list[SetRow]
    groups: list[GroupRow]
    no_rule: list[NoRuleRow]
    warnings: list[str]
    stages: dict[str, float]


def inspect_module(module: bytes) -> Inspection:
    """Load and analyse a module. Runs in the calling process, which MLIR may abort."""
    warm_kernels()
    source = load(module)
    analysis = analyse(source.program)
    program = source.program
    names = colour_names(analysis)
    return Inspection(
        ops=sum(program.kind(op) not in PSEUDO for op in range(program.ops)),
        arguments=len(program.arguments),
        values=program.values,
        colours=_colours(analysis, names),
        conflicts=_conflicts(source, analysis, names),
        sets=_sets(source, analysis, names),
        groups=_groups(program),
        no_rule=[
            NoRuleRow(op=op, count=count)
            for op, count in sorted(program.no_rule.items(), key=lambda item: -item[1])
        ],
        warnings=list(source.warnings),
        stages={**source.seconds, **analysis.seconds},
    )


def _colours(analysis: Analysis, names: list[str]) -> list[ColourRow]:
    program = analysis.program
    arguments = _arguments_by_group(analysis)
    sizes, dims = [0] * len(names), [0] * len(names)
    ops: list[set[int]] = [set() for _ in names]
    tied = Counter(analysis.groups.of_colour.tolist())
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
            colours=tied[group],
            arguments=arguments.get(group, []),
            ops=len(ops[group]),
        )
        for group, name in enumerate(names)
    ]
    return sorted(rows, key=lambda row: (not row.arguments, -row.dims))


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


def _conflicts(source: Source, analysis: Analysis, names: list[str]) -> list[ConflictRow]:
    program = source.program
    rows = []
    for conflict in analysis.conflicts.all:
        group = int(analysis.groups.of_colour[conflict.colour])
        factors = [name - int(program.op_factors[conflict.op]) for name in conflict.names]
        rows.append(
            ConflictRow(
                colour=names[group],
                op=f"{program.kind(conflict.op)}#{conflict.op}",
                location=source_line(source.handles[conflict.op]),
                names=[f"factor {factor}" for factor in factors],
            )
        )
    return rows


def _sets(source: Source, analysis: Analysis, names: list[str]) -> list[SetRow]:
    conflicts, groups = analysis.conflicts, analysis.groups
    tied = Counter(groups.of_set.tolist())
    per_set = Counter(conflicts.set_of.tolist())
    first: dict[int, int] = {}
    for index, which in enumerate(conflicts.set_of.tolist()):
        first.setdefault(int(groups.of_set[which]), index)
    rows = []
    for group in range(groups.sets):
        index = first[group]
        conflict = conflicts.all[index]
        rows.append(
            SetRow(
                id=group,
                colour=names[int(groups.set_colour[group])],
                conflicts=per_set[int(conflicts.set_of[index])],
                tied=tied[group],
                description=_description(source, conflict.op, tied[group]),
            )
        )
    return rows


def _description(source: Source, op: int, places: int) -> str:
    handle = source.handles[op]
    where = label(handle) or source.program.kind(op)
    return f"shard the first or the second of two equal dimensions of {where}, {places} places"


def _groups(program: Program) -> list[GroupRow]:
    rows: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for argument in program.arguments:
        key = (pattern(argument.name), program.shape(argument.value))
        rows.setdefault(key, []).append(argument.name)
    return [GroupRow(name=key[0], members=names) for key, names in rows.items() if len(names) > 1]
