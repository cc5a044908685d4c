"""Writes StableHLO ops on what one device holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from toast.emit.lowering.devices import Devices

I32 = "i32"
_ADD = "stablehlo.add"


class Code:
    """A place in a device-local program where ops are written, all at one location.

    What a device knows of itself (its number, its places along axes) is written once, at the start
    of `block`.
    """

    def __init__(self, devices: Devices, block: Any) -> None:
        self.devices = devices
        self.at = ir.InsertionPoint(block)
        self.location: Any = ir.Location.unknown()
        self.sent: list[tuple[str, tuple[str, ...]]] = []
        self._block = block
        self._head: Any = None
        self._coordinates: dict[tuple[str, ...], Any] = {}
        self._channels = 0

    def op(self, name: str, operands: Sequence[Any], types: Sequence[Any], **given: Any) -> Any:
        """The results of a new op."""
        return self.operation(name, operands, types, **given).results

    def operation(
        self,
        name: str,
        operands: Sequence[Any],
        types: Sequence[Any],
        regions: int = 0,
        **given: Any,
    ) -> Any:
        """A new op."""
        return ir.Operation.create(
            name,
            results=list(types),
            operands=list(operands),
            attributes=given,
            regions=regions,
            ip=self.at,
            loc=self.location,
        )

    def one(self, name: str, operands: Sequence[Any], kind: Any, **given: Any) -> Any:
        """The result of a new op with one."""
        return self.op(name, operands, [kind], **given)[0]

    # Types

    def tensor(self, shape: Sequence[int], like: Any) -> Any:
        """A tensor type with the elements of a value, of a tensor type, or of this name."""
        if isinstance(like, str):
            element = ir.Type.parse(like)
        else:
            element = ir.RankedTensorType(getattr(like, "type", like)).element_type
        return ir.RankedTensorType.get(list(shape), element)

    def shape(self, value: Any) -> list[int]:
        """The shape of a value."""
        return list(ir.RankedTensorType(value.type).shape)

    # Values

    def splat(self, shape: Sequence[int], like: Any, number: float | bool) -> Any:
        """A constant tensor of one number."""
        kind = self.tensor(shape, like)
        return self.one("stablehlo.constant", [], kind, value=splat_attribute(kind, number))

    def integers(self, numbers: Sequence[int], like: str = I32) -> Any:
        """A constant vector of integers."""
        array = np.array(numbers, np.int64 if like == "i64" else np.int32)
        kind = self.tensor([len(numbers)], like)
        return self.one(
            "stablehlo.constant", [], kind, value=ir.DenseElementsAttr.get(array, type=kind)
        )

    def scalar(self, number: int, like: str = I32) -> Any:
        """A constant integer."""
        return self.splat([], like, number)

    def binary(self, name: str, left: Any, right: Any) -> Any:
        """An elementwise op of two values of one type."""
        return self.one(f"stablehlo.{name}", [left, right], left.type)

    def compare(self, direction: str, left: Any, right: Any) -> Any:
        """Booleans of two values of one type."""
        return self.one(
            "stablehlo.compare",
            [left, right],
            self.tensor(self.shape(left), "i1"),
            comparison_direction=ir.Attribute.parse(
                f"#stablehlo<comparison_direction {direction}>"
            ),
        )

    def select(self, condition: Any, left: Any, right: Any) -> Any:
        """`left` where the condition holds, else `right`."""
        return self.one("stablehlo.select", [condition, left, right], left.type)

    def convert(self, value: Any, like: str) -> Any:
        """A value with elements of the type of this name."""
        kind = self.tensor(self.shape(value), like)
        return value if kind == value.type else self.one("stablehlo.convert", [value], kind)

    def broadcast(self, value: Any, shape: Sequence[int], dims: Sequence[int] = ()) -> Any:
        """A value over more dimensions; `dims` are those that it has already."""
        return self.one(
            "stablehlo.broadcast_in_dim",
            [value],
            self.tensor(shape, value),
            broadcast_dimensions=numbers(dims),
        )

    def reshape(self, value: Any, shape: Sequence[int]) -> Any:
        """The same elements in another shape."""
        if self.shape(value) == list(shape):
            return value
        return self.one("stablehlo.reshape", [value], self.tensor(shape, value))

    def transpose(self, value: Any, order: Sequence[int]) -> Any:
        """The dimensions in another order."""
        if list(order) == sorted(order):
            return value
        shape = self.shape(value)
        kind = self.tensor([shape[dim] for dim in order], value)
        return self.one("stablehlo.transpose", [value], kind, permutation=numbers(order))

    def iota(self, shape: Sequence[int], dim: int, like: str = I32) -> Any:
        """0, 1, 2, ... along a dimension."""
        return self.one("stablehlo.iota", [], self.tensor(shape, like), iota_dimension=integer(dim))

    def concatenate(self, values: Sequence[Any], dim: int) -> Any:
        """Values one behind another."""
        if len(values) == 1:
            return values[0]
        shape = self.shape(values[0])
        shape[dim] = sum(self.shape(value)[dim] for value in values)
        kind = self.tensor(shape, values[0])
        return self.one("stablehlo.concatenate", values, kind, dimension=integer(dim))

    def slice(self, value: Any, dim: int, first: int, last: int) -> Any:
        """Some elements along a dimension."""
        shape = self.shape(value)
        if (first, last) == (0, shape[dim]):
            return value
        limits, starts = list(shape), [0] * len(shape)
        starts[dim], limits[dim] = first, last
        shape[dim] = last - first
        return self.one(
            "stablehlo.slice",
            [value],
            self.tensor(shape, value),
            start_indices=numbers(starts),
            limit_indices=numbers(limits),
            strides=numbers([1] * len(shape)),
        )

    def pad(self, value: Any, fill: Any, dim: int, low: int, high: int) -> Any:
        """More elements along a dimension, all `fill`."""
        if not low and not high:
            return value
        shape = self.shape(value)
        nothing = [0] * len(shape)
        lows, highs = list(nothing), list(nothing)
        lows[dim], highs[dim] = low, high
        shape[dim] += low + high
        return self.one(
            "stablehlo.pad",
            [value, fill],
            self.tensor(shape, value),
            edge_padding_low=numbers(lows),
            edge_padding_high=numbers(highs),
            interior_padding=numbers(nothing),
        )

    def dynamic_slice(self, value: Any, starts: dict[int, Any], sizes: Sequence[int]) -> Any:
        """So many elements of each dimension, from `starts` on; from 0 where none is given."""
        zero = self.scalar(0)
        places = [starts.get(dim, zero) for dim in range(len(sizes))]
        return self.one(
            "stablehlo.dynamic_slice",
            [value, *places],
            self.tensor(sizes, value),
            slice_sizes=numbers(sizes),
        )

    def reduced(self, value: Any, dim: int, body: str, kind: Any) -> Any:
        """Booleans combined along a dimension by the op named `body`, `and` for one."""
        made = self.operation(
            "stablehlo.reduce",
            [value, self.splat([], value, body == "stablehlo.and")],
            [kind],
            regions=1,
            dimensions=numbers([dim]),
        )
        self._combine(made, value, body)
        return made.results[0]

    # Devices

    def coordinate(self, axes: Sequence[str]) -> Any:
        """Which part of a dimension over `axes` this device holds."""
        key = tuple(axes)
        if key not in self._coordinates:
            self._coordinates[key] = self._at_head(lambda: self._coordinate(key))
        return self._coordinates[key]

    def _coordinate(self, axes: tuple[str, ...]) -> Any:
        if not axes:
            return self.scalar(0)
        if len(axes) == 1:
            sizes, strides = self.devices.sizes, self.devices.strides
            device = self._coordinates[("",)]
            place = self.binary("divide", device, self.scalar(strides[axes[0]]))
            return self.binary("remainder", place, self.scalar(sizes[axes[0]]))
        place = self.coordinate(axes[:1])
        for axis in axes[1:]:
            place = self.binary("multiply", place, self.scalar(self.devices.sizes[axis]))
            place = self.binary("add", place, self.coordinate((axis,)))
        return place

    def _at_head(self, write: Any) -> Any:
        at, location = self.at, self.location
        if self._head is None:
            self.at = ir.InsertionPoint.at_block_begin(self._block)
            self.location = ir.Location.unknown()
            number = self.operation("stablehlo.partition_id", [], [self.tensor([], "ui32")])
            device = self.operation("stablehlo.convert", number.results, [self.tensor([], I32)])
            self._coordinates[("",)], self._head = device.results[0], device
        self.at, self.location = ir.InsertionPoint.after(self._head), ir.Location.unknown()
        value = write()
        self._head = value.owner
        self.at, self.location = at, location
        return value

    def offset(self, axes: Sequence[str], size: int, like: str = I32) -> Any:
        """Where this device's part begins, of parts of `size` over `axes`."""
        if not axes:
            return self.scalar(0, like)
        place = self.binary("multiply", self.coordinate(axes), self.scalar(size))
        return self.convert(place, like)

    # Collectives

    def all_gather(self, value: Any, axes: Sequence[str], dim: int) -> Any:
        """The parts of all devices along `axes`, one behind another."""
        shape = self.shape(value)
        shape[dim] *= self.devices.parts(axes)
        kind = self.tensor(shape, value)
        return self.one(
            "stablehlo.all_gather",
            [value],
            kind,
            all_gather_dim=integer(dim),
            **self._grouped(axes),
        )

    def all_reduce(self, value: Any, axes: Sequence[str], body: str) -> Any:
        """What all devices along `axes` have, combined by the op named `body`."""
        made = self.operation(
            "stablehlo.all_reduce", [value], [value.type], regions=1, **self._grouped(axes)
        )
        self._combine(made, value, body)
        return made.results[0]

    def reduce_scatter(self, value: Any, axes: Sequence[str], dim: int, body: str) -> Any:
        """The sum of what all devices along `axes` have, of which each gets its part."""
        shape = self.shape(value)
        shape[dim] //= self.devices.parts(axes)
        made = self.operation(
            "stablehlo.reduce_scatter",
            [value],
            [self.tensor(shape, value)],
            regions=1,
            scatter_dimension=integer(dim),
            **self._grouped(axes),
        )
        self._combine(made, value, body)
        return made.results[0]

    def all_to_all(self, value: Any, axes: Sequence[str]) -> Any:
        """Along the first dimension, which has an element for each device along `axes`."""
        count = integer(self.devices.parts(axes))
        given = self._grouped(axes)
        del given["use_global_device_ids"]
        return self.one(
            "stablehlo.all_to_all",
            [value],
            value.type,
            split_dimension=integer(0),
            concat_dimension=integer(0),
            split_count=count,
            **given,
        )

    def permute(self, value: Any, pairs: Sequence[tuple[int, int]]) -> Any:
        """What the source of each (source, target) has; zeros where no device is the source."""
        array = np.array(pairs, np.int64).reshape(len(pairs), 2)
        return self.one(
            "stablehlo.collective_permute",
            [value],
            value.type,
            source_target_pairs=ir.DenseIntElementsAttr.get(array),
            channel_handle=self._channel(),
        )

    def _grouped(self, axes: Sequence[str]) -> dict[str, Any]:
        groups = np.array(self.devices.groups(axes), np.int64)
        return {
            "replica_groups": ir.DenseIntElementsAttr.get(groups),
            "channel_handle": self._channel(),
            "use_global_device_ids": ir.UnitAttr.get(),
        }

    def _channel(self) -> Any:
        self._channels += 1
        return ir.Attribute.parse(f"#stablehlo.channel_handle<handle = {self._channels}, type = 1>")

    def _combine(self, op: Any, value: Any, body: str) -> None:
        kind = self.tensor([], value)
        locations = [self.location] * 2
        block = op.regions[0].blocks.append(kind, kind, arg_locs=locations)
        outer, self.at = self.at, ir.InsertionPoint(block)
        found = self.one(body, list(block.arguments), kind)
        self.op("stablehlo.return", [found], [])
        self.at = outer


def integer(number: int) -> Any:
    """An attribute of one integer."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)


def numbers(found: Sequence[int]) -> Any:
    """An attribute of integers."""
    return ir.DenseI64ArrayAttr.get(list(found))


def splat_attribute(kind: Any, number: float | bool) -> Any:
    """The attribute of a tensor of this type with one number everywhere."""
    element = ir.RankedTensorType(kind).element_type
    if isinstance(element, ir.ComplexType):
        return ir.Attribute.parse(f"dense<({float(number)}, 0.0)> : {kind}")
    if isinstance(element, ir.IntegerType):
        return ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(element, int(number)))
    return ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get(element, float(number)))
