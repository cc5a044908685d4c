"""Indices that count: `x[arange(n), labels]` takes of each example its own.

There an index names the place of the example itself. A microbatch of x has its examples at other
places, so the index is counted anew. Which component of an index that is, is read here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.microbatch.colour import shape_of
from toast.microbatch.tree import Block, OpNode

_GATHER, _SCATTER = "stablehlo.gather", "stablehlo.scatter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The component of an index that counts along dimension `beside` of the indices.

    It is the index into dimension `dim` of what is read or written.
    """

    component: int
    vector: int
    dim: int
    beside: int


class Positions:
    """Finds the indices of a program that count."""

    def __init__(self, main: Block) -> None:
        self._makers: dict[Any, OpNode] = {}
        self.nodes: list[OpNode] = []
        self._read(main)
        self._known: dict[OpNode, tuple[Counted, ...]] = {}

    def of(self, node: OpNode) -> tuple[Counted, ...]:
        """What counts among the indices of a gather or a scatter."""
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = tuple(self._counted(node))
        return found

    def _read(self, block: Block) -> None:
        for node in block.nodes:
            self._makers.update(dict.fromkeys(node.results, node))
            if node.name == _GATHER or (node.name == _SCATTER and len(node.operands) == 3):
                self.nodes.append(node)
            for inner in node.blocks:
                self._read(inner)

    def _counted(self, node: OpNode) -> Iterator[Counted]:
        vector, dims = _index_dims(node)
        operand, indices = shape_of(node.operands[0]), shape_of(node.operands[1])
        for component, part in self._components(node.operands[1], vector, len(dims)):
            along = self._counts(part)
            if along is None or along == vector:
                continue
            if indices[along] == operand[dims[component]]:
                yield Counted(component=component, vector=vector, dim=dims[component], beside=along)

    def _components(self, indices: Any, vector: int, count: int) -> Iterator[tuple[int, Any]]:
        """The values that the components of an index come from, where these are joined."""
        maker = self._makers.get(indices)
        if count == 1:
            yield 0, indices
        elif maker is not None and maker.name == "stablehlo.concatenate":
            along = int(maker.op.attributes["dimension"].value)
            if along == vector and len(maker.operands) == count:
                yield from enumerate(maker.operands)

    def _counts(self, value: Any) -> int | None:
        """The dimension whose places a value's elements are."""
        node = self._makers.get(value)
        reader = None if node is None else _READERS.get(node.name)
        return None if node is None or reader is None else reader(self, node)

    def _iota(self, node: OpNode) -> int | None:
        return int(node.op.attributes["iota_dimension"].value)

    def _converted(self, node: OpNode) -> int | None:
        return self._counts(node.operands[0])

    def _spread(self, node: OpNode) -> int | None:
        found = self._counts(node.operands[0])
        if found is None:
            return None
        dim = int(node.op.attributes["broadcast_dimensions"][found])
        same = shape_of(node.operands[0])[found] == shape_of(node.results[0])[dim]
        return dim if same else None

    def _reshaped(self, node: OpNode) -> int | None:
        found = self._counts(node.operands[0])
        if found is None:
            return None
        before, after = shape_of(node.operands[0]), shape_of(node.results[0])
        ahead = math.prod(before[:found])
        for dim, size in enumerate(after):
            if size == before[found] and math.prod(after[:dim]) == ahead:
                return dim
        return None

    def _wrapped(self, node: OpNode) -> int | None:
        """What adds the size to numbers below zero changes none that counts."""
        compare = self._makers.get(node.operands[0])
        if compare is None or compare.name != "stablehlo.compare":
            return None
        less = "LT" in str(compare.op.attributes["comparison_direction"])
        if not less or compare.operands[0] != node.operands[2]:
            return None
        return self._counts(node.operands[2]) if self._is_zero(compare.operands[1]) else None

    def _is_zero(self, value: Any) -> bool:
        node = self._makers.get(value)
        if node is not None and node.name == "stablehlo.broadcast_in_dim":
            node = self._makers.get(node.operands[0])
        if node is None or node.name != "stablehlo.constant":
            return False
        attribute = node.op.attributes["value"]
        if not isinstance(attribute, ir.DenseIntElementsAttr) or not attribute.is_splat:
            return False
        return int(attribute[0]) == 0


def _index_dims(node: OpNode) -> tuple[int, list[int]]:
    """The dimension of an index's components, and what each of them is an index into."""
    attributes = node.op.attributes
    if node.name == _GATHER:
        numbers = stablehlo.GatherDimensionNumbers(attributes["dimension_numbers"])
        return numbers.index_vector_dim, list(numbers.start_index_map)
    numbers = stablehlo.ScatterDimensionNumbers(attributes["scatter_dimension_numbers"])
    return numbers.index_vector_dim, list(numbers.scattered_dims_to_operand_dims)


_READERS: dict[str, Callable[[Positions, OpNode], int | None]] = {
    "stablehlo.broadcast_in_dim": Positions._spread,
    "stablehlo.convert": Positions._converted,
    "stablehlo.iota": Positions._iota,
    "stablehlo.reshape": Positions._reshaped,
    "stablehlo.select": Positions._wrapped,
}
