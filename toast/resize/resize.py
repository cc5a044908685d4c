"""A program at other sizes: what a change of one dimension means for all others, written.

Dimensions that the ops want of one size stay of one size; sums, windows and parts follow. What an
op leaves no room for is kept, and `Resized.kept` says which op that was. Constants that depend on
a size (the 1/n of a mean) stay as they are: the new program computes something of the same shape
and cost, not the same function of a smaller batch. Loops run as often as before.

The ops are changed in place. MLIR may end the process over a module, so call this in one that may
die.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir

from toast.analysis import rules
from toast.analysis.calls import resolve_calls
from toast.analysis.errors import InvalidRequest, UnsupportedModule
from toast.analysis.flatten import flatten_calls
from toast.analysis.forms import bytecode
from toast.analysis.types import check_static
from toast.resize.attributes import Resizing, resize_attributes
from toast.resize.equations import Equations, Nodes, last
from toast.resize.relations import Divides, Reason
from toast.resize.solve import NewSizes, Solver

Dimension = tuple[int, int]
"""An argument of `main`, by its number, and one of its dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A size that an argument has, and what became of it; `kept` says why it stayed."""

    old: int
    new: int
    dimensions: tuple[Dimension, ...]
    kept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """New sizes: those of the arguments' dimensions, the largest first, and of all else."""

    changes: tuple[Change, ...]
    elements: tuple[int, int]
    """Elements of all values together, before and after."""
    sizes: NewSizes = field(repr=False)


class Resizer:
    """Sizes of one program, or of several that share the sizes of arguments and results."""

    def __init__(self, *modules: ir.Module) -> None:
        self._modules = modules
        self._equations = Equations()
        self._mains = []
        for module in modules:
            with module.context:
                calls = resolve_calls(module)
                check_static(calls)
                main = flatten_calls(calls)
                rules.populate(module)
                self._equations.read(main)
                rules.drop(module)
            self._mains.append(main)
        self._share()

    @property
    def arguments(self) -> list[Nodes]:
        """The nodes of the arguments' dimensions."""
        return self._equations.arguments[0]

    @property
    def results(self) -> list[Nodes]:
        """The nodes of the results' dimensions."""
        return self._equations.results[0]

    def solve(
        self,
        wanted: Mapping[Dimension, int] | None = None,
        default: Callable[[int], int] = lambda size: size,
        divides: Iterable[Divides] = (),
    ) -> Resized:
        """New sizes: those `wanted`, what follows from them, and `default` of any other.

        `divides` says how many parts some dimensions have to go into evenly. Raises
        `InvalidRequest` where a wanted size cannot be given, with the op that is in the way.
        """
        asked = dict(wanted or {})
        nodes = {self._node(dimension): size for dimension, size in asked.items()}
        solver = Solver(
            sizes=self._equations.sizes,
            relations=[*self._equations.relations, *divides],
            wanted=nodes,
            default=default,
            arguments=frozenset(node for argument in self.arguments for node in argument),
        )
        found = solver.run()
        for dimension, size in asked.items():
            self._check(dimension, size, found)
        return Resized(changes=self._changes(found), elements=self._elements(found), sizes=found)

    def write(self, resized: Resized) -> None:
        """Give the modules their new sizes; what was read of them is worth nothing afterwards.

        Raises `UnsupportedModule` where the outcome is no program.
        """
        for module, main in zip(self._modules, self._mains, strict=True):
            with module.context, ir.Location.unknown():
                _Writer(self._equations, resized.sizes).write(main)
                try:
                    module.operation.verify()
                except ir.MLIRError as error:
                    raise _wrong(error) from None

    def _share(self) -> None:
        """Several programs have the arguments and the results of the first."""
        reason = Reason(text="the programs differ in it")
        equations = self._equations
        for sides in (equations.arguments, equations.results):
            for other in sides[1:]:
                equations.together(other, sides[0], reason)

    def _node(self, dimension: Dimension) -> int:
        argument, dim = dimension
        try:
            return self.arguments[argument][dim]
        except IndexError:
            raise InvalidRequest(
                f"The program has no dimension {dim} of an argument {argument}.",
                "Both are counted from 0.",
            ) from None

    def _check(self, dimension: Dimension, size: int, found: NewSizes) -> None:
        node = self._node(dimension)
        if found.of(node) == size:
            return
        argument, dim = dimension
        reasons = [str(found.sizes.kept[one]) for one in found.sizes.leaves(node)
                   if one in found.sizes.kept]  # fmt: skip
        why = reasons[0] if reasons else "it consists of factors that do not divide the new size"
        old = found.sizes.read(node)
        raise InvalidRequest(
            f"Dimension {dim} of argument {argument} cannot be {size} in place of {old}: {why}.",
            "Lower the step again at that size.",
        )

    def _changes(self, found: NewSizes) -> tuple[Change, ...]:
        sizes = found.sizes
        places: dict[tuple[int, ...], list[Dimension]] = {}
        for argument, nodes in enumerate(self.arguments):
            for dim, node in enumerate(nodes):
                if leaves := tuple(sizes.leaves(node)):
                    places.setdefault(leaves, []).append((argument, dim))
        changes = []
        for leaves, dimensions in places.items():
            node = self._node(dimensions[0])
            kept = [str(sizes.kept[leaf]) for leaf in leaves if leaf in sizes.kept]
            old = sizes.read(node)
            changes.append(
                Change(
                    old=old,
                    new=found.of(node),
                    dimensions=tuple(dimensions),
                    kept=kept[0] if kept else "",
                )
            )
        return tuple(sorted(changes, key=lambda change: -change.old))

    def _elements(self, found: NewSizes) -> tuple[int, int]:
        before = after = 0
        shapes: dict[Nodes, tuple[int, int]] = {}
        old = found.sizes.size.__getitem__
        for nodes in self._equations.values.values():
            known = shapes.get(nodes)
            if known is None:
                whole = new = 1
                for node in nodes:
                    whole *= found.sizes.of(node, old)
                    new *= found.of(node)
                known = shapes[nodes] = whole, new
            before += known[0]
            after += known[1]
        return before, after


def resize(module: ir.Module, wanted: Mapping[Dimension, int]) -> tuple[bytes, Resized]:
    """The bytecode of `module` with dimensions of its arguments at other sizes.

    All dimensions that have to follow do; all others stay. `module` is changed.
    """
    resizer = Resizer(module)
    resized = resizer.solve(wanted)
    resizer.write(resized)
    return bytecode(module), resized


class _Writer:
    """Writes new sizes into one program, ops first and types last."""

    def __init__(self, equations: Equations, new: NewSizes) -> None:
        self._equations = equations
        self._new = new
        self._types: dict[Any, Any] = {}

    def write(self, main: Any) -> None:
        """Change the attributes and types of all ops, and the type of the function."""
        entry = main.regions[0].blocks[0]
        self._block(entry)
        inputs = [value.type for value in entry.arguments]
        results = [value.type for value in last(entry).operands]
        kind = ir.FunctionType.get(inputs, results)
        main.attributes["function_type"] = ir.TypeAttr.get(kind)

    def _block(self, block: Any) -> None:
        for value in block.arguments:
            self._retype(value)
        for view in block.operations:
            self._op(view.operation)

    def _op(self, op: Any) -> None:
        for region in op.regions:
            for block in region.blocks:
                if all(value in self._equations.values for value in block.arguments):
                    self._block(block)
        results = list(op.results)
        if not results or results[0] not in self._equations.values:
            return
        old = [self._old(value) for value in op.operands]
        new = [self._shape(value) for value in op.operands]
        made, result = self._old(results[0]), self._shape(results[0])
        if old != new or made != result:
            windows = self._equations.windows.get(results[0], ())
            numbers = tuple(one.numbers(self._new.of) for one in windows)
            resizing = Resizing(
                old=tuple(old),
                new=tuple(new),
                old_result=made,
                new_result=result,
                windows=numbers,
            )
            resize_attributes(op, resizing)
        for value in results:
            self._retype(value)

    def _shape(self, value: Any) -> tuple[int, ...]:
        return self._new.shape(self._equations.values[value])

    def _old(self, value: Any) -> tuple[int, ...]:
        sizes = self._new.sizes
        nodes = self._equations.values[value]
        return tuple([sizes.read(node) for node in nodes])

    def _retype(self, value: Any) -> None:
        shape = self._shape(value)
        if shape == self._old(value):
            return
        kind = ir.RankedTensorType(value.type)
        key = (shape, str(kind.element_type))
        if key not in self._types:
            self._types[key] = ir.RankedTensorType.get(list(shape), kind.element_type)
        value.set_type(self._types[key])


def _wrong(error: Any) -> UnsupportedModule:
    found = [
        f"{diagnostic.message} at {diagnostic.location}" for diagnostic in error.error_diagnostics
    ]
    said = found[0][:300] if found else str(error).splitlines()[0]
    return UnsupportedModule(
        f"The program cannot be had at other sizes: {said}.",
        "Lower the step again at the sizes wanted.",
    )
