"""Leaves of any tree keep their names in dicts and lists, and come back."""

from __future__ import annotations

from typing import Any

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

from toast.sharding.containers import Containers

TREES = st.recursive(
    st.integers(),
    lambda child: st.one_of(
        st.lists(child, max_size=3),
        st.tuples(child, child),
        st.dictionaries(st.integers(0, 4), child, max_size=3),
        st.dictionaries(st.text("ab", max_size=2), child, max_size=3),
    ),
    max_leaves=8,
)


@given(TREES)
def test_what_is_packed_is_unpacked(tree: Any) -> None:
    found = jax.tree_util.tree_leaves_with_path(tree)
    containers = Containers.of([path for path, _ in found])
    leaves = [leaf for _, leaf in found]
    packed = containers.pack(leaves)
    assert containers.unpack(packed) == leaves
    kinds = {type(key) for path, _ in jax.tree_util.tree_leaves_with_path(packed) for key in path}
    assert kinds <= {DictKey, SequenceKey}


V, W = GetAttrKey("value"), GetAttrKey("w")


@pytest.mark.parametrize(
    ("paths", "packed"),
    [
        ([()], 0),
        ([], {}),
        ([(DictKey(3),), (DictKey(11),)], {"3": 0, "11": 1}),
        ([(DictKey(1),), (DictKey(0),)], [1, 0]),
        ([(W, V)], {"w": 0}),
        ([(W,), (W, V)], [0, 1]),
        ([(V,), (W, V)], {"value": 0, "w": {"value": 1}}),
        ([(FlattenedIndexKey(0),), (FlattenedIndexKey(1),)], [0, 1]),
        ([(DictKey("a"),), (DictKey("a"), DictKey("b"))], [0, 1]),
        ([(DictKey(1),), (DictKey("1"),)], {"int 1": 0, "str 1": 1}),
    ],
)  # fmt: skip
def test_names_are_kept(paths: list[Any], packed: Any) -> None:
    assert Containers.of(paths).pack(range(len(paths))) == packed
