"""What cutting the colour means at one op: results along it, a sum over it, or nothing exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy, stablehlo

from toast.analysis.rules import RULE, own_rule
from toast.microbatch.colour import Colour, ColourPlace, shape_of
from toast.microbatch.positions import Counted, Positions
from toast.microbatch.tree import OpNode


class BatchRole(Enum):
    """How the results of an op on a microbatch compare with those on the whole batch."""

    ALONG = "along"
    """They are the same elements of them."""
    SUMMED = "summed"
    """Those of all microbatches add up to them."""


Found = BatchRole | str
"""A role, or the reason why there is none."""
_MEETS = "the batch meets itself in it"
WHOLE = "it needs the whole batch at once"
_UNKNOWN = "nobody knows how it treats the parts of a batch"
_DENIED = frozenset(
    f"stablehlo.{name}"
    for name in (
        "custom_call",
        "get_dimension_size",
        "get_tuple_element",
        "infeed",
        "outfeed",
        "recv",
        "rng",
        "rng_bit_generator",
        "send",
        "tuple",
    )
)
"""Ops that make something else of a part, whatever Shardy's rule of them says."""
_REGROUPING = frozenset({"stablehlo.reshape"})
"""Ops that join or split dimensions."""


class Roles:
    """The roles of ops for one colour; ops have their sharding rules attached."""

    def __init__(self, colour: Colour, positions: Positions) -> None:
        self._colour = colour
        self._positions = positions
        self._rules: dict[Any, _Factors] = {}
        self._known: dict[OpNode, Found] = {}

    def of(self, node: OpNode) -> Found:
        """The role of an op, control flow excepted."""
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._of(node)
        return found

    def _of(self, node: OpNode) -> Found:
        if node.name in _DENIED or node.blocks:
            return _UNKNOWN
        values = [*node.operands, *node.results]
        if any(len(self._colour.places(value)) > 1 for value in values):
            return _MEETS
        special = _SPECIAL.get(node.name)
        if special is None:
            return self._ruled(node)
        return special(self, node) if node.name in _REGROUPING or self._alike(values) else WHOLE

    def _alike(self, values: Sequence[Any]) -> bool:
        """Whether all that have the colour have it between the same factors of a dimension."""
        places = [place for place in map(self._place, values) if place is not None]
        return len({(place.before, place.behind) for place in places}) == 1

    def _place(self, value: Any) -> ColourPlace | None:
        return self._colour.place(value)

    def _ruled(self, node: OpNode) -> Found:
        """By the factors of the op's sharding rule: all that have the colour are one factor."""
        factors = self._factors(node)
        if factors is None:
            return _UNKNOWN
        used: set[tuple[int, int]] = set()
        for value, dims in zip([*node.operands, *node.results], factors.tensors, strict=True):
            place = self._place(value)
            if place is not None:
                used.add(_factor_at(place, dims[place.dim], factors.sizes))
        if len(used) != 1:
            return _MEETS
        ((one, _),) = used
        if one < 0 or one in factors.whole or not self._complete(node, factors, one):
            return WHOLE
        made = any(self._place(value) is not None for value in node.results)
        if made:
            along = all(self._place(value) is not None for value in node.results)
            return BatchRole.ALONG if along else WHOLE
        return BatchRole.SUMMED if one in factors.reduced and adds(node) else WHOLE

    def _complete(self, node: OpNode, factors: _Factors, one: int) -> bool:
        """Whether all dimensions of a factor have the colour."""
        for value, dims in zip([*node.operands, *node.results], factors.tensors, strict=True):
            place = self._place(value)
            if place is None and any(one in dim for dim in dims):
                return False
        return True

    def _factors(self, node: OpNode) -> _Factors | None:
        attributes = node.op.attributes
        if RULE in attributes:
            attribute = attributes[RULE]
            if attribute not in self._rules:
                self._rules[attribute] = _parsed(attribute)
            return self._rules[attribute]
        shapes = [shape_of(value) for value in node.operands]
        rule = own_rule(node.name, shapes, [shape_of(value) for value in node.results])
        if not rule.known:
            return None
        return _Factors(rule.sizes, (*rule.operands, *rule.results), frozenset(), frozenset())

    def _reshape(self, node: OpNode) -> Found:
        """The colour has as many elements before it, in all dimensions together, as before."""
        before, after = self._place(node.operands[0]), self._place(node.results[0])
        if before is None or after is None:
            return WHOLE
        ahead = _ahead(shape_of(node.operands[0]), before)
        return BatchRole.ALONG if ahead == _ahead(shape_of(node.results[0]), after) else WHOLE

    def _full(self, *values: Any) -> bool:
        """Whether the values that have the colour have it in the same dimension, or none has."""
        places = {self._place(value) for value in values}
        return len(places) == 1

    def _slice(self, node: OpNode) -> Found:
        """Taken whole along the colour, and in the order that it has."""
        if not self._full(node.operands[0], node.results[0]):
            return WHOLE
        place = self._place(node.operands[0])
        assert place is not None
        start = node.op.attributes["start_indices"][place.dim]
        return BatchRole.ALONG if int(start) == 0 else WHOLE

    def _pad(self, node: OpNode) -> Found:
        if not self._full(node.operands[0], node.results[0]):
            return WHOLE
        place = self._place(node.operands[0])
        assert place is not None
        names = ("edge_padding_low", "edge_padding_high", "interior_padding")
        padded = any(int(node.op.attributes[name][place.dim]) for name in names)
        return WHOLE if padded else BatchRole.ALONG

    def _concatenate(self, node: OpNode) -> Found:
        if not self._full(*node.operands, *node.results):
            return WHOLE
        place = self._place(node.results[0])
        assert place is not None
        along = int(node.op.attributes["dimension"].value)
        return WHOLE if place.dim == along else BatchRole.ALONG

    def _reverse(self, node: OpNode) -> Found:
        place = self._place(node.results[0])
        turned = {int(dim) for dim in node.op.attributes["dimensions"]}
        if place is None or place.dim in turned:
            return WHOLE
        return self._ruled(node)

    def _dynamic_slice(self, node: OpNode) -> Found:
        return BatchRole.ALONG if self._full(node.operands[0], node.results[0]) else WHOLE

    def _dynamic_update_slice(self, node: OpNode) -> Found:
        full = self._full(*node.operands[:2], node.results[0])
        return BatchRole.ALONG if full else WHOLE

    def _windows(self, node: OpNode) -> Found:
        """Pooling, and its gradient: each element of the colour is a window of its own."""
        tensors = [value for value in node.operands if shape_of(value)]
        if not self._full(*tensors, *node.results):
            return WHOLE
        place = self._place(node.results[0])
        assert place is not None
        attributes = node.op.attributes
        width = int(attributes["window_dimensions"][place.dim])
        return BatchRole.ALONG if width == 1 else WHOLE

    def _convolution(self, node: OpNode) -> Found:
        attributes = node.op.attributes
        numbers = stablehlo.ConvDimensionNumbers(attributes["dimension_numbers"])
        features, batches = (
            int(attributes[name].value) for name in ("feature_group_count", "batch_group_count")
        )
        left, right, made = (self._dim(one) for one in (*node.operands, *node.results))
        cut = (left, right, made)
        if cut == (numbers.input_batch_dimension, -1, numbers.output_batch_dimension):
            return BatchRole.ALONG if batches == 1 else WHOLE
        if cut == (-1, numbers.kernel_output_feature_dimension, numbers.output_feature_dimension):
            return BatchRole.ALONG if features == batches == 1 else WHOLE
        summed = (numbers.input_feature_dimension, numbers.kernel_input_feature_dimension, -1)
        return BatchRole.SUMMED if cut == summed and features == 1 else WHOLE

    def _dim(self, value: Any) -> int:
        place = self._place(value)
        return -1 if place is None else place.dim

    def _gather(self, node: OpNode) -> Found:
        numbers = stablehlo.GatherDimensionNumbers(node.op.attributes["dimension_numbers"])
        operand, indices, made = (self._dim(one) for one in (*node.operands, *node.results))
        offset = list(numbers.offset_dims)
        rank = len(shape_of(node.results[0]))
        batch = [dim for dim in range(rank) if dim not in offset]
        if made in offset:
            gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
            kept = [dim for dim in range(len(shape_of(node.operands[0]))) if dim not in gone]
            return (
                BatchRole.ALONG if (operand, indices) == (kept[offset.index(made)], -1) else WHOLE
            )
        if made not in batch:
            return WHOLE
        beside = _batch_dims(node.operands[1], numbers.index_vector_dim)[batch.index(made)]
        pairs = dict(
            zip(numbers.start_indices_batching_dims, numbers.operand_batching_dims, strict=True)
        )
        if self._own_places(node, operand, beside, numbers.collapsed_slice_dims):
            return BatchRole.ALONG if indices == beside else WHOLE
        wanted = pairs.get(beside, -1)
        return BatchRole.ALONG if (operand, indices) == (wanted, beside) else WHOLE

    def counted(self, node: OpNode) -> Counted | None:
        """The component of an index that is the place of an element of the colour, if one is."""
        place = self._place(node.operands[0])
        if place is None or not place.alone:
            return None
        found = (one for one in self._positions.of(node) if one.dim == place.dim)
        return next(found, None)

    def _own_places(self, node: OpNode, dim: int, beside: int, gone: Sequence[int]) -> bool:
        """Whether each element of the colour reads or writes its own place, and no other."""
        found = self.counted(node) if dim in list(gone) else None
        return found is not None and found.beside == beside

    def _scatter(self, node: OpNode) -> Found:
        if len(node.operands) != 3:
            return _UNKNOWN
        numbers = stablehlo.ScatterDimensionNumbers(node.op.attributes["scatter_dimension_numbers"])
        target, indices, updates = (self._dim(one) for one in node.operands)
        window = list(numbers.update_window_dims)
        if self._dim(node.results[0]) != target or updates < 0:
            return WHOLE
        if updates in window:
            gone = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
            kept = [dim for dim in range(len(shape_of(node.operands[0]))) if dim not in gone]
            return (
                BatchRole.ALONG if (target, indices) == (kept[window.index(updates)], -1) else WHOLE
            )
        return self._scattered(node, numbers)

    def _scattered(self, node: OpNode, numbers: Any) -> Found:
        """Each index of the colour writes what it has to."""
        target, indices, updates = (self._dim(one) for one in node.operands)
        window = list(numbers.update_window_dims)
        batch = [dim for dim in range(len(shape_of(node.operands[2]))) if dim not in window]
        beside = _batch_dims(node.operands[1], numbers.index_vector_dim)[batch.index(updates)]
        if indices != beside:
            return WHOLE
        pairs = dict(
            zip(numbers.scatter_indices_batching_dims, numbers.input_batching_dims, strict=True)
        )
        if self._own_places(node, target, beside, numbers.inserted_window_dims):
            return BatchRole.ALONG
        if beside in pairs:
            return BatchRole.ALONG if target == pairs[beside] else WHOLE
        return BatchRole.SUMMED if target == -1 and adds(node) else WHOLE

    def _top_k(self, node: OpNode) -> Found:
        place = self._place(node.operands[0])
        last = len(shape_of(node.operands[0])) - 1
        if place is None or place.dim == last or not self._full(*node.operands, *node.results):
            return WHOLE
        return BatchRole.ALONG


def _batch_dims(indices: Any, vector: int) -> list[int]:
    """The dimensions of indices that are no components of an index."""
    return [dim for dim in range(len(shape_of(indices))) if dim != vector]


def _ahead(shape: Sequence[int], place: ColourPlace) -> int:
    return math.prod(shape[: place.dim]) * place.before


class _Factors:
    """The factors of an op, and those that need all of their elements."""

    __slots__ = ("reduced", "sizes", "tensors", "whole")

    def __init__(
        self,
        sizes: Sequence[int],
        tensors: Sequence[Sequence[Sequence[int]]],
        reduced: frozenset[int],
        whole: frozenset[int],
    ) -> None:
        self.sizes = sizes
        self.tensors = tensors
        self.reduced = reduced
        self.whole = whole


def _parsed(attribute: Any) -> _Factors:
    rule = sdy.OpShardingRuleAttr(attribute)
    tensors = [
        [tuple(sdy.DimMappingAttr(dim).factor_indices) for dim in _dims(mapping)]
        for mapping in (*rule.operand_mappings, *rule.result_mappings)
    ]
    whole = frozenset((*rule.permutation_factors, *rule.need_replication_factors))
    return _Factors(tuple(rule.factor_sizes), tensors, frozenset(rule.reduction_factors), whole)


def _dims(mapping: Any) -> Any:
    return sdy.TensorMappingAttr(mapping).dim_mappings


def _factor_at(place: ColourPlace, factors: Sequence[int], sizes: Sequence[int]) -> tuple[int, int]:
    """The factor of a dimension that holds the colour, or -1, and what of it lies before that."""
    ahead = 1
    for factor in factors:
        end = ahead * sizes[factor]
        if ahead <= place.before and place.before * place.size <= end:
            return factor, place.before // ahead
        ahead = end
    return -1, 0


def adds(node: OpNode) -> bool:
    """Whether what an op combines is added up."""
    if node.name in ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution"):
        return not _is_boolean(node.results[0])
    regions = list(node.op.regions)
    if len(regions) != 1 or len(node.results) != 1 or _is_boolean(node.results[0]):
        return False
    block = regions[0].blocks[0]
    inner = [view.operation for view in block.operations]
    if len(inner) != 2 or inner[0].name != "stablehlo.add":
        return False
    added = {value.arg_number for value in inner[0].operands if isinstance(value, ir.BlockArgument)}
    return added == {0, 1} and inner[1].operands[0] == inner[0].results[0]


def _is_boolean(value: Any) -> bool:
    return str(ir.RankedTensorType(value.type).element_type) == "i1"


_SPECIAL: dict[str, Callable[[Roles, OpNode], Found]] = {
    "chlo.top_k": Roles._top_k,
    "stablehlo.concatenate": Roles._concatenate,
    "stablehlo.convolution": Roles._convolution,
    "stablehlo.dynamic_slice": Roles._dynamic_slice,
    "stablehlo.dynamic_update_slice": Roles._dynamic_update_slice,
    "stablehlo.gather": Roles._gather,
    "stablehlo.pad": Roles._pad,
    "stablehlo.reduce_window": Roles._windows,
    "stablehlo.reshape": Roles._reshape,
    "stablehlo.reverse": Roles._reverse,
    "stablehlo.scatter": Roles._scatter,
    "stablehlo.select_and_scatter": Roles._windows,
    "stablehlo.slice": Roles._slice,
}
