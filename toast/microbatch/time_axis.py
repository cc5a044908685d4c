"""A program with its batch in microbatches: read once, then written for any number of them.

MLIR may end the process over a module, so call this in one that may die.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any, Literal

from jaxlib.mlir import ir

from toast.analysis import rules
from toast.analysis.calls import resolve_calls
from toast.analysis.flatten import flatten_calls
from toast.analysis.types import check_static
from toast.microbatch.blocked import Blocked
from toast.microbatch.classify import Classifier
from toast.microbatch.colour import Colour, bits_of, shape_of
from toast.microbatch.kinds import FREE, Dependence, Kinds
from toast.microbatch.needs import LoopPhases, find_needs
from toast.microbatch.positions import Positions
from toast.microbatch.roles import Roles
from toast.microbatch.tree import Block, read_block
from toast.microbatch.writer import Writer
from toast.resize.equations import Equations
from toast.resize.relations import Reason
from toast.resize.sizes import NO_NODE, Node

Dimension = tuple[int, int]
"""An argument of `main`, by its number, and one of its dimensions."""
Accumulate = Literal["program", "f32"]
"""In which type sums over the microbatches are kept: the program's own, or at least f32."""


_NAME = "Name one, as in --microbatches 4@batch['x']:0."
_TRIED = 6
"""Leaves that are tried at most."""
_LEAST = 0.1
"""The batch has at least so many of the elements that the likeliest, or the largest, one has."""
_ENOUGH = 0.02
"""Of all elements of the program: the likeliest batch that has so many of them is taken at once."""
_SHARE = 0.5
"""Of the elements of all values that have the batch and need it, so many at least run in parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A value that the loop over the microbatches carries: its shape, and its type there."""

    shape: tuple[int, ...]
    dtype: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A batch that can run in parts: where the arguments have it, and what is proven."""

    colour: Colour
    dimensions: tuple[Dimension, ...]
    kinds: Kinds
    needs: LoopPhases
    roles: Roles
    module: ir.Module
    """What the values are of."""

    @property
    def size(self) -> int:
        """Elements of the batch that may be divided among the parts."""
        return self.colour.size

    @property
    def elements(self) -> int:
        """Elements of all values of which a microbatch has its own."""
        return self._elements_of(kind is Dependence.CUT for kind in self.kinds.of.values())

    @property
    def dependent(self) -> int:
        """Elements of all values that have the batch and are not the same without it."""
        return self._elements_of(
            kind not in FREE and bool(self.colour.places(value))
            for value, kind in self.kinds.of.items()
        )

    def _elements_of(self, chosen: Iterable[bool]) -> int:
        """Whole numbers are left out: the batch does not make random bits, though it has them."""
        values, sizes = self.colour.equations.values, self.colour.equations.sizes
        found = (value for value in compress(self.kinds.of, chosen) if not _is_whole(value))
        counted = Counter(values[value] for value in found)
        return sum(
            times * math.prod([sizes.read(node) for node in nodes])
            for nodes, times in counted.items()
        )

    def sums(self, accumulate: Accumulate) -> list[Carried]:
        """What is added up over the microbatches."""
        return [_carried(value, wide(accumulate)) for value in self.needs.sums]

    def stacks(self) -> list[Carried]:
        """What is written part by part."""
        return [_carried(value, wide("program")) for value in self.needs.stacks]


class TimeAxis:
    """One program, and the batches of it that can run in parts."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._equations = Equations()
        with module.context:
            calls = resolve_calls(module)
            check_static(calls)
            self._main = flatten_calls(calls)
            rules.populate(module)
            self._equations.read(self._main)
            self._block = read_block(self._main.regions[0].blocks[0])
            self._positions = Positions(self._block)
            self._join_counted()

    def _join_counted(self) -> None:
        """Examples that are picked by their number are as many as what they are picked from."""
        values, reason = self._equations.values, Reason(text="its indices count")
        for node in self._positions.nodes:
            for one in self._positions.of(node):
                picked, indices = values[node.operands[0]], values[node.operands[1]]
                self._equations.sizes.join([picked[one.dim]], [indices[one.beside]], reason)

    @property
    def block(self) -> Block:
        """The ops of the program."""
        return self._block

    @property
    def equations(self) -> Equations:
        """What is known of the dimensions of the program's values."""
        return self._equations

    def leaves(self, dimension: Dimension) -> list[Node]:
        """The leaves of a dimension of an argument, the major-most first."""
        argument, dim = dimension
        return self._equations.sizes.leaves(self._equations.arguments[0][argument][dim])

    def leaves_of_arguments(self) -> list[Node]:
        """All leaves of arguments' dimensions, in order."""
        arguments, sizes = self._equations.arguments[0], self._equations.sizes
        found = (leaf for nodes in arguments for node in nodes for leaf in sizes.leaves(node))
        return list(dict.fromkeys(found))

    def dimensions(self, leaf: Node) -> tuple[Dimension, ...]:
        """The arguments' dimensions that have a leaf."""
        return tuple(
            (argument, dim)
            for argument, nodes in enumerate(self._equations.arguments[0])
            for dim, node in enumerate(nodes)
            if leaf in self._equations.sizes.leaves(node)
        )

    def size(self, leaf: Node) -> int:
        """The elements of a leaf."""
        return self._equations.sizes.size[leaf]

    def named(self, dimension: Dimension, count: int = 1) -> Node:
        """The leaf of a dimension that a user names which so many parts divide evenly."""
        for leaf in self.leaves(dimension):
            if self.size(leaf) % count == 0:
                return leaf
        raise Blocked(
            None,
            f"{count} parts do not divide it",
            "Give a number of microbatches that divides the batch.",
        )

    def candidates(self) -> list[Node]:
        """Leaves that may be the batch, the likeliest first.

        That is one that data have, and at best no state: weights and their moments, of which
        results take the place. It leads a dimension 0 of data, and many elements have it.
        """
        arguments, sizes = self._equations.arguments[0], self._equations.sizes
        state = self._state()
        data = [nodes for number, nodes in enumerate(arguments) if number not in state]
        own = {
            leaf for number in state for node in arguments[number] for leaf in sizes.leaves(node)
        }
        elements = self._elements
        leading = {
            leaf for nodes in data for leaf in sizes.leaves(nodes[0] if nodes else NO_NODE)[:1]
        }
        found = {leaf for nodes in data for node in nodes for leaf in sizes.leaves(node)}
        return sorted(
            found, key=lambda leaf: (leaf in own, leaf not in leading, -elements[leaf], leaf)
        )

    def best(self) -> Cut:
        """The likeliest batch that can be cut; raises `Blocked` with what the likeliest lacks."""
        found: list[Cut] = []
        refused: Blocked | None = None
        elements, candidates = self._elements, self.candidates()
        few = _LEAST * elements[candidates[0]] if candidates else 0
        enough = _ENOUGH * elements[NO_NODE]
        for leaf in candidates[:_TRIED]:
            try:
                cut = self.cut(leaf)
            except Blocked as blocked:
                refused = refused or blocked
                continue
            if cut.elements >= max(few, _SHARE * cut.dependent):
                if not found and cut.elements >= enough:
                    return cut
                found.append(cut)
        if found:
            least = _LEAST * max(cut.elements for cut in found)
            return next(cut for cut in found if cut.elements >= least)
        raise refused or Blocked(None, "no dimension of its data is told apart as the batch", _NAME)

    def _state(self) -> set[int]:
        """Arguments with a result of their type."""
        made = {str(value.type) for value in self._block.yields}
        return {
            number for number, value in enumerate(self._block.arguments) if str(value.type) in made
        }

    @cached_property
    def _elements(self) -> Counter[Node]:
        """The elements of all values that have each leaf; of all values at `NO_NODE`.

        Whole numbers are not counted: random bits are many, and the batch does not make them.
        """
        sizes, found = self._equations.sizes, Counter[Node]()
        values = self._equations.values.items()
        counted = Counter(nodes for value, nodes in values if not _is_whole(value))
        for nodes, times in counted.items():
            leaves = [leaf for node in nodes for leaf in sizes.leaves(node)]
            whole = times * math.prod(sizes.size[leaf] for leaf in leaves)
            for leaf in {*leaves, NO_NODE}:
                found[leaf] += whole
        return found

    def cut(self, leaf: Node) -> Cut:
        """The proof that a leaf can be cut; raises `Blocked`."""
        colour = Colour(self._equations, leaf)
        with self._module.context:
            roles = Roles(colour, self._positions)
            kinds = Classifier(self._block, colour, roles).run()
            needs = find_needs(self._block, colour, roles, kinds)
        if not needs.inside:
            raise Blocked(None, "nothing of the program works along it")
        return Cut(
            colour=colour,
            dimensions=self.dimensions(leaf),
            kinds=kinds,
            needs=needs,
            roles=roles,
            module=self._module,
        )

    def write(self, cut: Cut, count: int, accumulate: Accumulate = "program") -> ir.Module:
        """The program in `count` microbatches, as a module of the same context."""
        with self._module.context:
            writer = Writer(
                self._block, cut.colour, cut.roles, cut.kinds, cut.needs, count, wide(accumulate)
            )
            made = writer.write(self._module, self._main)
            rules.drop(made)
            made.operation.verify()
        return made


def _is_whole(value: Any) -> bool:
    kind = value.type
    return isinstance(kind, ir.RankedTensorType) and isinstance(kind.element_type, ir.IntegerType)


def wide(accumulate: Accumulate) -> Any:
    """The type of elements in which those of a type are added up."""

    def widened(element: Any) -> Any:
        narrow = not isinstance(element, ir.IntegerType | ir.ComplexType) and bits_of(element) < 32
        return ir.F32Type.get(element.context) if accumulate == "f32" and narrow else element

    return widened


def _carried(value: Any, widened: Any) -> Carried:
    shape = shape_of(value)
    element = widened(ir.RankedTensorType(value.type).element_type)
    size = bits_of(element) // 8
    for one in shape:
        size *= one
    return Carried(shape=shape, dtype=str(element), bytes=size)
