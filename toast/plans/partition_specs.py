"""The layouts of a plan as JAX writes them, in the shape of the caller's own trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toast.analysis.errors import InvalidRequest
from toast.request.patterns import path

if TYPE_CHECKING:
    from jax.sharding import PartitionSpec

    from toast.plans.plan import Plan, Tensor

_BOXED = ("/value", "/raw_value")


def partition_spec(spec: Sequence[Sequence[str]]) -> PartitionSpec:
    """The JAX form of a plan's spec."""
    from jax.sharding import PartitionSpec

    return PartitionSpec(*(_entry(axes) for axes in spec))


def _entry(axes: Sequence[str]) -> Any:
    if not axes:
        return None
    return axes[0] if len(axes) == 1 else tuple(axes)


def partition_specs(plan: Plan, tree: Any, argument: str | None) -> Any:
    """A tree like `tree`, which is an argument of the planned function, of its PartitionSpecs."""
    import jax
    from jax.sharding import PartitionSpec

    known = {path(tensor.name): tensor for tensor in plan.arguments}
    found = jax.tree_util.tree_flatten_with_path(tree)
    paths = [(_normal(jax.tree_util.keystr(steps)), leaf) for steps, leaf in found[0]]
    names = list(dict.fromkeys(name.partition("/")[0] for name in known))
    if argument is None:
        argument = _argument(known, paths, names)
    elif argument not in names:
        raise InvalidRequest(
            f"The plan has no argument {argument!r}.", f"Its arguments: {', '.join(names)}."
        )
    specs = []
    for name, leaf in paths:
        tensor = _tensor(known, argument, name)
        rank = len(getattr(leaf, "shape", ()))
        specs.append(PartitionSpec() if tensor is None else partition_spec(tensor.spec[:rank]))
    return jax.tree.unflatten(found[1], specs)


def _normal(text: str) -> str:
    return path(text)


def _tensor(known: dict[str, Tensor], argument: str, name: str) -> Tensor | None:
    whole = "/".join(part for part in (argument, name) if part)
    for box in _BOXED:
        if whole.endswith(box) and whole not in known:
            return known.get(whole.removesuffix(box))
    return known.get(whole)


def _argument(
    known: dict[str, Tensor], paths: Sequence[tuple[str, Any]], names: Sequence[str]
) -> str:
    """The argument whose leaves have these paths and shapes, or '' for a dict of arguments."""
    counts: dict[str, int] = {}
    for name in ("", *names):
        tensors = [(_tensor(known, name, step), leaf) for step, leaf in paths]
        agree = [tensor for tensor, leaf in tensors if tensor is not None and _alike(tensor, leaf)]
        there = sum(tensor is not None for tensor, _ in tensors)
        if agree and there == len(agree):
            counts[name] = len(agree)
    most = [name for name, count in counts.items() if count == max(counts.values())]
    if not most:
        raise InvalidRequest(
            "The tree is no argument of the planned function.",
            f"Give one of {', '.join(names)} as the function takes it.",
        )
    layouts = {
        tuple(str(tensor and tensor.spec) for tensor in (_tensor(known, name, s) for s, _ in paths))
        for name in most
    }
    if len(layouts) > 1:
        raise InvalidRequest(
            f"The tree may be each of the arguments {', '.join(most)}, which are laid out "
            "otherwise.",
            f"Say which: argument={most[0]!r}.",
        )
    return most[0]


def _alike(tensor: Tensor, leaf: Any) -> bool:
    shape = list(getattr(leaf, "shape", ()))
    return tensor.shape[: len(shape)] == shape
