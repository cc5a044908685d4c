"""Gather, scatter and slices at places that are computed, whose indexed dimension is split.

As XLA does it: each device takes the indices as if its part began at 0 and leaves out what lies
outside. Of a gather the results are partial; of a scatter and an update they stand side by side.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.emit.lowering.code import Code, numbers
from toast.emit.lowering.placed import Placed

GATHER, SCATTER = "stablehlo.gather", "stablehlo.scatter"
DYNAMIC_SLICE, UPDATE = "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"
_LEAST, _MOST = -(2**31), 2**31 - 1


def split_components(placed: Placed) -> dict[int, int]:
    """The components of an index (by number) that lead into a split dimension of the operand."""
    spec = placed.operands[0]
    if placed.name == GATHER:
        into = list(_gather_numbers(placed).start_index_map)
        sizes = list(map(int, placed.handle.attributes["slice_sizes"]))
        whole = placed.shapes[0]
        rows = enumerate(into)
        return {n: dim for n, dim in rows if spec[dim] and sizes[dim] != whole[dim]}
    if placed.name == SCATTER:
        into = list(_scatter_numbers(placed).scattered_dims_to_operand_dims)
        return {n: dim for n, dim in enumerate(into) if spec[dim]}
    return {}


def unindexable(placed: Placed) -> set[str]:
    """Axes over which windows of more than one element would straddle parts."""
    match placed.name:
        case "stablehlo.gather":
            return _ungatherable(placed)
        case "stablehlo.scatter":
            inserted = list(_scatter_numbers(placed).inserted_window_dims)
            wide = [dim for dim in split_components(placed).values() if dim not in inserted]
            return {axis for dim in wide for axis in placed.operands[0][dim]}
        case "stablehlo.dynamic_slice":
            rows = zip(placed.operands[0], placed.results[0], *_sizes(placed), strict=True)
            return {axis for on, to, whole, part in rows if whole != part for axis in (*on, *to)}
        case "stablehlo.dynamic_update_slice":
            return _unplaceable(placed)
        case _:
            return set()


def _ungatherable(placed: Placed) -> set[str]:
    sizes, found = list(map(int, placed.handle.attributes["slice_sizes"])), set[str]()
    for dim in split_components(placed).values():
        axes = set(placed.operands[0][dim])
        if sizes[dim] != 1 or not axes <= set(placed.reduced):
            found |= axes
    return found


def _unplaceable(placed: Placed) -> set[str]:
    found = set[str]()
    rows = zip(*placed.operands[:2], placed.shapes[0], placed.shapes[1], strict=True)
    for axes, on, whole, part in rows:
        if whole != part:
            found |= set(on)
        elif on != axes:
            found |= {*axes, *on}
    return found


def _sizes(placed: Placed) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return placed.shapes[0], placed.made[0]


def placed_dims(placed: Placed) -> list[int]:
    """The split dimensions of the operand of an update that is not as long."""
    if placed.name != UPDATE:
        return []
    rows = enumerate(zip(placed.shapes[0], placed.shapes[1], strict=True))
    return [dim for dim, (whole, part) in rows if whole != part and placed.operands[0][dim]]


def gather_sizes(placed: Placed) -> Any:
    """Slices of a dimension that is passed on whole are as long as a device's part."""
    sizes = map(int, placed.handle.attributes["slice_sizes"])
    rows = zip(sizes, placed.shapes[0], placed.local_operand(0), strict=True)
    return numbers([local if size == whole else size for size, whole, local in rows])


def gather_operands(code: Code, placed: Placed, operands: list[Any]) -> tuple[list[Any], Any]:
    """The operands with indices into the device's part, and where in the results they hit it."""
    components = split_components(placed)
    vector = _gather_numbers(placed).index_vector_dim
    indices = _signed(code, operands[1])
    inside = _clamped(code, indices, vector, _wholes(placed, components))
    local = code.binary("subtract", inside, _starts(code, placed, indices, vector, components))
    parts = {n: placed.local_operand(0)[dim] for n, dim in components.items()}
    kept = _clamped(code, local, vector, parts)
    hits = code.compare("EQ", local, kept)
    return [operands[0], kept], _hit(code, placed, hits, vector)


def scatter_indices(code: Code, placed: Placed, indices: Any) -> Any:
    """Indices into the device's part: those that lie outside are out of bounds, and so skipped."""
    indices = _signed(code, indices)
    vector = _scatter_numbers(placed).index_vector_dim
    starts = _starts(code, placed, indices, vector, split_components(placed))
    return code.binary("subtract", indices, starts)


def update(code: Code, placed: Placed, operands: list[Any]) -> list[Any]:
    """The device's part with what of the update falls into it.

    There is room for all of the update on both sides of the part, which is cut off again.
    """
    operand, piece = operands[:2]
    fill = code.splat([], operand, 0)
    places = [code.convert(place, _index_type(place)) for place in operands[2:]]
    kind = "i64" if any("i64" in str(place.type) for place in places) else "i32"
    places = [code.convert(place, kind) for place in places]
    dims = placed_dims(placed)
    local = code.shape(operand)
    for dim in dims:
        width = placed.shapes[1][dim]
        last = placed.shapes[0][dim] - width
        place = _between(code, places[dim], 0, last, kind)
        ahead = code.offset(placed.operands[0][dim], local[dim], kind)
        place = code.binary("subtract", place, ahead)
        places[dim] = code.binary("add", place, code.scalar(width, kind))
        operand = code.pad(operand, fill, dim, width, width)
    made = code.one(UPDATE, [operand, piece, *places], operand.type)
    for dim in dims:
        width = placed.shapes[1][dim]
        made = code.slice(made, dim, width, width + local[dim])
    return [made]


def _between(code: Code, value: Any, least: int, most: int, kind: str) -> Any:
    low, high = code.scalar(least, kind), code.scalar(most, kind)
    return code.one("stablehlo.clamp", [low, value, high], value.type)


def _gather_numbers(placed: Placed) -> Any:
    return stablehlo.GatherDimensionNumbers(placed.handle.attributes["dimension_numbers"])


def _scatter_numbers(placed: Placed) -> Any:
    return stablehlo.ScatterDimensionNumbers(placed.handle.attributes["scatter_dimension_numbers"])


def _index_type(value: Any) -> str:
    element = str(ir.RankedTensorType(value.type).element_type)
    return "i32" if element in ("i8", "i16", "i32", "ui8", "ui16") else "i64"


def _signed(code: Code, indices: Any) -> Any:
    return code.convert(indices, _index_type(indices))


def _components(code: Code, indices: Any, vector: int) -> int:
    shape = code.shape(indices)
    return shape[vector] if vector < len(shape) else 1


def _spread(code: Code, numbers_of: Any, indices: Any, vector: int) -> Any:
    """A vector with a number for each component, over all indices."""
    shape = code.shape(indices)
    if vector == len(shape):
        return code.broadcast(code.reshape(numbers_of, []), shape)
    return code.broadcast(numbers_of, shape, [vector])


def _wholes(placed: Placed, components: dict[int, int]) -> dict[int, int]:
    return {n: placed.shapes[0][dim] for n, dim in components.items()}


def _clamped(code: Code, indices: Any, vector: int, sizes: dict[int, int]) -> Any:
    """Indices whose components with a size lie within it."""
    count, kind = _components(code, indices, vector), _index_type(indices)
    least = code.integers([0 if n in sizes else _LEAST for n in range(count)], kind)
    most = code.integers([sizes[n] - 1 if n in sizes else _MOST for n in range(count)], kind)
    low, high = (_spread(code, row, indices, vector) for row in (least, most))
    return code.one("stablehlo.clamp", [low, indices, high], indices.type)


def _starts(
    code: Code, placed: Placed, indices: Any, vector: int, components: dict[int, int]
) -> Any:
    """Where the device's part begins, over all indices; 0 for components that are not split."""
    count, kind = _components(code, indices, vector), _index_type(indices)
    pieces = []
    for n in range(count):
        if n in components:
            dim = components[n]
            size = placed.local_operand(0)[dim]
            start = code.offset(placed.operands[0][dim], size, kind)
        else:
            start = code.scalar(0, kind)
        pieces.append(code.reshape(start, [1]))
    return _spread(code, code.concatenate(pieces, 0), indices, vector)


def _hit(code: Code, placed: Placed, hits: Any, vector: int) -> Any:
    """Where in the results all components hit the device's part."""
    shape = code.shape(hits)
    if vector < len(shape):
        kind = code.tensor([n for dim, n in enumerate(shape) if dim != vector], "i1")
        hits = code.reduced(hits, vector, "stablehlo.and", kind)
    numbers_of = _gather_numbers(placed)
    made = placed.local_result(0)
    outside = [dim for dim in range(len(made)) if dim not in list(numbers_of.offset_dims)]
    return code.broadcast(hits, made, outside)
