"""Lookups and scatters in which each row of indices stands at its own place of the operand.

`x[jnp.arange(batch), where]` looks up one element of each row of `x`: the first index is an iota.
Shardy says that such a dimension of the operand is summed over, as any that is indexed. XLA's
partitioner sees that shard n of the indices names shard n of the operand alone, and splits the two
together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.analysis.program import FactorKind
from toast.analysis.rules import Dims, Rule, major

Pair = tuple[int, int]
"""A dimension of the operand, and the dimension of the indices along which they count it up."""

_IOTA = "stablehlo.iota"
_CONVERT = "stablehlo.convert"
_BROADCAST = "stablehlo.broadcast_in_dim"
_RESHAPE = "stablehlo.reshape"
_SELECT = "stablehlo.select"
_COMPARE = "stablehlo.compare"
_CONSTANT = "stablehlo.constant"
_CONCATENATE = "stablehlo.concatenate"
_KEPT = {_CONVERT: 0, _BROADCAST: 0, _RESHAPE: 0, _SELECT: 2}
"""Ops that count on if an operand counts, and which operand."""


def counted_pairs(op: ir.Operation) -> tuple[Pair, ...]:
    """The pairs of a gather or a scatter into one operand; none of any other op."""
    found = _indexed(op)
    if found is None:
        return ()
    indexed, vector = found
    operand, indices = op.operands[0], op.operands[1]
    sizes, counts, single = _shape(operand), _shape(indices), _single(op)
    pairs = []
    for part, dim in zip(_components(indices, vector, len(indexed)), indexed, strict=True):
        along = None if part is None else _counts_along(part)
        if along is None or along == vector or dim not in single:
            continue
        if counts[along] == sizes[dim]:
            pairs.append((dim, along))
    return tuple(pairs)


def split_together(rule: Rule, pairs: tuple[Pair, ...]) -> Rule:
    """The rule with one factor for the two dimensions of each pair.

    But for the second dimension that counts up with the same indices, as of a diagonal: no tensor
    has one factor twice, as no axis can split two of its dimensions.
    """
    for dim, along in pairs:
        factors = [major(rule.sizes, dims) for dims in rule.operands[0]]
        own, other = factors[dim], major(rule.sizes, rule.operands[1][along])
        if own >= 0 and other >= 0 and other not in factors:
            rule = _merged(rule, own, other)
    return rule


def _merged(rule: Rule, gone: int, kept: int) -> Rule:
    """The rule with one factor in the place of another, which splits the op without a sum."""

    def number(factor: int) -> int:
        factor = kept if factor == gone else factor
        return factor - (factor > gone)

    def renamed(tensors: tuple[Dims, ...]) -> tuple[Dims, ...]:
        return tuple(tuple(tuple(map(number, dim)) for dim in dims) for dims in tensors)

    kinds = list(rule.kinds)
    kinds[kept] = FactorKind.PARALLEL
    return replace(
        rule,
        sizes=rule.sizes[:gone] + rule.sizes[gone + 1 :],
        kinds=(*kinds[:gone], *kinds[gone + 1 :]),
        operands=renamed(rule.operands),
        results=renamed(rule.results),
    )


def _indexed(op: ir.Operation) -> tuple[list[int], int] | None:
    """The operand's dimensions that the parts of an index name, and where the indices have these.

    None for what is neither a gather nor a scatter into one operand.
    """
    if op.name == "stablehlo.gather":
        numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
        return list(numbers.start_index_map), numbers.index_vector_dim
    if op.name == "stablehlo.scatter" and len(op.results) == 1:
        scattered = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
        return list(scattered.scattered_dims_to_operand_dims), scattered.index_vector_dim
    return None


def _single(op: ir.Operation) -> set[int]:
    """The operand's dimensions of which an index takes one element."""
    if op.name == "stablehlo.gather":
        sizes = ir.DenseI64ArrayAttr(op.attributes["slice_sizes"])
        return {dim for dim, size in enumerate(sizes) if size == 1}
    scattered = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    return set(scattered.inserted_window_dims)


def _components(indices: Any, vector: int, count: int) -> list[Any | None]:
    """The parts of an index by themselves, None where they are not joined of single ones."""
    if count == 1:
        return [indices]
    op = _maker(indices)
    if op is None or op.name != _CONCATENATE or len(op.operands) != count:
        return [None] * count
    joined = ir.IntegerAttr(op.attributes["dimension"]).value
    return list(op.operands) if joined == vector else [None] * count


def _counts_along(value: Any) -> int | None:
    """The dimension along which a value counts 0, 1, 2 and so on, if it does nothing else."""
    op = _maker(value)
    if op is None:
        return None
    if op.name == _IOTA:
        return int(ir.IntegerAttr(op.attributes["iota_dimension"]).value)
    kept = _KEPT.get(op.name)
    if kept is None or (op.name == _SELECT and not _if_negative(op)):
        return None
    along = _counts_along(op.operands[kept])
    return None if along is None else _moved(op, along, _shape(op.operands[kept]), _shape(value))


def _moved(op: ir.Operation, along: int, before: list[int], after: list[int]) -> int | None:
    """Where an op that keeps the elements has a dimension of its operand; None where it is cut."""
    place: int | None = along
    if op.name == _BROADCAST:
        place = int(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"])[along])
    elif op.name == _RESHAPE:
        own, big = ([dim for dim, size in enumerate(of) if size > 1] for of in (before, after))
        alike = [before[dim] for dim in own] == [after[dim] for dim in big]
        place = big[own.index(along)] if alike and along in own else None
    return place if place is not None and after[place] == before[along] else None


def _if_negative(select: ir.Operation) -> bool:
    """Whether a select takes its last operand wherever that is at least zero.

    `x[i]` wraps negative indices: `select(i < 0, i + size, i)`.
    """
    asked = _maker(select.operands[0])
    if asked is None or asked.name != _COMPARE or asked.operands[0] != select.operands[2]:
        return False
    return "LT" in str(asked.attributes["comparison_direction"]) and _is_zero(asked.operands[1])


def _is_zero(number: Any) -> bool:
    op = _maker(number)
    if op is not None and op.name == _BROADCAST:
        return _is_zero(op.operands[0])
    if op is None or op.name != _CONSTANT:
        return False
    value = op.attributes["value"]
    if not isinstance(value, ir.DenseIntElementsAttr):
        return False
    return bool(value.is_splat and value[0] == 0)


def _maker(value: Any) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _shape(value: Any) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)
