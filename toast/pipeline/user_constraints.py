"""What the caller and the module demand of layouts, as pins of the evaluator.

A pin of the request comes before one of the module; both are kept to the letter. A sharding of the
module whose dimensions are all open is a hint: the plan may overrule it, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from toast.analysis.errors import InvalidMesh, InvalidRequest
from toast.analysis.facts import Sharding
from toast.analysis.hlosharding import tile_axes
from toast.analysis.load import Source
from toast.analysis.program import CONSTRAINT, Program
from toast.analysis.rules import REGION
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.program_facts import Layout, Pins
from toast.plans.plan import Pin, Spec
from toast.request.patterns import ArgumentNames

_HINT = "Write it as PATTERN=axis,None,... with one entry per dimension and + between axes."


@dataclass(slots=True, kw_only=True)
class Demands:
    """Layouts demanded of values and uses, axes forbidden to values, and hints on arguments.

    `targets` names each value or use for people; `sources` says who asked.
    """

    values: dict[int, Spec] = field(default_factory=dict)
    uses: dict[int, Spec] = field(default_factory=dict)
    forbidden: dict[int, int] = field(default_factory=dict)
    hints: dict[int, Spec] = field(default_factory=dict)
    targets: dict[int, tuple[str, str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def pins(self, mesh: Mesh) -> Pins:
        """The same by numbers of axes."""
        return Pins(
            values={value: _layout(spec, mesh) for value, spec in self.values.items()},
            uses={use: _layout(spec, mesh) for use, spec in self.uses.items()},
            forbidden=self.forbidden,
        )


def _layout(spec: Spec, mesh: Mesh) -> Layout:
    number = {axis.name: index for index, axis in enumerate(mesh.axes)}
    return tuple(tuple(number[axis] for axis in axes) for axes in spec)


def demands(source: Source, mesh: Mesh, pins: tuple[str, ...], forbid: tuple[str, ...]) -> Demands:
    """Gather what is demanded; raises `InvalidRequest` for a pin that cannot be kept."""
    found = Demands()
    _check_regions(source, mesh, found)
    _of_module(source, mesh, found)
    names = ArgumentNames([argument.name for argument in source.program.arguments])
    for text in pins:
        pattern, spec = _split(text, mesh)
        for index in names.matching(pattern):
            _pin_argument(source, mesh, index, spec, found)
    for text in forbid:
        pattern, spec = _split(text, mesh)
        mask = sum(1 << axis for axes in _layout(spec, mesh) for axis in axes)
        for index in names.matching(pattern):
            value = source.program.arguments[index].value
            found.forbidden[value] = found.forbidden.get(value, 0) | mask
    _share_buffers(source, found)
    return found


def _split(text: str, mesh: Mesh) -> tuple[str, Spec]:
    pattern, equals, layout = text.rpartition("=")
    if not equals or not pattern:
        raise InvalidRequest(f"{text!r} is not a pin.", _HINT)
    spec = [_axes(entry, text) for entry in layout.split(",")] if layout.strip() else []
    known = {axis.name for axis in mesh.axes}
    flat = [axis for axes in spec for axis in axes]
    for axis in flat:
        if axis not in known:
            raise InvalidRequest(
                f"The pin {text!r} names the axis {axis!r}, which the mesh {mesh} has not.",
                f"Its axes are {', '.join(sorted(known))}.",
            )
    if len(flat) != len(set(flat)):
        raise InvalidRequest(f"The pin {text!r} uses an axis twice.", _HINT)
    return pattern, spec


def _axes(entry: str, text: str) -> list[str]:
    entry = entry.strip()
    if entry in ("None", ""):
        return []
    axes = [axis.strip() for axis in entry.split("+")]
    if not all(axes):
        raise InvalidRequest(f"{text!r} is not a pin.", _HINT)
    return axes


def _pin_argument(source: Source, mesh: Mesh, index: int, spec: Spec, found: Demands) -> None:
    argument = source.program.arguments[index]
    shape = source.program.shape(argument.value)
    if len(spec) > len(shape):
        raise InvalidRequest(
            f"The pin on {argument.name!r} has {len(spec)} dimensions, the argument {len(shape)}.",
            _HINT,
        )
    spec = [*spec, *([] for _ in range(len(shape) - len(spec)))]
    problem = _indivisible(shape, spec, mesh)
    if problem:
        raise InvalidRequest(
            f"The pin on {argument.name!r} cannot be kept: {problem}.", "Choose other axes."
        )
    found.values[argument.value] = spec
    found.hints.pop(argument.value, None)
    found.targets[argument.value] = (argument.name, "request")


def _indivisible(shape: tuple[int, ...], spec: Spec, mesh: Mesh) -> str:
    sizes = {axis.name: axis.size for axis in mesh.axes}
    for dim, (size, axes) in enumerate(zip(shape, spec, strict=True)):
        shards = 1
        for axis in axes:
            shards *= sizes[axis]
        if size % shards:
            return f"dimension {dim} of size {size} is not divisible by {shards}"
    return ""


def _of_module(source: Source, mesh: Mesh, found: Demands) -> None:
    program, facts = source.program, source.facts
    lost = facts.dropped
    for index, sharding in facts.arguments.items():
        argument = program.arguments[index]
        spec = _spec(sharding, program.shape(argument.value), mesh)
        if spec is None:
            lost += 1
        elif sharding.required:
            found.values[argument.value] = spec
        else:
            found.hints[argument.value] = spec
        found.targets[argument.value] = (argument.name, "module")
    for index, sharding in facts.results.items():
        use = program.results[index].use
        spec = _spec(sharding, program.shape(program.sources[use]), mesh)
        if spec is None:
            lost += 1
        elif sharding.required:
            found.uses[use] = spec
    lost += _constraints(source, mesh, found)
    if lost:
        found.warnings.append(
            f"{lost} shardings of the module are not kept: they are on plain ops, or do not fit "
            f"the mesh {mesh}."
        )


def _check_regions(source: Source, mesh: Mesh, found: Demands) -> None:
    """The regions of `shard_map` are kept as they are, on the mesh that they were written for."""
    axes = tuple((axis.name, axis.size) for axis in mesh.axes)
    for region in source.regions.regions:
        if region.axes != axes:
            theirs = ",".join(f"{name}={size}" for name, size in region.axes)
            raise InvalidMesh(
                f"The module has a shard_map over the mesh {theirs}, which {mesh} is not.",
                f"Plan it for that: {theirs}.",
            )
    count = len(source.regions.regions)
    if count:
        kept = "One shard_map is" if count == 1 else f"{count} shard_maps are"
        found.warnings.append(
            f"{kept} kept whole. What is inside is priced as it is written, in every plan alike."
        )


def _constraints(source: Source, mesh: Mesh, found: Demands) -> int:
    """Pin the constraints inside the module; returns how many cannot be kept."""
    program, lost = source.program, 0
    for op in program.ops_named(CONSTRAINT):
        sharding = source.facts.constraints.get(op)
        value = program.values_of(op)[0]
        spec = None if sharding is None else _spec(sharding, program.shape(value), mesh)
        if sharding is None or spec is None:
            lost += 1
        elif sharding.required:
            use = program.uses_of(op)[0]
            found.values[value] = spec
            found.uses[use] = spec
            if program.kind(program.makers[program.sources[use]]).startswith(REGION):
                made = program.sources[use]
                found.values[made] = spec
                found.targets[made] = (f"{program.makers[made]}:shard_map", "module")
            found.targets[value] = (f"{op}:{CONSTRAINT}#0", "module")
            _lay_out_for_regions(program, op, spec, found)
    return lost


def _lay_out_for_regions(program: Program, op: int, spec: Spec, found: Demands) -> None:
    """A region reads what is constrained for it as it is constrained.

    So does the program an argument that nothing else reads: to slice it costs nothing, and the
    search would have no reason to keep a device's part of it only.
    """
    wanted = [
        use
        for use in _readers(program, program.values_of(op)[0])
        if program.kind(program.user(use)).startswith(REGION)
    ]
    found.uses |= dict.fromkeys(wanted, spec)
    given = program.sources[program.uses_of(op)[0]]
    name = next((one.name for one in program.arguments if one.value == given), None)
    if wanted and name is not None and len(_readers(program, given)) == 1:
        found.values[given] = spec
        found.targets[given] = (name, "module")


def _readers(program: Program, value: int) -> list[int]:
    starts, uses = program.readers
    found: list[int] = uses[starts[value] : starts[value + 1]].tolist()
    return found


def _spec(sharding: Sharding, shape: tuple[int, ...], mesh: Mesh) -> Spec | None:
    """The sharding on this mesh, or None where it does not fit it."""
    sizes = {axis.name: axis.size for axis in mesh.axes}
    spec: Spec | None
    if sharding.tiles is not None:
        axes = [(axis.name, axis.size) for axis in mesh.axes]
        spec = tile_axes(sharding.tiles, len(shape), axes)
    else:
        spec = [list(axes) for axes in sharding.spec or ()]
        used = {axis for axes in spec for axis in axes}
        if any(sizes.get(axis) != sharding.axes.get(axis) for axis in used):
            return None
    if spec is None or len(spec) != len(shape) or _indivisible(shape, spec, mesh):
        return None
    return spec


def _share_buffers(source: Source, found: Demands) -> None:
    """A result that takes over a pinned argument's buffer has its layout."""
    program = source.program
    for argument in program.arguments:
        if argument.aliases >= 0 and argument.value in found.values:
            use = program.results[argument.aliases].use
            found.uses.setdefault(use, found.values[argument.value])


def records(found: Demands, planned: dict[int, Spec]) -> list[Pin]:
    """What `plan.json` says of the demands; `planned` are the layouts of the values."""
    pins = [
        Pin(target=found.targets[v][0], spec=spec, source=_who(found, v), required=True, kept=True)
        for v, spec in found.values.items()
    ]
    hints = [
        Pin(
            target=found.targets[v][0],
            spec=spec,
            source=_who(found, v),
            required=False,
            kept=planned.get(v) == spec,
        )
        for v, spec in found.hints.items()
    ]
    return pins + hints


def overruled(pins: list[Pin]) -> list[str]:
    """A warning for each hint that the plan does not follow."""
    return [
        f"The module's hint on {pin.target}, {pin.spec}, was overruled: another layout is faster."
        for pin in pins
        if not pin.kept
    ]


def _who(found: Demands, value: int) -> Literal["request", "module"]:
    return "request" if found.targets[value][1] == "request" else "module"
