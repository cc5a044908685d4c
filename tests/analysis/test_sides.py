"""Disjoint sets: components agree with a graph search, sides with a two-colouring."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analysis.unionfind import SidedSets, components

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


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=20))
def test_accepted_joins_all_hold(joins: list[tuple[int, int, bool]]) -> None:
    sets = SidedSets(range(10))
    accepted = [join for join in joins if sets.join(join[0], join[1], opposite=join[2])]
    for left, right, opposite in accepted:
        (a, side_a), (b, side_b) = sets.find(left), sets.find(right)
        assert a == b
        assert (side_a != side_b) == opposite


def test_a_contradiction_is_refused() -> None:
    sets = SidedSets(range(3))
    assert sets.join(0, 1, opposite=True)
    assert sets.join(1, 2, opposite=True)
    assert not sets.join(0, 2, opposite=True)
    assert sets.join(0, 2, opposite=False)
