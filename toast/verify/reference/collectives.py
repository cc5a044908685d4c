"""Collectives of StableHLO over the arrays of all devices, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from toast.analysis.errors import UnsupportedModule
from toast.verify.reference.single import Array

_BODIES: dict[str, Callable[[Array, Array], Array]] = {
    "stablehlo.add": np.add,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.multiply": np.multiply,
    "stablehlo.and": np.bitwise_and,
    "stablehlo.or": np.bitwise_or,
    "stablehlo.xor": np.bitwise_xor,
}


def all_gather(op: Any, held: list[Array]) -> list[Array]:
    """The arrays of each group, one behind another."""
    dim = int(op.attributes["all_gather_dim"].value)
    return _by_group(op, held, lambda group: [np.concatenate(group, axis=dim)] * len(group))


def all_reduce(op: Any, held: list[Array]) -> list[Array]:
    """The arrays of each group, combined."""
    return _by_group(op, held, lambda group: [combined(_body(op), group)] * len(group))


def reduce_scatter(op: Any, held: list[Array]) -> list[Array]:
    """The arrays of each group, combined, and a part for each device."""
    dim = int(op.attributes["scatter_dimension"].value)

    def scatter(group: list[Array]) -> list[Array]:
        return np.split(combined(_body(op), group), len(group), axis=dim)

    return _by_group(op, held, scatter)


def all_to_all(op: Any, held: list[Array]) -> list[Array]:
    """A part of each device's array for each device of its group."""
    split = int(op.attributes["split_dimension"].value)
    joined = int(op.attributes["concat_dimension"].value)

    def exchange(group: list[Array]) -> list[Array]:
        parts = [np.split(array, len(group), axis=split) for array in group]
        return [np.concatenate(column, axis=joined) for column in zip(*parts, strict=True)]

    return _by_group(op, held, exchange)


def collective_permute(op: Any, held: list[Array]) -> list[Array]:
    """The array of the source for each target, zeros for all others."""
    found = [np.zeros_like(array) for array in held]
    for source, target in np.array(op.attributes["source_target_pairs"]).reshape(-1, 2):
        found[int(target)] = held[int(source)]
    return found


COLLECTIVES: dict[str, Callable[[Any, list[Array]], list[Array]]] = {
    "stablehlo.all_gather": all_gather,
    "stablehlo.all_reduce": all_reduce,
    "stablehlo.reduce_scatter": reduce_scatter,
    "stablehlo.all_to_all": all_to_all,
    "stablehlo.collective_permute": collective_permute,
}


def combined(body: str, group: list[Array]) -> Array:
    """The arrays of a group combined by the op of this name, in order."""
    return np.asarray(reduce(_BODIES[body], group)).astype(group[0].dtype)


def _body(op: Any) -> str:
    operations = [view.operation for view in op.regions[0].blocks[0].operations]
    name: str = operations[0].name
    if len(operations) != 2 or name not in _BODIES:
        raise UnsupportedModule(
            f"The reference executor does not know what this {op.name} combines with.",
            "Verify the plan in another form.",
        )
    return name


def _by_group(op: Any, held: list[Array], run: Callable[[list[Array]], list[Array]]) -> list[Array]:
    groups = np.array(ir.DenseIntElementsAttr(op.attributes["replica_groups"]))
    found = list(held)
    for group in groups.reshape(groups.shape[0], -1):
        members = [int(device) for device in group]
        made = run([held[device] for device in members])
        for device, array in zip(members, made, strict=True):
            found[device] = array
    return found
