"""TryCombine on arrays: each combine is found where it fits and refused where it does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.analysis.shardcombine.combine import REDUCES, Trial, close, reduced, try_combine
from toast.analysis.shardcombine.findings import Combine, How
from toast.analysis.shardcombine.numbers import Array

MAX_DROPPED = 3

EXACT = 1e-6


def arrays(*shape: int, seed: int = 0, dtype: str = "f4") -> list[Array]:
    """Three sets of values."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(dtype) for _ in range(3)]


def trial(
    whole: list[Array], first: list[Array], second: list[Array], *, halo: bool = False
) -> Combine | None:
    return try_combine(Trial(whole=whole, first=first, second=second, tolerance=EXACT, halo=halo))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_halves_are_gathered(dim: int) -> None:
    whole = arrays(4, 6, 8)
    halves = [np.split(array, 2, dim) for array in whole]
    found = trial(whole, [half[0] for half in halves], [half[1] for half in halves])
    assert found == Combine(how=How.GATHER, dim=dim)


def test_one_set_of_inputs_that_disagrees_is_enough_to_refuse() -> None:
    whole = arrays(4, 6)
    first, second = [array[:2] for array in whole], [array[2:] for array in whole]
    second[2] = second[2] + 1
    assert trial(whole, first, second) is None


@pytest.mark.parametrize("name", REDUCES)
def test_partial_results_are_reduced(name: str) -> None:
    first, second = arrays(4, 6, seed=1), arrays(4, 6, seed=2)
    whole = [reduced(name, one, two).astype("f4") for one, two in zip(first, second, strict=True)]
    assert trial(whole, first, second) == Combine(how=How.REDUCE, reduce=name)


def test_nothing_is_reduced_where_one_shard_has_it_all() -> None:
    whole = arrays(4, 6)
    assert trial(whole, whole, whole) is None
    assert trial(whole, whole, [array - 5 for array in whole]) is None


@given(before=st.integers(0, MAX_DROPPED), after=st.integers(0, MAX_DROPPED))
def test_rows_beside_the_seam_are_dropped(before: int, after: int) -> None:
    whole = arrays(12, 3)
    junk = arrays(MAX_DROPPED, 3, seed=5)
    first = [np.concatenate([w[:6], j[:before]]) for w, j in zip(whole, junk, strict=True)]
    second = [np.concatenate([j[:after], w[6:]]) for w, j in zip(whole, junk, strict=True)]
    found = trial(whole, first, second, halo=True)
    if before == after == 0:
        assert found == Combine(how=How.GATHER, dim=0)
    else:
        assert found == Combine(how=How.HALO, dim=0, before=before, after=after)


def test_many_dropped_rows_are_another_operands() -> None:
    whole = arrays(12, 3)
    first = [np.concatenate([array[:6], array[:5]]) for array in whole]
    assert trial(whole, first, [array[6:] for array in whole], halo=True) is None


def test_overlapping_rows_are_added_up() -> None:
    first, second = arrays(5, 3, seed=1), arrays(5, 3, seed=2)
    whole = [
        np.concatenate([one[:4], one[4:] + two[:1], two[1:]])
        for one, two in zip(first, second, strict=True)
    ]
    assert trial(whole, first, second) == Combine(how=How.HALO, dim=0, before=-1)


@given(blocks=st.integers(2, 5), rows=st.integers(1, 3))
def test_interleaved_parts_are_gathered_in_blocks(blocks: int, rows: int) -> None:
    """Figure 11: the rows that agree at the head tell how many blocks there are."""
    parts = [arrays(2 * rows, 3, seed=seed) for seed in range(blocks)]
    whole = [np.concatenate(part) for part in zip(*parts, strict=True)]
    first = [np.concatenate([p[:rows] for p in part]) for part in zip(*parts, strict=True)]
    second = [np.concatenate([p[rows:] for p in part]) for part in zip(*parts, strict=True)]
    assert trial(whole, first, second) == Combine(how=How.BLOCKS, dim=0, blocks=blocks)


def test_a_halo_may_be_trimmed_before_a_sum() -> None:
    first, second = arrays(5, 3, seed=1), arrays(5, 3, seed=2)
    whole = [one[:3] + two[2:] for one, two in zip(first, second, strict=True)]
    expected = Combine(how=How.REDUCE, reduce="sum", before=2, after=2)
    assert trial(whole, first, second, halo=True) == expected
    assert trial(whole, first, second) is None


@pytest.mark.parametrize("shape", [(4,), (4, 6, 1), (2, 3)])
def test_results_of_other_ranks_or_split_twice_do_not_combine(shape: tuple[int, ...]) -> None:
    assert trial(arrays(4, 6), arrays(*shape), arrays(*shape)) is None


def test_integers_agree_exactly_and_floats_up_to_rounding() -> None:
    assert close(np.array([1.0, 1e-9]), np.array([1.0, 0.0]), EXACT)
    assert close(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), EXACT)
    assert not close(np.array([np.nan, 1.0]), np.array([2.0, 1.0]), EXACT)
    assert not close(np.array([1_000_000_000]), np.array([1_000_000_001]), EXACT)
    assert not close(np.zeros(3), np.zeros(4), EXACT)


def test_booleans_have_a_maximum_and_a_minimum_only() -> None:
    first, second = np.array([True, False, False]), np.array([True, True, False])
    assert reduced("max", first, second).tolist() == [True, True, False]
    assert reduced("min", first, second).tolist() == [True, False, False]
    assert reduced("sum", first, second).shape == (0,)
    assert reduced("mean", np.array([1, 2]), np.array([2, 3])).shape == (0,)
