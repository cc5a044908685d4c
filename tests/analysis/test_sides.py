"""Disjoint sets: components agree with a graph search, sides with a two-colouring."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toast.analysis.unionfind import components, sided_components

PAIRS = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=30)


@given(PAIRS)
def test_components_are_those_of_the_graph(pairs: list[tuple[int, int]]) -> None:
    found = components(15, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    reached = {item: {item} for item in range(15)}
    for _ in range(15):
        for a, b in pairs:
            union = reached[a] | reached[b]
            for item in union:
                reached[item] = reached[item] | union
    for a in range(15):
        for b in range(15):
            assert (found[a] == found[b]) == (b in reached[a])


Join = tuple[int, int, bool]


def joined(count: int, joins: list[Join]) -> tuple[list[int], list[int], list[bool]]:
    pairs = np.array([join[:2] for join in joins], dtype=np.int64).reshape(-1, 2)
    opposite = np.array([join[2] for join in joins], dtype=np.bool_)
    root, side, accepted = sided_components(count, pairs, opposite)
    return root.tolist(), side.tolist(), accepted.tolist()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=20))
def test_accepted_joins_all_hold_and_others_contradict(joins: list[Join]) -> None:
    root, side, accepted = joined(10, joins)
    for (left, right, opposite), held in zip(joins, accepted, strict=True):
        assert root[left] == root[right]
        assert ((side[left] != side[right]) == opposite) == held
    for item, lowest in enumerate(root):
        assert lowest <= item
        assert root[lowest] == lowest
        assert side[lowest] == 0


def test_a_contradiction_is_refused() -> None:
    joins = [(0, 1, True), (1, 2, True), (0, 2, True), (0, 2, False)]
    root, side, accepted = joined(3, joins)
    assert accepted == [True, True, False, True]
    assert root == [0, 0, 0]
    assert side == [0, 1, 0]
