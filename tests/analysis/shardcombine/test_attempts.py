"""Which dimensions are split together: order, limits, and what is never tried."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toast.analysis.shardcombine import attempts
from toast.analysis.shardcombine.findings import Combine, Finding, How

SHAPES = ((4, 6), (6, 8), (4,))
GATHER = (Combine(how=How.GATHER, dim=0),)

shapes_of_ops = st.lists(
    st.lists(st.sampled_from([1, 4, 4, 6]), max_size=4).map(tuple), min_size=1, max_size=6
).map(tuple)


def test_dimensions_come_in_the_order_of_the_algorithm() -> None:
    assert attempts.all_dims(((4, 1, 6), (), (8,))) == [(0, 0), (0, 2), (2, 0)]


def test_equal_sizes_start_with_the_dimension_alone() -> None:
    free = set(attempts.all_dims(SHAPES))
    assert attempts.equal_sets(SHAPES, (0, 1), free) == [(1, -1, -1), (1, 0, -1)]
    assert attempts.equal_sets(SHAPES, (0, 0), free) == [(0, -1, -1), (0, -1, 0)]
    assert attempts.equal_sets(SHAPES, (1, 0), free) == [(-1, 0, -1)]


def test_the_same_dimension_of_all_operands_comes_second() -> None:
    shapes = ((4, 4),) * 8
    free = set(attempts.all_dims(shapes))
    sets = attempts.equal_sets(shapes, (0, 1), free)
    assert sets[:2] == [(1, *(-1,) * 7), (1,) * 8]
    assert len(sets) <= attempts.EQUAL_LIMIT + 3


def test_taken_dimensions_are_left_alone() -> None:
    free = set(attempts.all_dims(SHAPES)) - {(1, 0)}
    assert attempts.equal_sets(SHAPES, (0, 1), free) == [(1, -1, -1)]


def test_unequal_sizes_come_in_pairs() -> None:
    free = set(attempts.all_dims(SHAPES))
    assert attempts.unequal_sets(SHAPES, (0, 0), free) == [(0, 0, -1), (0, 1, -1)]


def test_halos_are_tried_with_the_closest_sizes_first() -> None:
    free = set(attempts.all_dims(SHAPES))
    assert attempts.halo_sets(SHAPES, (0, 1), free)[:2] == [(1, -1, -1), (1, 0, -1)]


def test_halos_are_narrow_first_and_at_most_a_quarter() -> None:
    assert attempts.halos(3) == []
    assert attempts.halos(4) == [(0, 1), (1, 0), (1, 1)]
    widths = attempts.halos(64)
    assert widths[0] == (0, 1)
    assert max(map(max, widths)) == attempts.MAX_HALO


def test_earlier_findings_are_tried_where_they_fit() -> None:
    free = set(attempts.all_dims(SHAPES))
    fits = Finding(dims=(1, 0, -1), combines=GATHER)
    others = [
        Finding(dims=(1, 0), combines=GATHER),
        Finding(dims=(2, 0, -1), combines=GATHER),
        Finding(dims=(0, -1, -1), combines=GATHER, halo=(1, 1)),
        Finding(dims=(-1, -1, -1), combines=GATHER),
        Finding(dims=(1, 0, -1), combines=()),
    ]
    assert attempts.from_findings(SHAPES, [fits, *others], free) == [(1, 0, -1)]


@given(shapes=shapes_of_ops)
def test_every_set_holds_its_start_and_free_dimensions_of_its_size(
    shapes: tuple[tuple[int, ...], ...],
) -> None:
    free = set(attempts.all_dims(shapes))
    for start in attempts.all_dims(shapes):
        sets = attempts.equal_sets(shapes, start, free)
        assert len(sets) == len(set(sets))
        for dims in sets:
            taken = attempts.used(dims)
            assert attempts.start_of(dims) == start
            assert taken <= free
            assert len({shapes[operand][dim] for operand, dim in taken}) == 1
