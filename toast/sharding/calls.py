"""One call of a function: its arguments by name, and arrays apart from what is static."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from toast.sharding import graphs
from toast.sharding.functions import Function, library

SCALARS = (bool, int, float, complex)
Place = int | str
"""Where an argument stands in a call: its position or its keyword."""


@dataclass(frozen=True, slots=True)
class CallArgument:
    """An argument that holds arrays: its parameter, where it stands, and its value.

    The value of an object of flax.nnx is its state.
    """

    name: str
    place: Place
    value: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A call taken apart.

    `leaves` are those of all values in order; `dynamic` says which of them are arrays. `nodes` are
    the arguments with objects of flax.nnx, and `definition` says what those are.
    """

    function: Function
    arguments: tuple[CallArgument, ...]
    constants: dict[Place, Any]
    leaves: list[Any]
    tree: Any
    dynamic: list[bool]
    nodes: dict[str, Any] = field(default_factory=dict)
    definition: Any = None

    @property
    def arrays(self) -> list[Any]:
        """The leaves that are arrays."""
        return [leaf for leaf, kept in zip(self.leaves, self.dynamic, strict=True) if kept]

    def within_trace(self) -> bool:
        """Whether the call stands in a function that JAX traces, such as a jitted one."""
        return any(isinstance(leaf, jax.core.Tracer) for leaf in self.leaves)

    def key(self) -> Hashable:
        """Equal for calls that one plan serves: same types, same static values."""
        return (
            tuple((one.name, one.place) for one in self.arguments),
            tuple((place, _hashable(value)) for place, value in self.constants.items()),
            self.tree,
            _hashable(self.definition),
            tuple(
                _type_of(leaf) if kept else _hashable(leaf)
                for leaf, kept in zip(self.leaves, self.dynamic, strict=True)
            ),
        )

    def arguments_with(self, arrays: Sequence[Any]) -> tuple[list[Any], dict[str, Any], Any]:
        """Positional and keyword arguments of these arrays, and new objects of flax.nnx."""
        values = self.values_with(arrays)
        nodes = {one.name: values[number] for number, one in enumerate(self.arguments)}
        nodes = {name: nodes[name] for name in self.nodes}
        if nodes:
            nodes = graphs.merge(self.definition, nodes)
        given = dict(self.constants)
        for number, one in enumerate(self.arguments):
            given[one.place] = nodes.get(one.name, values[number])
        positional = [given[place] for place in sorted(p for p in given if isinstance(p, int))]
        return positional, {p: v for p, v in given.items() if isinstance(p, str)}, nodes

    def values_with(self, arrays: Sequence[Any], static: Any = ...) -> list[Any]:
        """The values of the arguments of these arrays; `static` replaces what is no array."""
        remaining = iter(arrays)
        leaves = [
            next(remaining) if kept else leaf if static is ... else static
            for leaf, kept in zip(self.leaves, self.dynamic, strict=True)
        ]
        values: list[Any] = list(jax.tree.unflatten(self.tree, leaves))
        return values


def take_apart(function: Function, positional: Sequence[Any], keywords: dict[str, Any]) -> Call:
    """The call of `function` with these arguments."""
    given: list[tuple[str, Place, Any]] = [
        (function.positional(number), number, value) for number, value in enumerate(positional)
    ]
    given += [(name, name, value) for name, value in keywords.items()]
    constants = {place: value for name, place, value in given if name in function.static}
    rest = [one for one in given if one[0] not in function.static]
    nodes = {name: value for name, _, value in rest if function.graph and graphs.holds_nodes(value)}
    definition, states = graphs.split(nodes) if nodes else (None, {})
    arguments = tuple(
        CallArgument(name, place, states.get(name, value) if name in nodes else value)
        for name, place, value in rest
    )
    leaves, tree = jax.tree.flatten([one.value for one in arguments])
    inside = _in_modules([one.value for one in arguments])
    dynamic = [
        is_array(leaf) or (isinstance(leaf, SCALARS) and not (function.scalars_static or within))
        for leaf, within in zip(leaves, inside or [False] * len(leaves), strict=True)
    ]
    return Call(function, arguments, constants, leaves, tree, dynamic, nodes, definition)


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array, or stands for one."""
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
        return True
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind not in "OUSMm"
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _in_modules(values: list[Any]) -> list[bool] | None:
    """For each leaf whether a module of equinox holds it; None where there are none.

    Numbers of Python in such a module say what it does: a rate, a flag.
    """
    equinox = library("equinox")
    if equinox is None:
        return None

    def is_module(value: Any) -> bool:
        return isinstance(value, equinox.Module)

    found: list[bool] = []
    for item in jax.tree.leaves(values, is_leaf=is_module):
        if is_module(item):
            found += [True] * len(jax.tree.leaves(item))
        else:
            found.append(False)
    return found


def _type_of(leaf: Any) -> Hashable:
    """Equal for a number of Python and the array that takes its place in the next step."""
    if isinstance(leaf, SCALARS):
        return ((), _canonical(np.dtype(type(leaf))), not isinstance(leaf, bool))
    return (tuple(leaf.shape), _canonical(leaf.dtype), bool(getattr(leaf, "weak_type", False)))


@lru_cache
def _canonical_of(dtype: Any, _x64: bool) -> Any:
    return jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)


def _canonical(dtype: Any) -> Any:
    return _canonical_of(dtype, bool(jax.config.jax_enable_x64))


def _hashable(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return (type(value), id(value))
    return (type(value), value)
