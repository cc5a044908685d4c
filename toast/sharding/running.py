"""The planned program of one kind of call, with the arrays of the caller."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from toast.plans.partition_specs import partition_spec
from toast.plans.result import PlanResult
from toast.sharding import graphs
from toast.sharding.calls import Call
from toast.sharding.meshes import automatic
from toast.sharding.tracing import Leaf, Traced


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call with its plan and its compiled step; runs every call of the same types.

    `inputs` and `outputs` are the shardings of arrays on the caller's own mesh.
    """

    call: Call
    traced: Traced
    result: PlanResult | None
    mesh: Mesh
    inputs: list[NamedSharding]
    outputs: list[NamedSharding]
    donated: list[bool]
    step: Any
    inner: Mesh

    @classmethod
    def of(cls, call: Call, traced: Traced, result: PlanResult | None, mesh: Mesh) -> PlannedCall:
        """Make the step that runs the planned program on `mesh`; nothing is compiled yet.

        Without a plan, for one device, all is whole.
        """
        inner, order = automatic(mesh), traced.outcome.containers
        given, made = traced.inputs, traced.outcome.leaves
        if result is None:
            exported = traced.program.export()
            given, made = [PartitionSpec()] * len(given), [PartitionSpec()] * len(made)
        else:
            exported = jax.export.deserialize(bytearray(result.module))
            plan = result.plan
            given = _specs(traced.in_order([one.spec for one in plan.arguments]), given)
            made = _specs(order.restore([one.spec for one in plan.results]), made)
        donated = _donated(call)
        made = _in_place(made, given, donated, traced)
        if call.nodes:
            made = _as_given(made, given, call, traced)
        step = _step(exported, traced, call.function.name, donated)
        outputs = [NamedSharding(mesh, spec) for spec in made]
        return cls(
            call=call,
            traced=traced,
            result=result,
            mesh=mesh,
            inputs=[NamedSharding(mesh, spec) for spec in given],
            outputs=outputs,
            donated=donated,
            step=jax.jit(
                step,
                in_shardings=_parted([NamedSharding(inner, spec) for spec in given], donated),
                out_shardings=outputs,
                donate_argnums=0,
            ),
            inner=inner,
        )

    def run(self, call: Call) -> Any:
        """The results of a call, after its objects of flax.nnx have their new arrays."""
        if call.within_trace():
            results = self.step(*_parted(call.arrays, self.donated))
        else:
            results = self._run(call.arrays)
        restored = self.traced.outcome.restore(results)
        if not call.nodes:
            return restored
        result, states = restored
        graphs.update(call.nodes, states)
        return result

    def _run(self, arrays: Sequence[Any]) -> list[Any]:
        placed = [
            place(array, sharding, donate=donated)
            for array, sharding, donated in zip(arrays, self.inputs, self.donated, strict=True)
        ]
        ambient = jax.sharding.get_mesh()
        with nullcontext() if ambient.empty else jax.set_mesh(self.inner):
            results: list[Any] = self.step(*_parted(placed, self.donated))
        return results


def place(array: Any, sharding: NamedSharding, *, donate: bool = False) -> Any:
    """The array laid out by `sharding`; as it is where it is already, or is on no device yet."""
    if not isinstance(array, jax.Array):
        return array
    if array.sharding == sharding or array.sharding.is_equivalent_to(sharding, array.ndim):
        return array
    if not donate or not array.committed:
        return jax.device_put(array, sharding)
    return jax.device_put(array, sharding, donate=True)


def _step(exported: Any, traced: Traced, name: str, donated: list[bool]) -> Any:
    def step(given: list[Any], kept: list[Any]) -> list[Any]:
        taken = {True: iter(given), False: iter(kept)}
        arrays = [next(taken[one]) for one in donated]
        entered = [leaf.enter(array) for leaf, array in zip(traced.inputs, arrays, strict=True)]
        results = exported.call(*traced.pack(entered))
        leaves = traced.outcome.containers.unpack(results)
        return [leaf.leave(one) for leaf, one in zip(traced.outcome.leaves, leaves, strict=True)]

    step.__name__ = step.__qualname__ = name
    return step


def _parted(items: Sequence[Any], donated: list[bool]) -> tuple[list[Any], list[Any]]:
    pairs = list(zip(items, donated, strict=True))
    return [one for one, given in pairs if given], [one for one, given in pairs if not given]


def _donated(call: Call) -> list[bool]:
    numbers = jax.tree.unflatten(call.tree, range(len(call.leaves)))
    found = [False] * len(call.leaves)
    for argument, leaves in zip(call.arguments, numbers, strict=True):
        for index in jax.tree.leaves(leaves):
            found[index] = argument.name in call.function.donated
    return [one for one, kept in zip(found, call.dynamic, strict=True) if kept]


def _specs(specs: Sequence[Any], leaves: Sequence[Leaf]) -> list[PartitionSpec]:
    """The layout of a typed key says nothing of its data."""
    return [partition_spec(spec[: leaf.rank]) for spec, leaf in zip(specs, leaves, strict=True)]


def _as_given(
    made: list[PartitionSpec], given: list[PartitionSpec], call: Call, traced: Traced
) -> list[PartitionSpec]:
    """Results with the arrays of changed objects laid out as the objects were given."""
    before = {
        (call.arguments[path[0].idx].name, *map(str, path[1:])): spec
        for path, spec in jax.tree_util.tree_leaves_with_path(
            call.values_with(given, static=PartitionSpec())
        )
    }
    places = jax.tree_util.tree_leaves_with_path(traced.outcome.numbered())
    found = list(made)
    for path, index in places:
        if index is not None and path[0].idx == 1:
            key = (path[1].key, *map(str, path[2:]))
            found[index] = before.get(key, made[index])
    return found


def _in_place(
    made: list[PartitionSpec], given: list[PartitionSpec], donated: list[bool], traced: Traced
) -> list[PartitionSpec]:
    """Results that may take the memory of a donated array, laid out as it is.

    They are paired as JAX pairs them, in order among arrays of one type. Most have that layout: the
    plan knows of the pair, unless the function was traced under a mesh.
    """
    order, found = traced.outcome.containers.order, list(made)
    waiting: dict[Any, list[int]] = {}
    for number in order:
        waiting.setdefault(_type(traced.outcome.leaves[number]), []).append(number)
    for number in traced.in_order_of_program():
        alike = waiting.get(_type(traced.inputs[number]))
        if donated[number] and alike:
            found[alike.pop(0)] = given[number]
    return found


def _type(leaf: Leaf) -> Any:
    return (getattr(leaf.spec, "shape", ()), getattr(leaf.spec, "dtype", None), leaf.key)
