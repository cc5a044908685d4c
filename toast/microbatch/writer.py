"""Writes the program whose batch runs in parts: what is before the loop, the loop, what is after.

Ops are copied from the program, which stays as it is, so that it can be written with another number
of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func
from jaxlib.mlir.dialects import stablehlo as hlo

from toast.microbatch.build import Build
from toast.microbatch.classify import PAIRWISE
from toast.microbatch.colour import Colour, shape_of
from toast.microbatch.kinds import Dependence, Kinds
from toast.microbatch.needs import LoopPhases, LoopVersion
from toast.microbatch.roles import Roles
from toast.microbatch.tree import WHILE, Block, OpNode
from toast.resize.attributes import Resizing, resize_attributes

_KEPT_ATTRIBUTES = frozenset({"function_type", "sym_name"})
_WINDOWED = frozenset(
    f"stablehlo.{name}" for name in ("convolution", "reduce_window", "select_and_scatter")
)
"""Ops whose windows are not along the colour."""
_INDEXED = frozenset({"stablehlo.gather", "stablehlo.scatter"})
Wide = Callable[[Any], Any]
"""The type of elements in which those of a type are added up."""


class Writer:
    """Writes one program with so many microbatches."""

    def __init__(
        self,
        main: Block,
        colour: Colour,
        roles: Roles,
        kinds: Kinds,
        needs: LoopPhases,
        count: int,
        wide: Wide,
    ) -> None:
        self._main = main
        self._colour = colour
        self._roles = roles
        self._kinds = kinds
        self._needs = needs
        self._count = count
        self._wide = wide
        self._build = Build(colour, count)
        self._before: dict[Any, Any] = {}
        self._parts: dict[Any, Any] = {}
        self._wholes: dict[Any, Any] = {}
        self._after: dict[Any, Any] = {}
        self._time: Any = None

    def write(self, source: ir.Module, main: Any) -> ir.Module:
        """The module; the context of the source is current."""
        loc = ir.Location.name("microbatches")
        with loc:
            module = ir.Module.create(source.operation.location)
            for name in source.operation.attributes:
                key = name.name if hasattr(name, "name") else name
                module.operation.attributes[key] = source.operation.attributes[key]
            for view in source.body.operations:
                if view.operation.name != "func.func":
                    view.operation.clone(ip=ir.InsertionPoint(module.body))
            with ir.InsertionPoint(module.body), main.location:
                kind = ir.TypeAttr(main.attributes["function_type"]).value
                made = func.FuncOp("main", ir.FunctionType(kind))
            for name in main.attributes:
                key = name.name if hasattr(name, "name") else name
                if key not in _KEPT_ATTRIBUTES:
                    made.operation.attributes[key] = main.attributes[key]
            self._body(made, main)
        return module

    def _body(self, made: Any, main: Any) -> None:
        entry = main.regions[0].blocks[0]
        locations = [value.location for value in entry.arguments]
        types = [value.type for value in entry.arguments]
        block = ir.Block.create_at_start(made.regions[0], types, locations)
        self._before = dict(zip(self._main.arguments, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for node in self._main.nodes:
                if node in self._needs.before:
                    _copy_outside(node, self._before)
            if self._needs.outputs:
                self._loop()
            self._after = self._before | self._after
            for node in self._main.nodes:
                if node in self._needs.after:
                    _copy_outside(node, self._after)
            func.ReturnOp([self._after[value] for value in self._main.yields])

    def _loop(self) -> None:
        needs, build = self._needs, self._build
        sliced = [value for value in needs.sliced if value in self._before]
        carried: list[Any] = [build.number(0)]
        carried += [self._before[value] for value in needs.imports]
        carried += [build.split(self._before[value], self._place(value)) for value in sliced]
        outputs = [build.zeros(self._carried_type(value)) for value in needs.outputs]
        first = len(carried)
        carried += outputs
        types = [value.type for value in carried]
        loop = ir.Operation.create("stablehlo.while", results=types, operands=carried, regions=2)
        unknown = [ir.Location.name("microbatches")] * len(types)
        condition = loop.regions[0].blocks.append(*types, arg_locs=unknown)
        with ir.InsertionPoint(condition):
            build.less(condition.arguments[0])
        body = loop.regions[1].blocks.append(*types, arg_locs=unknown)
        with ir.InsertionPoint(body):
            self._turn(list(body.arguments), sliced, first)
        for value, made in zip(needs.outputs, list(loop.results)[first:], strict=True):
            self._after[value] = self._finished(value, made)

    def _place(self, value: Any) -> Any:
        return self._colour.place(value)

    def _carried_type(self, value: Any) -> Any:
        """The type of a sum, or of the parts of a stack, while the loop runs."""
        kind = ir.RankedTensorType(value.type)
        if self._kinds.of[value] is Dependence.CUT:
            return self._build.split_type(value)
        if self._kinds.of[value] is Dependence.SUM:
            return ir.RankedTensorType.get(list(kind.shape), self._wide(kind.element_type))
        return kind

    def _turn(self, given: list[Any], sliced: list[Any], first: int) -> None:
        """The body of the loop: one microbatch."""
        needs, build = self._needs, self._build
        self._time = given[0]
        ahead = 1 + len(needs.imports)
        self._wholes = dict(zip(needs.imports, given[1:ahead], strict=True))
        for value, whole in zip(sliced, given[ahead:first], strict=True):
            self._parts[value] = build.part(whole, value, self._time)
        for node in self._main.nodes:
            self._inside(node)
        yields = [build.next(self._time), *given[1:first]]
        for value, carried in zip(needs.outputs, given[first:], strict=True):
            yields.append(self._joined(value, carried))
        hlo.ReturnOp(yields)

    def _joined(self, value: Any, carried: Any) -> Any:
        """What the loop hands on, with what this microbatch makes of it."""
        kind = self._kinds.of[value]
        if kind is Dependence.CUT:
            return self._build.put(carried, self._parts[value], value, self._time)
        if kind is Dependence.SUM:
            part = self._wholes[value]
            if part.type != carried.type:
                part = hlo.ConvertOp(carried.type, part).result
            return hlo.AddOp(carried, part).result
        return self._wholes[value]

    def _finished(self, value: Any, made: Any) -> Any:
        if self._kinds.of[value] is Dependence.CUT:
            return hlo.ReshapeOp(value.type, made).result
        return made if made.type == value.type else hlo.ConvertOp(value.type, made).result

    def _inside(self, node: OpNode) -> None:
        """An op in the loop, in the versions that are wanted."""
        for version in sorted(self._needs.inside.get(node, ()), key=lambda one: one.value):
            with node.op.location:
                self._version(node, version)
        for value in node.results:
            if value in self._needs.sliced and value not in self._parts:
                split = self._build.split(self._wholes[value], self._place(value))
                self._parts[value] = self._build.part(split, value, self._time)

    def _version(self, node: OpNode, version: LoopVersion) -> None:
        if node.name == PAIRWISE:
            self._barrier(node, version)
        elif node.blocks and version is LoopVersion.PART:
            self._control(node)
        elif all(self._kinds.is_free(value) for value in node.results) and (
            version is LoopVersion.WHOLE
        ):
            copy_node(node, self._wholes)
        else:
            self._cut(node)

    def _barrier(self, node: OpNode, version: LoopVersion) -> None:
        pairs = [
            (value, made)
            for value, made in zip(node.operands, node.results, strict=True)
            if version in self._needs.wanted.get(made, ())
        ]
        values = self._parts if version is LoopVersion.PART else self._wholes
        held = hlo.OptimizationBarrierOp([values[value] for value, _ in pairs])
        values.update(zip([made for _, made in pairs], held.results, strict=True))

    def _part_or_whole(self, value: Any, *, parts: bool) -> Any:
        return self._parts[value] if parts and self._place(value) else self._wholes[value]

    def _cut(self, node: OpNode) -> None:
        """An op on the elements of a microbatch."""
        if node.name == "stablehlo.iota":
            self._parts[node.results[0]] = self._build.iota(node, self._time)
            return
        cut = [value for value in node.read if self._kinds.of[value] is Dependence.CUT]
        made_parts = any(self._kinds.of[value] is not Dependence.SUM for value in node.results)
        parts = bool(cut) or made_parts
        operands = [self._part_or_whole(value, parts=parts) for value in node.operands]
        counted = self._roles.counted(node) if node.name in _INDEXED else None
        if counted is not None:
            operands[1] = self._build.counted(operands[1], counted)
        made = node.op.clone(ip=ir.InsertionPoint.current)
        for number, value in enumerate(operands):
            made.operands[number] = value
        for value in node.captured:
            _replace_within(made, value, self._wholes[value])
        for value, result in zip(node.results, made.results, strict=True):
            summed = self._kinds.of[value] is Dependence.SUM
            if not summed:
                result.set_type(self._build.part_type(value))
            (self._wholes if summed else self._parts)[value] = result
        if node.name not in _WINDOWED:
            resize_attributes(made, _resizing(node, made))

    def _control(self, node: OpNode) -> None:
        if node.name == WHILE:
            self._while(node)
        else:
            self._branches(node)

    def _carry(self, value: Any, like: Any) -> Any:
        """A value in the version that a loop or branch holds of another."""
        cut = self._kinds.of[like] is Dependence.CUT
        return self._parts[value] if cut else self._wholes[value]

    def _set(self, olds: Sequence[Any], news: Sequence[Any]) -> None:
        for old, new in zip(olds, news, strict=False):
            (self._parts if self._kinds.of[old] is Dependence.CUT else self._wholes)[old] = new

    def _while(self, node: OpNode) -> None:
        body = node.blocks[1]
        pairs = list(zip(node.operands, body.arguments, strict=True))
        carried = [self._carry(value, like) for value, like in pairs]
        timed, outside = node in self._needs.timed, self._time
        if timed:
            carried.append(outside)
        types = [value.type for value in carried]
        loop = ir.Operation.create(
            node.name,
            results=types,
            operands=carried,
            regions=2,
            attributes=_attributes(node.op),
            loc=node.op.location,
        )
        for block, region in zip(node.blocks, loop.regions, strict=True):
            locations = [value.location for value in block.arguments]
            locations += [node.op.location] * timed
            made = region.blocks.append(*types, arg_locs=locations)
            self._set(block.arguments, list(made.arguments))
            with ir.InsertionPoint(made):
                self._time = made.arguments[len(types) - 1] if timed else outside
                for inner in block.nodes:
                    self._inside(inner)
                if block is body:
                    ends = zip(body.yields, body.arguments, strict=True)
                    yields = [self._carry(value, like) for value, like in ends]
                    hlo.ReturnOp([*yields, *([self._time] if timed else [])])
                else:
                    hlo.ReturnOp([self._wholes[block.yields[0]]])
        self._time = outside
        for value, like, result in zip(node.results, body.arguments, loop.results, strict=False):
            cut = self._kinds.of[like] is Dependence.CUT
            (self._parts if cut else self._wholes)[value] = result

    def _branches(self, node: OpNode) -> None:
        types = [
            self._build.part_type(value) if self._kinds.of[value] is Dependence.CUT else value.type
            for value in node.results
        ]
        made = ir.Operation.create(
            node.name,
            results=types,
            operands=[self._wholes[node.operands[0]]],
            regions=len(node.blocks),
            attributes=_attributes(node.op),
            loc=node.op.location,
        )
        for block, region in zip(node.blocks, made.regions, strict=True):
            with ir.InsertionPoint(region.blocks.append()):
                for inner in block.nodes:
                    self._inside(inner)
                ends = zip(block.yields, node.results, strict=True)
                hlo.ReturnOp([self._carry(value, like) for value, like in ends])
        self._set(node.results, list(made.results))


def _copy_outside(node: OpNode, values: dict[Any, Any]) -> None:
    """Write an op before or behind the loop; what is there of a barrier goes through."""
    if node.name != PAIRWISE:
        copy_node(node, values)
        return
    for value, made in zip(node.operands, node.results, strict=True):
        if value in values:
            values.setdefault(made, values[value])


def copy_node(node: OpNode, values: dict[Any, Any]) -> None:
    """Write an op as it is on other `values`, and note what it makes there."""
    made = node.op.clone(ip=ir.InsertionPoint.current)
    for number, value in enumerate(node.operands):
        made.operands[number] = values[value]
    for value in node.captured:
        _replace_within(made, value, values[value])
    values.update(zip(node.results, made.results, strict=True))


def _attributes(op: Any) -> dict[str, Any]:
    names = [name.name if hasattr(name, "name") else name for name in op.attributes]
    return {name: op.attributes[name] for name in names}


def _resizing(node: OpNode, made: Any) -> Resizing:
    return Resizing(
        old=tuple([shape_of(value) for value in node.operands]),
        new=tuple([shape_of(value) for value in made.operands]),
        old_result=shape_of(node.results[0]),
        new_result=shape_of(made.results[0]),
    )


def _replace_within(op: Any, old: Any, new: Any) -> None:
    """Let what the regions of an op read be another value."""
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                inner = view.operation
                inner.replace_uses_of_with(old, new)
                _replace_within(inner, old, new)
