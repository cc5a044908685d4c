"""Sharding rules of ops: Shardy's where it has one, ours for the ops that it leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy

from toast.analysis.program import FactorKind

RULE = "sdy.sharding_rule"
REGION = "custom_call toast.manual_computation."
"""What stands for a region of `shard_map` while a module is planned, before its number."""

Dims = tuple[tuple[int, ...], ...]
"""For each dimension of a tensor its factors, major first."""
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The factors of an op and where they appear. `known` is False when nobody had a rule."""

    sizes: tuple[int, ...]
    kinds: tuple[FactorKind, ...]
    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]
    known: bool = True


def populate(module: ir.Module) -> None:
    """Let Shardy attach its rule to every op that has one."""
    with module.context:
        pipeline = "builtin.module(func.func(sdy-populate-op-sharding-rules))"
        passmanager.PassManager.parse(pipeline).run(module.operation)


def drop(module: ir.Module) -> None:
    """Remove the rules again."""
    with module.context:
        pipeline = "builtin.module(func.func(sdy-drop-sharding-rules))"
        passmanager.PassManager.parse(pipeline).run(module.operation)


class RuleReader:
    """Reads rules, each distinct attribute once."""

    def __init__(self) -> None:
        self._parsed: dict[Any, Rule] = {}

    def read(self, attribute: ir.Attribute) -> Rule:
        """The rule that a `sdy.sharding_rule` attribute states."""
        rule = self._parsed.get(attribute)
        if rule is None:
            rule = self._parsed[attribute] = _parse(sdy.OpShardingRuleAttr(attribute))
        return rule


def _parse(attribute: Any) -> Rule:
    sizes = tuple(attribute.factor_sizes)
    operands = tuple(_dims(mapping) for mapping in attribute.operand_mappings)
    results = tuple(_dims(mapping) for mapping in attribute.result_mappings)
    kinds = [FactorKind.PARALLEL] * len(sizes)
    for factor in attribute.reduction_factors:
        kinds[factor] = FactorKind.REDUCTION
    for factor in attribute.permutation_factors:
        kinds[factor] = FactorKind.HALO
    for factor in attribute.need_replication_factors:
        kinds[factor] = FactorKind.BLOCKED
    for factor in minor_factors(sizes, operands + results):
        kinds[factor] = FactorKind.BLOCKED
    for factor in unmatched_factors(sizes, kinds, operands, results):
        kinds[factor] = FactorKind.BLOCKED
    return Rule(sizes=sizes, kinds=tuple(kinds), operands=operands, results=results)


def _dims(mapping: Any) -> Dims:
    dims = sdy.TensorMappingAttr(mapping).dim_mappings
    return tuple(tuple(sdy.DimMappingAttr(dim).factor_indices) for dim in dims)


def minor_factors(sizes: tuple[int, ...], tensors: tuple[Dims, ...]) -> set[int]:
    """Factors with a factor above 1 before them in some compound dimension.

    Sharding one would scatter the elements of that dimension, so the op cannot be split by it.
    """
    minor: set[int] = set()
    for dims in tensors:
        for factors in dims:
            big = [factor for factor in factors if sizes[factor] > 1]
            minor.update(big[1:])
    return minor


def unmatched_factors(
    sizes: tuple[int, ...],
    kinds: list[FactorKind],
    operands: tuple[Dims, ...],
    results: tuple[Dims, ...],
) -> set[int]:
    """Factors on one side only of a rule that could not match all of the two sides.

    A reshape such as 8x6 to 3x16 cuts the elements at places that do not nest. (Factors of operands
    alone are fine where they are reduced; those of results alone where nothing is unmatched in the
    operands: it is a broadcast.)
    """
    before, after = _present(operands), _present(results)
    lost = {
        factor
        for factor in before - after
        if kinds[factor] == FactorKind.PARALLEL and sizes[factor] > 1
    }
    return lost | (after - before) if lost else set()


def _present(tensors: tuple[Dims, ...]) -> set[int]:
    return {factor for dims in tensors for factors in dims for factor in factors}


def major(sizes: tuple[int, ...], factors: tuple[int, ...]) -> int:
    """The factor that a dimension can be split by: the major-most above 1, or -1."""
    return next((factor for factor in factors if sizes[factor] > 1), -1)


def own_rule(name: str, operands: list[Shape], results: list[Shape]) -> Rule:
    """The rule of an op that Shardy leaves out."""
    if not operands and name in _GENERATORS:
        return pointwise(0, results)
    if name.startswith(REGION):
        return _free(operands, results)
    if name == "stablehlo.get_dimension_size":
        return _asked_for_size(operands)
    if name == "stablehlo.optimization_barrier":
        return _pairwise(operands)
    shapes = set(operands + results)
    if (name in _POINTWISE or _is_elementwise_chlo(name)) and len(shapes) == 1:
        return pointwise(len(operands), results)
    return blocked(operands, results)


_GENERATORS = frozenset({"stablehlo.constant", "stablehlo.iota", "sdy.constant", "chlo.constant"})
_POINTWISE = frozenset({"sdy.sharding_constraint", "sdy.propagation_barrier", "sdy.reshard"})
_CHLO_STRUCTURED = frozenset({"chlo.top_k", "chlo.ragged_dot", "chlo.scan", "chlo.constant"})


def _is_elementwise_chlo(name: str) -> bool:
    return name.startswith("chlo.") and name not in _CHLO_STRUCTURED


def pointwise(operands: int, results: list[Shape]) -> Rule:
    """One parallel factor per dimension, the same in all operands and results."""
    shape = results[0]
    dims = tuple((i,) for i in range(len(shape)))
    return Rule(
        sizes=shape,
        kinds=(FactorKind.PARALLEL,) * len(shape),
        operands=(dims,) * operands,
        results=(dims,) * len(results),
    )


def identities(shapes: list[Shape]) -> tuple[tuple[int, ...], tuple[Dims, ...]]:
    """Factors and dimensions of tensors that share nothing: one factor per dimension of each."""
    sizes: list[int] = []
    tensors: list[Dims] = []
    for shape in shapes:
        tensors.append(tuple((len(sizes) + i,) for i in range(len(shape))))
        sizes.extend(shape)
    return tuple(sizes), tuple(tensors)


def _asked_for_size(operands: list[Shape]) -> Rule:
    """The size is part of the type: any shard will do, and nothing is computed from it."""
    sizes, tensors = identities(operands)
    kinds = (FactorKind.PARALLEL,) * len(sizes)
    return Rule(sizes=sizes, kinds=kinds, operands=tensors, results=((),))


def _free(operands: list[Shape], results: list[Shape]) -> Rule:
    """The op takes and makes whatever shards it is given; no dimension means another."""
    sizes, tensors = identities(operands + results)
    return Rule(
        sizes=sizes,
        kinds=(FactorKind.PARALLEL,) * len(sizes),
        operands=tensors[: len(operands)],
        results=tensors[len(operands) :],
    )


def _pairwise(shapes: list[Shape]) -> Rule:
    sizes, tensors = identities(shapes)
    kinds = (FactorKind.PARALLEL,) * len(sizes)
    return Rule(sizes=sizes, kinds=kinds, operands=tensors, results=tensors)


def blocked(operands: list[Shape], results: list[Shape]) -> Rule:
    """The rule of an op about which nothing is known: every dimension stays whole."""
    sizes, tensors = identities(operands + results)
    return Rule(
        sizes=sizes,
        kinds=(FactorKind.BLOCKED,) * len(sizes),
        operands=tensors[: len(operands)],
        results=tensors[len(operands) :],
        known=False,
    )
