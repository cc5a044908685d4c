"""Any pytree as builtin containers that keep the names of its leaves.

`jax.export` writes no pytree of other classes, and names the arguments of a program after the path
of each. So arrays travel in dicts and lists whose keys are the steps of their paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, KeyEntry, SequenceKey

Step = str | int
_BOXED = ("value", "raw_value")
"""What libraries call the one array in a box around it; it says nothing about a parameter."""


@dataclass(frozen=True, slots=True)
class Containers:
    """Nested dicts and lists, and which of the arrays given stands in each place of theirs."""

    structure: Any
    order: tuple[int, ...]

    @classmethod
    def of(cls, paths: Sequence[tuple[KeyEntry, ...]]) -> Containers:
        """Containers for leaves with these paths."""
        steps = [_steps(path) for path in paths]
        short = [path[:-1] if path and path[-1] in _BOXED else path for path in steps]
        tree = _nested(short)
        if tree is None:
            tree = _nested(steps)
        if tree is None:
            tree = list(range(len(paths)))
        order, structure = jax.tree.flatten(tree)
        return cls(structure, tuple(order))

    def pack(self, leaves: Sequence[Any]) -> Any:
        """The leaves in their containers."""
        return jax.tree.unflatten(self.structure, [leaves[index] for index in self.order])

    def unpack(self, packed: Any) -> list[Any]:
        """The leaves as they were given."""
        return self.restore(jax.tree.leaves(packed))

    def restore(self, items: Sequence[Any]) -> list[Any]:
        """What came in the order of the containers, in the order of the leaves given."""
        found: list[Any] = [None] * len(self.order)
        for index, item in zip(self.order, items, strict=True):
            found[index] = item
        return found


def _steps(path: tuple[KeyEntry, ...]) -> tuple[Step, ...]:
    return tuple(_step(key) for key in path)


def _step(key: Any) -> Step:
    match key:
        case SequenceKey(idx=index):
            return int(index)
        case DictKey(key=name) | FlattenedIndexKey(key=name):
            return name if isinstance(name, int) and not isinstance(name, bool) else str(name)
        case GetAttrKey(name=name):
            return str(name)
    return str(key)


def _nested(paths: Sequence[tuple[Step, ...]]) -> Any | None:
    """The numbers of the paths, nested; None where one path is another or goes through it."""
    if list(paths) == [()]:
        return 0
    root: dict[Step, Any] = {}
    for number, path in enumerate(paths):
        node: Any = root
        for step in path[:-1]:
            node = node.setdefault(step, {})
            if not isinstance(node, dict):
                return None
        if not path or path[-1] in node:
            return None
        node[path[-1]] = number
    return _plain(root)


def _plain(node: Any) -> Any:
    """Dicts of 0, 1, 2, ... as lists, and other keys as text, which is all that is written."""
    if not isinstance(node, dict):
        return node
    if node and set(node) == set(range(len(node))):
        return [_plain(node[index]) for index in range(len(node))]
    texts = {str(step): _plain(child) for step, child in node.items()}
    if len(texts) == len(node):
        return texts
    return {f"{type(step).__name__} {step}": _plain(child) for step, child in node.items()}
