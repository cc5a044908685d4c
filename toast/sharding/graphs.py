"""Modules of flax.nnx: objects that hold arrays, share them, and are changed by a call."""

from __future__ import annotations

from typing import Any

import jax

from toast.sharding.functions import library


def is_node(value: Any) -> bool:
    """Whether a value is a module, an optimizer, or another object of flax.nnx."""
    nnx = library("flax.nnx")
    kinds = tuple(
        kind for name in ("Pytree", "Object") if isinstance(kind := getattr(nnx, name, None), type)
    )
    return bool(kinds) and isinstance(value, kinds)


def holds_nodes(tree: Any) -> bool:
    """Whether such an object is anywhere in a tree."""
    if library("flax.nnx") is None:
        return False
    return any(is_node(leaf) for leaf in jax.tree.leaves(tree, is_leaf=is_node))


def split(nodes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What objects are, without their arrays, and the state of each; an array counts once."""
    nnx: Any = library("flax.nnx")
    definition, state = nnx.split(nodes)
    return definition, {name: state[name] if name in state else nnx.State({}) for name in nodes}


def merge(definition: Any, states: dict[str, Any]) -> dict[str, Any]:
    """New objects of these states."""
    nnx: Any = library("flax.nnx")
    merged: dict[str, Any] = nnx.merge(definition, nnx.State(dict(states)))
    return merged


def states_of(nodes: dict[str, Any]) -> dict[str, Any]:
    """The state of each object."""
    return split(nodes)[1]


def update(nodes: dict[str, Any], states: dict[str, Any]) -> None:
    """Give the objects new arrays."""
    nnx: Any = library("flax.nnx")
    for name, state in states.items():
        nnx.update(nodes[name], state)
