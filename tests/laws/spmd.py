"""One op on all devices: local operands in, local (combined) results out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.laws import indexed
from tests.laws.combine import body_of, combine, identity
from tests.laws.indexed import Part, integers
from tests.laws.joins import Joined, join
from tests.laws.layout import Array, Grid, Shards, box
from tests.laws.localop import run_local
from tests.laws.slide import Slid, slice_limits, slide
from tests.laws.windows import conv_dims, windows_of
from toast.analysis.program import FactorKind, Program
from toast.plans.plan import Spec

Moving = Slid | Joined
"""Ops that need strips of their neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An op with the layouts of its operands and of its results as it computes them.

    `reduced` are the axes over which results are partial.
    """

    program: Program
    op: int
    handle: Any
    grid: Grid
    operands: list[Spec]
    results: list[Spec]
    reduced: list[str]

    def operand_shape(self, index: int) -> tuple[int, ...]:
        """The whole shape of an operand."""
        use = self.program.uses_of(self.op)[index]
        return self.program.shape(int(self.program.use_value[use]))

    def parts(self, operand: int, device: int) -> list[Part]:
        """What a device holds of each dimension of an operand."""
        shape = self.operand_shape(operand)
        places = box(shape, self.operands[operand], self.grid, device)
        return [
            Part(start=place.start, stop=place.stop, whole=size)
            for place, size in zip(places, shape, strict=True)
        ]

    def result_shapes(self, device: int) -> list[tuple[int, ...]]:
        """The shapes of the results on a device."""
        found = []
        for value, spec in zip(self.program.values_of(self.op), self.results, strict=True):
            places = box(self.program.shape(value), spec, self.grid, device)
            found.append(tuple(place.stop - place.start for place in places))
        return found


def run_placed(placed: Placed, operands: list[Shards], counts: Counter[str]) -> list[Shards]:
    """The results of an op on every device, partial ones combined."""
    _check_sizes(placed)
    slid = _moving(placed, operands, counts)
    rows = []
    for device in placed.grid.devices:
        local = [shards[device] for shards in operands]
        rows.append(_on_device(placed, slid, local, device))
    results = [list(shards) for shards in zip(*rows, strict=True)]
    if placed.reduced:
        counts["all_reduce"] += 1
        results = combine(placed.handle, results, placed.reduced, placed.grid)
    return results


def _moving(placed: Placed, operands: list[Shards], counts: Counter[str]) -> Moving | None:
    if placed.handle.name == "stablehlo.concatenate":
        return join(placed, operands, counts)
    return slide(placed, operands, counts) if windows_of(placed.handle) else None


def _check_sizes(placed: Placed) -> None:
    """Every dimension is split into even parts."""
    program = placed.program
    shapes = [placed.operand_shape(index) for index in range(len(placed.operands))]
    shapes += [program.shape(value) for value in program.values_of(placed.op)]
    for shape, spec in zip(shapes, placed.operands + placed.results, strict=True):
        for size, axes in zip(shape, spec, strict=True):
            assert size % placed.grid.part(axes, 0)[1] == 0, "uneven parts"


def _on_device(placed: Placed, slid: Moving | None, local: list[Array], device: int) -> list[Array]:
    op, shapes = placed.handle, placed.result_shapes(device)
    name = op.name
    if not any(axes for spec in placed.operands + placed.results for axes in spec):
        return run_local(op, local, shapes, {})
    if slid is not None:
        return slid.run(placed, local, device)
    if name == "stablehlo.dynamic_update_slice":
        parts = placed.parts(0, device)
        return [indexed.update_slice(local, parts, placed.operand_shape(1))]
    if name == "stablehlo.gather":
        return _gather(placed, local, device)
    if name == "stablehlo.scatter":
        return run_local(op, _scatter(placed, local, device), shapes, {})
    if name == "stablehlo.reduce":
        local = _first_holds_initial(placed, local, device, len(local) // 2)
    return run_local(op, local, shapes, changes_of(placed, device))


def changes_of(placed: Placed, device: int) -> dict[str, Any]:
    """Attributes that mention sizes, at the sizes of a device."""
    shapes = placed.result_shapes(device)
    match placed.handle.name:
        case "stablehlo.slice":
            local = tuple(part.size for part in placed.parts(0, device))
            return {"limit_indices": slice_limits(placed.handle, {}, local)}
        case "stablehlo.dynamic_slice":
            return {"slice_sizes": integers(shapes[0])}
        case "stablehlo.convolution":
            return group_counts(placed, device)
        case _:
            return {}


def group_counts(placed: Placed, device: int) -> dict[str, Any]:
    """Feature and batch groups that a device is left with."""
    numbers, op = conv_dims(placed.handle), placed.handle
    left, right = placed.parts(0, device), placed.parts(1, device)
    features = left[numbers.input_feature_dimension].size
    inner = right[numbers.kernel_input_feature_dimension].size
    batch = left[numbers.input_batch_dimension]
    changed = {}
    count = op.attributes["feature_group_count"]
    if count.value > 1:
        assert features % inner == 0
        changed["feature_group_count"] = type(count).get(count.type, features // inner)
    count = op.attributes["batch_group_count"]
    if count.value > 1:
        outer = right[numbers.kernel_output_feature_dimension]
        split = outer.whole // outer.size
        if split > 1:
            assert batch.size * split == batch.whole, "groups split on one side only"
            changed["batch_group_count"] = type(count).get(count.type, count.value // split)
    return changed


def _gather(placed: Placed, local: list[Array], device: int) -> list[Array]:
    op, parts = placed.handle, placed.parts(0, device)
    indices, hit = indexed.local_gather(op, local[1], parts)
    changes = indexed.gather_changes(op, parts)
    (found,) = run_local(op, [local[0], indices], placed.result_shapes(device), changes)
    return [np.where(hit, found, np.zeros((), found.dtype))]


def _scatter(placed: Placed, local: list[Array], device: int) -> list[Array]:
    op = placed.handle
    inputs = (len(local) - 1) // 2
    local = list(local)
    local[inputs] = indexed.local_scatter(op, local[inputs], placed.parts(0, device))
    return _first_holds_initial(placed, local, device, 0, inputs)


def _first_holds_initial(
    placed: Placed, local: list[Array], device: int, start: int, count: int | None = None
) -> list[Array]:
    """What partial results begin with counts once: other devices begin with the identity."""
    if placed.grid.part(placed.reduced, device)[0] == 0:
        return local
    stop = len(local) if count is None else start + count
    body = body_of(placed.handle)
    changed = list(local)
    for index in range(start, stop):
        neutral = identity(body, local[index].dtype) if body else None
        if neutral is not None:
            changed[index] = np.broadcast_to(neutral, local[index].shape)
    return changed


def halo_of(placed: Placed, dim: int) -> int:
    """The strip width that the analysis states for a dimension of the first operand."""
    program = placed.program
    name = int(program.use_names(program.uses_of(placed.op)[0])[dim])
    if name < 0:
        return 0
    if program.factor_kind[name] != FactorKind.HALO:
        return 0
    return int(program.factor_halo[name])
