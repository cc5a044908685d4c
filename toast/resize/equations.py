"""Reads off the ops of a program which dimensions have to share a size.

Shardy's rules say so for most ops: dimensions of one factor are of one size. Ops that take a part
of a dimension, join dimensions or slide windows over them are read here, and so is control flow.
All dimensions of an op that nobody has a rule for are kept as large as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.analysis.operations import CONTROL
from toast.analysis.rules import RULE, Rule, RuleReader, own_rule
from toast.analysis.trips import TripCounter
from toast.resize.constants import can_resize
from toast.resize.relations import CountedWindow, JoinedSize, Reason, Relation, Windowed, Within
from toast.resize.sizes import NO_NODE, Node, Sizes

Nodes = tuple[Node, ...]
"""The nodes of the dimensions of a value."""
_PARTIAL = frozenset(
    f"stablehlo.{name}"
    for name in ("slice", "pad", "dynamic_slice", "dynamic_update_slice", "gather", "scatter")
)
"""Ops of which a factor may stand for dimensions of several sizes."""
NARROW = 4
"""A window that fits into a dimension so often slides over it; a wider one is what came out of such
a slide, in a gradient."""
_COLLECTIVES = frozenset(
    f"sdy.{name}"
    for name in (
        "all_gather",
        "all_reduce",
        "all_slice",
        "all_to_all",
        "collective_permute",
        "reduce_scatter",
    )
)
"""Ops that move what devices hold of a tensor, which stays the same one."""
_ONE_SIZE = "its dimensions do not nest"


@dataclass(slots=True)
class Equations:
    """The nodes of all values of one or more programs, and what relates them.

    `arguments` and `results` are those of `main`, program by program.
    """

    sizes: Sizes = field(default_factory=Sizes)
    relations: list[Relation] = field(default_factory=list)
    values: dict[Any, Nodes] = field(default_factory=dict)
    arguments: list[list[Nodes]] = field(default_factory=list)
    results: list[list[Nodes]] = field(default_factory=list)
    windows: dict[Any, list[Windowed]] = field(default_factory=dict)
    _rules: RuleReader = field(default_factory=RuleReader)
    _trips: list[int | None] = field(default_factory=list)
    _counter: TripCounter | None = None

    def read(self, main: ir.Operation) -> None:
        """Read a `main` without calls, whose ops have their sharding rules."""
        entry = main.regions[0].blocks[0]
        self._counter = TripCounter(entry=entry, body_of=lambda _: None, argument=lambda _: None)
        self.arguments.append([self._define(value) for value in entry.arguments])
        self._block(entry)
        self.results.append([self.values[value] for value in last(entry).operands])

    def together(self, some: Sequence[Nodes], others: Sequence[Nodes], reason: Reason) -> None:
        """Give tensors the sizes of others, one by one."""
        for one, other in zip(some, others, strict=True):
            for node, twin in zip(one, other, strict=True):
                self.sizes.join([node], [twin], reason)

    def _define(self, value: Any) -> Nodes:
        kind = value.type
        shape = ir.RankedTensorType(kind).shape if isinstance(kind, ir.RankedTensorType) else ()
        nodes = tuple([self.sizes.new(size) for size in shape])
        self.values[value] = nodes
        return nodes

    def _block(self, block: Any) -> None:
        for view in block.operations:
            op = view.operation
            name = op.name
            if name in ("stablehlo.return", "func.return"):
                continue
            made = [self._define(value) for value in op.results]
            given = [self.values[value] for value in op.operands]
            if not any(made) and not any(given) and name not in CONTROL:
                continue
            handler = _HANDLERS.get(name, Equations._ruled)
            handler(self, op, given, made)

    def _ruled(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        """Join by the op's rule; keep what it says nothing of."""
        if RULE in op.attributes:
            rule = self._rules.read(op.attributes[RULE])
        else:
            rule = own_rule(_called(op), _shapes(op.operands), _shapes(op.results))
        reason = Reason(text="no rule says how its sizes go together", op=op)
        if not rule.known:
            self.sizes.keep([node for nodes in operands + results for node in nodes], reason)
            return
        self._apply(op, rule, operands + results)

    def _apply(self, op: Any, rule: Rule, tensors: list[Nodes]) -> None:
        factors: dict[int, Node] = {}
        reason = Reason(text=_ONE_SIZE, op=op)
        for nodes, dims in zip(tensors, rule.operands + rule.results, strict=True):
            for node, names in zip(nodes, dims, strict=True):
                if node < 0 or not names:
                    continue
                if math.prod([rule.sizes[name] for name in names]) == self.sizes.size[node]:
                    self._factored(node, names, rule, factors, reason)
                elif op.name not in _PARTIAL:
                    self.sizes.keep([node], reason)

    def _factored(
        self, node: Node, names: Sequence[int], rule: Rule, factors: dict[int, Node], reason: Reason
    ) -> None:
        """A dimension is the product of factors; the first of one factor alone stands for it."""
        if len(names) == 1 and names[0] not in factors:
            factors[names[0]] = node
            return
        for name in names:
            if name not in factors:
                factors[name] = self.sizes.new(rule.sizes[name])
        self.sizes.join([node], [factors[name] for name in names], reason)

    def _constant(self, op: Any, _: list[Nodes], results: list[Nodes]) -> None:
        if not can_resize(op):
            reason = Reason(text="a constant of this type cannot be cut", op=op)
            self.sizes.keep(results[0], reason)

    def _free(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        """An op that makes its result in any size."""

    def _reshape(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        self.sizes.join(operands[0], results[0], Reason(text=_ONE_SIZE, op=op))

    def _concatenate(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        along = int(op.attributes["dimension"].value)
        reason = Reason(text="it joins sizes that have to add up", op=op)
        for dim, node in enumerate(results[0]):
            parts = tuple(nodes[dim] for nodes in operands)
            if dim == along and len(parts) > 1:
                self.relations.append(JoinedSize(target=node, parts=parts, reason=reason))
            else:
                for part in parts:
                    self.sizes.join([part], [node], reason)

    def _slice(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        strides = [int(value) for value in op.attributes["strides"]]
        self._parts(op, results[0], operands[0], strides)

    def _pad(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        strides = [int(value) + 1 for value in op.attributes["interior_padding"]]
        self._parts(op, operands[0], results[0], strides)

    def _dynamic_slice(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        self._parts(op, results[0], operands[0])
        self._carried(op, results[0], operands[0])

    def _dynamic_update_slice(self, op: Any, operands: list[Nodes], made: list[Nodes]) -> None:
        self.together([operands[0]], made, Reason(text=_ONE_SIZE, op=op))
        self._parts(op, operands[1], made[0])
        self._carried(op, operands[1], made[0])

    def _parts(
        self, op: Any, inner: Nodes, outer: Nodes, strides: Sequence[int] | None = None
    ) -> None:
        """`inner` is taken from `outer`; where all is taken they are one."""
        reason = Reason(text="it takes a part", op=op)
        for dim, (part, whole) in enumerate(zip(inner, outer, strict=True)):
            stride = strides[dim] if strides else 1
            if self.sizes.read(part) == self.sizes.read(whole):
                self.sizes.join([part], [whole], reason)
            else:
                self._take(part, whole, reason, stride)

    def _take(self, part: Node, whole: Node, reason: Reason, stride: int = 1) -> None:
        """So many elements of `part` are taken from `whole`, `stride` apart.

        A pad that cuts more off than it adds takes its result from its operand.
        """
        few, many = (self.sizes.read(node) for node in (part, whole))
        rest = many - (few - 1) * stride - 1
        if rest < 0 and stride > 1:
            self.sizes.keep([part, whole], reason)
            return
        if rest < 0:
            part, whole, rest = whole, part, -rest
        self.relations.append(
            Within(inner=part, outer=whole, rest=rest, stride=stride, reason=reason)
        )

    def _carried(self, op: Any, part: Nodes, whole: Nodes) -> None:
        """A dimension that the loop around the op goes through: it runs as often as before."""
        trips = self._trips[-1] if self._trips else None
        reason = Reason(text="a loop runs once for each element", op=op)
        for one, node in zip(part, whole, strict=True):
            if one == NO_NODE and trips is not None and self.sizes.read(node) == trips:
                self.sizes.keep([node], reason)

    def _gather(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        self._ruled(op, operands, results)
        reason = Reason(text="it takes a part", op=op)
        for dim, offset in gathered(op):
            self._take(results[0][offset], operands[0][dim], reason)

    def _convolution(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        left, right, made = operands[0], operands[1], results[0]
        pairs = [
            (left[numbers.input_batch_dimension], made[numbers.output_batch_dimension]),
            (left[numbers.input_feature_dimension], right[numbers.kernel_input_feature_dimension]),
            (
                right[numbers.kernel_output_feature_dimension],
                made[numbers.output_feature_dimension],
            ),
        ]
        features, batches = (
            int(op.attributes[name].value) > 1
            for name in ("feature_group_count", "batch_group_count")
        )
        reason = Reason(text="its groups are counted", op=op)
        for pair, counted in zip(pairs, (batches, features, features or batches), strict=True):
            if counted:
                self.sizes.keep(pair, reason)
            else:
                self.sizes.join(pair[:1], pair[1:], reason)
        dims = zip(
            numbers.input_spatial_dimensions,
            numbers.kernel_spatial_dimensions,
            numbers.output_spatial_dimensions,
            strict=True,
        )
        shapes = _shapes([*op.operands, *op.results])
        windows = []
        for (i, k, o), row in zip(
            dims, window_rows(op, "lhs_dilation", "rhs_dilation"), strict=True
        ):
            sizes = shapes[0][i], shapes[1][k], shapes[2][o]
            windows.append(self._windowed(op, (left[i], right[k], made[o]), sizes, row))
        self.windows[op.results[0]] = windows

    def _reduce_window(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        pictures = [nodes for nodes in operands if nodes]
        self.together(pictures, [pictures[0]] * len(pictures), Reason(text=_ONE_SIZE, op=op))
        self.together(results, [results[0]] * len(results), Reason(text=_ONE_SIZE, op=op))
        self._pooling(op, pictures[0], results[0])

    def _select_and_scatter(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        self.together([operands[0]], results, Reason(text=_ONE_SIZE, op=op))
        self._pooling(op, operands[0], operands[1])

    def _pooling(self, op: Any, source: Nodes, target: Nodes) -> None:
        widths = [int(value) for value in op.attributes["window_dimensions"]]
        rows = window_rows(op, "base_dilations", "window_dilations")
        windows = []
        for one, other, width, row in zip(source, target, widths, rows, strict=True):
            sizes = self.sizes.read(one), width, self.sizes.read(other)
            windows.append(self._windowed(op, (one, NO_NODE, other), sizes, row))
        self.windows[op.results[0]] = windows

    def _windowed(
        self, op: Any, nodes: Nodes, sizes: tuple[int, int, int], row: Sequence[int]
    ) -> Windowed:
        stride, low, high, base, dilation = row
        old = CountedWindow(
            size=sizes[0],
            width=sizes[1],
            result=sizes[2],
            stride=stride,
            low=low,
            high=high,
            dilation=base,
            window_dilation=dilation,
        )
        reason = Reason(text="its windows have to fit", op=op)
        relation = Windowed(
            source=nodes[0],
            window=nodes[1],
            target=nodes[2],
            old=old,
            reason=reason,
            spans=nodes[1] == NO_NODE and old.width == old.size > 1,
        )
        slides = nodes[1] == NO_NODE or old.width * NARROW <= old.size
        if old.size == old.result and stride == base == 1 and slides:
            self.sizes.join([nodes[0]], [nodes[2]], reason)
        self.relations.append(relation)
        return relation

    def _top_k(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        reason = Reason(text="it takes so many of the largest", op=op)
        for made in results:
            self.together([made[:-1]], [operands[0][:-1]], reason)
            self.sizes.keep(made[-1:], reason)
            self._take(made[-1], operands[0][-1], reason)

    def _while(self, op: Any, operands: list[Nodes], results: list[Nodes]) -> None:
        reason = Reason(text="a loop carries it", op=op)
        blocks = [region.blocks[0] for region in op.regions]
        assert self._counter is not None
        self._trips.append(self._counter.count(op))
        for block in blocks:
            arguments = [self._define(value) for value in block.arguments]
            self.together(arguments, operands, reason)
            self._block(block)
        self._trips.pop()
        yields = [self.values[value] for value in last(blocks[1]).operands]
        self.together(yields, operands, reason)
        self.together(results, operands, reason)

    def _case(self, op: Any, _: list[Nodes], results: list[Nodes]) -> None:
        reason = Reason(text="its branches make one result", op=op)
        for region in op.regions:
            self._block(region.blocks[0])
            yields = [self.values[value] for value in last(region.blocks[0]).operands]
            self.together(yields, results, reason)


Handler = Callable[[Equations, Any, list[Nodes], list[Nodes]], None]
_HANDLERS: dict[str, Handler] = {
    "chlo.top_k": Equations._top_k,
    "sdy.constant": Equations._constant,
    "stablehlo.case": Equations._case,
    "stablehlo.concatenate": Equations._concatenate,
    "stablehlo.constant": Equations._constant,
    "stablehlo.convolution": Equations._convolution,
    "stablehlo.dynamic_slice": Equations._dynamic_slice,
    "stablehlo.dynamic_update_slice": Equations._dynamic_update_slice,
    "stablehlo.gather": Equations._gather,
    "stablehlo.if": Equations._case,
    "stablehlo.iota": Equations._free,
    "stablehlo.pad": Equations._pad,
    "stablehlo.reduce_window": Equations._reduce_window,
    "stablehlo.reshape": Equations._reshape,
    "stablehlo.select_and_scatter": Equations._select_and_scatter,
    "stablehlo.slice": Equations._slice,
    "stablehlo.while": Equations._while,
}


def last(block: Any) -> Any:
    """The op that ends a block."""
    operations = block.operations
    return operations[len(operations) - 1].operation


def gathered(op: Any) -> Iterator[tuple[int, int]]:
    """For each dimension of a gather's operand that the result has a part of, both dimensions."""
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    rank = len(ir.RankedTensorType(op.operands[0].type).shape)
    kept = [dim for dim in range(rank) if dim not in gone]
    return zip(kept, numbers.offset_dims, strict=True)


def window_rows(op: Any, base: str, dilation: str) -> list[tuple[int, int, int, int, int]]:
    """Stride, padding and dilations of each dimension; the names of two attributes differ."""
    named = "window_dimensions"
    count = len(op.attributes[named]) if named in op.attributes else _spatial(op)
    padding = np.zeros((count, 2), np.int64)
    if "padding" in op.attributes:
        padding = np.array(ir.DenseIntElementsAttr(op.attributes["padding"])).reshape(count, 2)
    lists = [_listed(op, name, count) for name in ("window_strides", base, dilation)]
    return [
        (stride, int(low), int(high), size, width)
        for stride, (low, high), size, width in zip(
            lists[0], padding, lists[1], lists[2], strict=True
        )
    ]


def _spatial(op: Any) -> int:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    return len(list(numbers.input_spatial_dimensions))


def _listed(op: Any, name: str, count: int) -> list[int]:
    return [int(v) for v in op.attributes[name]] if name in op.attributes else [1] * count


def _shapes(values: Any) -> list[tuple[int, ...]]:
    kinds = [value.type for value in values]
    return [
        tuple(ir.RankedTensorType(kind).shape) if isinstance(kind, ir.RankedTensorType) else ()
        for kind in kinds
    ]


def _called(op: Any) -> str:
    """The op's name; a call that only states a sharding is none of its own."""
    name: str = op.name
    if name in _COLLECTIVES:
        return "sdy.sharding_constraint"
    if name == "stablehlo.custom_call":
        target: str = ir.StringAttr(op.attributes["call_target_name"]).value
        return "sdy.sharding_constraint" if target == "Sharding" else f"custom_call {target}"
    return name
