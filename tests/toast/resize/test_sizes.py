"""Classes of dimensions: joined, split where they nest, kept where they do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from toast.resize.relations import CountedWindow, JoinedSize, Reason, Relation, Windowed, Within
from toast.resize.sizes import NO_NODE, Node, Sizes
from toast.resize.solve import NewSizes, Solver

WHY = Reason(text="because")
NO_ARGUMENTS: frozenset[Node] = frozenset()


def nodes_of(sizes: Sizes, *extents: int) -> list[Node]:
    return [sizes.new(extent) for extent in extents]


def test_equal_sizes_share_a_leaf() -> None:
    sizes = Sizes()
    one, other = nodes_of(sizes, 8, 8)
    sizes.join([one], [other], WHY)
    assert sizes.leaves(one) == sizes.leaves(other)
    assert not sizes.kept


def test_a_product_has_the_leaves_of_its_factors() -> None:
    sizes = Sizes()
    whole, batch, length = nodes_of(sizes, 24, 4, 6)
    sizes.join([whole], [batch, length], WHY)
    assert sizes.leaves(whole) == [*sizes.leaves(batch), *sizes.leaves(length)]


def test_factors_are_split_where_they_nest() -> None:
    sizes = Sizes()
    left, right = nodes_of(sizes, 4, 6), nodes_of(sizes, 2, 12)
    sizes.join(left, right, WHY)
    assert [sizes.size[leaf] for node in left for leaf in sizes.leaves(node)] == [2, 2, 6]
    assert [sizes.size[leaf] for node in right for leaf in sizes.leaves(node)] == [2, 2, 6]


def test_factors_that_do_not_nest_are_kept_and_what_follows_is_not() -> None:
    sizes = Sizes()
    left, right = nodes_of(sizes, 4, 6, 10), nodes_of(sizes, 6, 4, 10)
    sizes.join(left, right, WHY)
    kept = {leaf for node in left[:2] + right[:2] for leaf in sizes.leaves(node)}
    assert set(sizes.kept) == kept
    assert sizes.leaves(left[2]) == sizes.leaves(right[2])


def test_what_is_kept_stays_so_when_it_is_split_or_joined() -> None:
    sizes = Sizes()
    whole, four, six, twin = nodes_of(sizes, 24, 4, 6, 6)
    sizes.keep([whole], WHY)
    sizes.join([whole], [four, six], WHY)
    sizes.join([six], [twin], WHY)
    assert set(sizes.kept) == {*sizes.leaves(four), *sizes.leaves(twin)}


def test_ones_are_no_dimensions() -> None:
    sizes = Sizes()
    one, eight, other = nodes_of(sizes, 1, 8, 8)
    assert one == NO_NODE
    sizes.join([one, eight], [other], WHY)
    assert sizes.leaves(eight) == sizes.leaves(other)


@given(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=5), min_size=1, max_size=6))
def test_joined_lists_keep_their_products(lists: list[list[int]]) -> None:
    """Whatever is joined, new sizes of leaves give both sides one product."""
    sizes = Sizes()
    pairs = []
    for factors in lists:
        left = nodes_of(sizes, *factors)
        right = nodes_of(sizes, *reversed(factors))
        sizes.join(left, right, WHY)
        pairs.append((left, right))
    if len(pairs) > 1:
        sizes.join(pairs[0][0][:1], pairs[1][0][:1], WHY)
    new = solved(sizes, [], {}, lambda size: size * 2)
    for left, right in pairs[2:]:
        assert math.prod(map(new.of, left)) == math.prod(map(new.of, right))


def solved(
    sizes: Sizes,
    relations: Sequence[Relation],
    wanted: dict[Node, int],
    default: Callable[[int], int],
) -> NewSizes:
    return Solver(
        sizes=sizes,
        relations=relations,
        wanted=wanted,
        default=default,
        arguments=NO_ARGUMENTS,
    ).run()


def test_a_sum_follows_its_parts() -> None:
    sizes = Sizes()
    whole, one, other = nodes_of(sizes, 1025, 1024, 1)
    sum_of = JoinedSize(target=whole, parts=(one, other), reason=WHY)
    assert solved(sizes, [sum_of], {one: 64}, lambda size: size).of(whole) == 65


def test_a_sum_that_cannot_follow_becomes_blocks() -> None:
    sizes = Sizes()
    whole, one, other = nodes_of(sizes, 96, 64, 32)
    relations = [JoinedSize(target=whole, parts=(one, other), reason=WHY)]
    new = solved(sizes, [*relations], {}, lambda size: {96: 50, 64: 16, 32: 16}.get(size, 8))
    assert new.of(whole) == new.of(one) + new.of(other)
    new = solved(sizes, relations, {whole: 100}, lambda size: {32: 4}.get(size, size))
    assert new.of(whole) == new.of(one) + new.of(other)


def test_parts_stay_within_the_whole() -> None:
    sizes = Sizes()
    inner, outer = nodes_of(sizes, 10, 40)
    part = Within(inner=inner, outer=outer, rest=21, stride=2, reason=WHY)
    assert solved(sizes, [part], {outer: 20}, lambda size: size).of(outer) == 20
    assert solved(sizes, [part], {outer: 18}, lambda size: size).of(outer) == 40


def test_what_parts_do_not_fit_into_follows_them() -> None:
    sizes = Sizes()
    inner, outer = nodes_of(sizes, 112, 113)
    border = Within(inner=inner, outer=outer, rest=1, reason=WHY)
    new = solved(sizes, [border], {inner: 32}, lambda size: min(size, 17))
    assert new.shape([inner, outer]) == (32, 33)


def test_windows_make_as_many_results_as_fit() -> None:
    sizes = Sizes()
    image, made = nodes_of(sizes, 32, 16)
    old = CountedWindow(size=32, width=3, result=16, stride=2, low=0, high=1)
    windowed = Windowed(source=image, window=NO_NODE, target=made, old=old, reason=WHY)
    new = solved(sizes, [windowed], {image: 20}, lambda size: size)
    assert (new.of(image), new.of(made)) == (20, 10)
    assert windowed.numbers(new.of) == CountedWindow(
        size=20, width=3, result=10, stride=2, low=0, high=1
    )


def test_the_padding_makes_up_for_results_that_are_given() -> None:
    sizes = Sizes()
    image, kernel, made = nodes_of(sizes, 32, 16, 3)
    old = CountedWindow(size=32, width=16, result=3, window_dilation=2, high=1)
    windowed = Windowed(source=image, window=kernel, target=made, old=old, reason=WHY)
    sizes.keep([made], WHY)
    new = solved(sizes, [windowed], {image: 20, kernel: 10}, lambda size: size)
    assert new.shape([image, kernel, made]) == (20, 10, 3)
    assert windowed.numbers(new.of).is_even
