"""The few ops that cut values into microbatches and put them together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from toast.microbatch.colour import Colour, ColourPlace, Shape, cut_shape, shape_of, split_shape
from toast.microbatch.positions import Counted
from toast.microbatch.tree import OpNode


class Build:
    """Writes at the current insertion point, for so many microbatches of a colour."""

    def __init__(self, colour: Colour, count: int) -> None:
        self._colour = colour
        self._count = count

    def number(self, value: int) -> Any:
        """A number of the loop."""
        kind = ir.RankedTensorType.get([], _i32())
        whole = ir.IntegerAttr.get(_i32(), value)
        return hlo.ConstantOp(ir.DenseElementsAttr.get_splat(kind, whole)).result

    def zeros(self, kind: Any) -> Any:
        """A tensor of zeros."""
        kind = ir.RankedTensorType(kind)
        scalar = ir.RankedTensorType.get([], kind.element_type)
        zero = hlo.ConstantOp(ir.Attribute.parse(f"dense<{_zero(kind.element_type)}> : {scalar}"))
        if not kind.rank:
            return zero.result
        return hlo.BroadcastInDimOp(kind, zero.result, _integers([])).result

    def less(self, time: Any) -> None:
        """The condition of the loop."""
        direction = hlo.ComparisonDirectionAttr.get("LT")
        kind = hlo.ComparisonTypeAttr.get("SIGNED")
        count = self.number(self._count)
        hlo.ReturnOp([hlo.CompareOp(time, count, direction, compare_type=kind).result])

    def next(self, time: Any) -> Any:
        """The number of the next microbatch."""
        return hlo.AddOp(time, self.number(1)).result

    def part_type(self, value: Any) -> Any:
        """The type of a microbatch of a value."""
        place = self._colour.place(value)
        shape = shape_of(value)
        return with_shape(value, shape if place is None else cut_shape(shape, place, self._count))

    def split_type(self, value: Any) -> Any:
        """The type of a value with a dimension for the microbatches."""
        return with_shape(value, self._split_shape(value))

    def split(self, whole: Any, place: ColourPlace) -> Any:
        """A value with a dimension for the microbatches."""
        shape = split_shape(shape_of(whole), place, self._count)
        return hlo.ReshapeOp(with_shape(whole, shape), whole).result

    def part(self, split: Any, value: Any, time: Any) -> Any:
        """A microbatch of what `split` made of a value."""
        shape = list(shape_of(split))
        at = self._at(value)
        shape[at] = 1
        taken = hlo.DynamicSliceOp(split, self._starts(shape, at, time), _integers(shape)).result
        return hlo.ReshapeOp(self.part_type(value), taken).result

    def put(self, split: Any, part: Any, value: Any, time: Any) -> Any:
        """Write a microbatch in its place."""
        shape = list(self._split_shape(value))
        at = self._at(value)
        shape[at] = 1
        update = hlo.ReshapeOp(with_shape(value, tuple(shape)), part).result
        starts = self._starts(shape, at, time)
        return hlo.DynamicUpdateSliceOp(split, update, starts).result

    def iota(self, node: OpNode, time: Any) -> Any:
        """A microbatch of an iota: `(before * B/k + i) * k + t`, times what lies behind."""
        value = node.results[0]
        place = self._colour.place(value)
        along = int(node.op.attributes["iota_dimension"].value)
        assert place is not None
        if along != place.dim:
            return hlo.IotaOp(self.part_type(value), along).result
        shape = (place.before * (place.size // self._count), place.behind)
        outer = self._scaled(self._counting(shape, 0), self._count)
        broad = ir.RankedTensorType.get(list(shape), _i32())
        offset = hlo.BroadcastInDimOp(broad, time, _integers([])).result
        outer = self._scaled(hlo.AddOp(outer, offset).result, place.behind)
        numbers = hlo.AddOp(outer, self._counting(shape, 1)).result
        flat = ir.RankedTensorType.get([shape[0] * shape[1]], _i32())
        numbers = hlo.ReshapeOp(flat, numbers).result
        element = ir.RankedTensorType(value.type).element_type
        line = ir.RankedTensorType.get([shape[0] * shape[1]], element)
        if element != _i32():
            numbers = hlo.ConvertOp(line, numbers).result
        return hlo.BroadcastInDimOp(self.part_type(value), numbers, _integers([along])).result

    def counted(self, indices: Any, counted: Counted) -> Any:
        """Indices of which a component counts the elements of the microbatch."""
        kind = ir.RankedTensorType(indices.type)
        rank = kind.rank
        if counted.vector >= rank:
            return hlo.IotaOp(kind, counted.beside).result
        size = kind.shape[counted.vector]
        flags = ", ".join(str(one == counted.component).lower() for one in range(size))
        chosen = hlo.ConstantOp(ir.Attribute.parse(f"dense<[{flags}]> : tensor<{size}xi1>"))
        mask = ir.RankedTensorType.get(list(kind.shape), ir.IntegerType.get_signless(1))
        broad = hlo.BroadcastInDimOp(mask, chosen.result, _integers([counted.vector])).result
        numbers = hlo.IotaOp(kind, counted.beside).result
        return hlo.SelectOp(broad, numbers, indices).result

    def _counting(self, shape: Shape, along: int) -> Any:
        return hlo.IotaOp(ir.RankedTensorType.get(list(shape), _i32()), along).result

    def _scaled(self, numbers: Any, factor: int) -> Any:
        if factor == 1:
            return numbers
        whole = ir.IntegerAttr.get(_i32(), factor)
        times = hlo.ConstantOp(ir.DenseElementsAttr.get_splat(numbers.type, whole)).result
        return hlo.MulOp(numbers, times).result

    def _at(self, value: Any) -> int:
        place = self._colour.place(value)
        assert place is not None
        return place.dim + 1

    def _split_shape(self, value: Any) -> Shape:
        place = self._colour.place(value)
        assert place is not None
        return split_shape(shape_of(value), place, self._count)

    def _starts(self, shape: Sequence[int], at: int, time: Any) -> list[Any]:
        zero = self.number(0)
        return [time if dim == at else zero for dim in range(len(shape))]


def with_shape(value: Any, shape: Shape) -> Any:
    """The type of a value at another shape."""
    kind = ir.RankedTensorType(value.type)
    return ir.RankedTensorType.get(list(shape), kind.element_type, kind.encoding)


def _i32() -> Any:
    return ir.IntegerType.get_signless(32)


def _integers(values: Sequence[int]) -> Any:
    return ir.DenseI64ArrayAttr.get(list(values))


def _zero(element: Any) -> str:
    if isinstance(element, ir.ComplexType):
        return "(0.0, 0.0)"
    if isinstance(element, ir.IntegerType):
        return "false" if str(element) == "i1" else "0"
    return "0.0"
