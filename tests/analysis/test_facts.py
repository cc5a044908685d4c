"""Shardings that a module already has, in both spellings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.fact_modules import MODULE
from toast.analysis.hlosharding import Tiles, parse_tiles, tile_axes
from toast.analysis.load import load
from toast.analysis.program import CONSTRAINT


def test_facts_are_read_and_taken_off() -> None:
    source = load(MODULE)
    facts = source.facts
    assert facts.arguments[0].spec == ((), ("model",))
    assert facts.arguments[0].required
    assert facts.arguments[0].axes == {"data": 2, "model": 4}
    assert not facts.arguments[1].required
    assert facts.arguments[2].tiles == Tiles(counts=(4,), reshape=(2, 4), permutation=(1, 0))
    assert facts.results[0].spec == (("model",), ())
    assert [fact.spec for fact in facts.constraints.values()] == [(("data",), ("model",)), None]
    assert facts.dropped == 1
    text = str(source.loaded.module)
    assert "sdy.mesh" not in text
    assert "sdy.sharding =" not in text


def test_constraints_stay_as_ops_that_pass_their_operand_on() -> None:
    source = load(MODULE)
    program = source.program
    kinds = [program.kind(op) for op in range(program.ops)]
    assert kinds.count(CONSTRAINT) == 2
    assert [op for op, kind in enumerate(kinds) if kind == CONSTRAINT] == [
        *source.facts.constraints
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{replicated}", Tiles(counts=None)),
        ("{devices=[2,4]<=[8]}", Tiles(counts=(2, 4), reshape=(8,), permutation=(0,))),
        (
            "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
            Tiles(counts=(2, 1), reshape=(8,), permutation=(0,)),
        ),
        ("{maximal device=0}", None),
        ("{manual}", None),
        ("nonsense", None),
        ("{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}", None),
    ],
)
def test_hlo_shardings(text: str, expected: Tiles | None) -> None:
    assert parse_tiles(text) == expected


AXES = [("a", 2), ("b", 3), ("c", 2)]


@given(st.permutations(range(3)), st.integers(0, 3))
def test_axes_are_found_for_every_order_of_them(order: list[int], kept: int) -> None:
    """A tensor with one dimension per kept axis, devices transposed by `order`."""
    names = [AXES[index][0] for index in order][:kept]
    tiles = Tiles(
        counts=tuple(AXES[index][1] for index in order[:kept]),
        reshape=tuple(size for _, size in AXES),
        permutation=tuple(order),
    )
    assert tile_axes(tiles, kept, AXES) == [[name] for name in names]


def test_several_axes_on_one_dimension() -> None:
    tiles = Tiles(counts=(6, 1), reshape=(12,), permutation=(0,))
    assert tile_axes(tiles, 2, AXES) == [["a", "b"], []]


@pytest.mark.parametrize(
    "tiles",
    [
        Tiles(counts=(4,), reshape=(12,), permutation=(0,)),
        Tiles(counts=(2,), reshape=(5,), permutation=(0,)),
        Tiles(counts=(2, 2), reshape=(12,), permutation=(0,)),
    ],
)
def test_tiles_that_are_no_whole_axes_are_refused(tiles: Tiles) -> None:
    assert tile_axes(tiles, 1, AXES) is None


def test_replicated_needs_no_axes() -> None:
    assert tile_axes(Tiles(counts=None), 2, AXES) == [[], []]
