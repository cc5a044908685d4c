"""Boxes: compatible without a path across, independent with one."""

from __future__ import annotations

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given

from tests.laws.chains import Text
from tests.laws.programs import programs
from tests.modules import analysed
from toast.analysis.names import Colours, map_edges
from toast.analysis.program import Ints
from toast.analysis.reach import Reach


def clashing(names: Ints, colours: Colours) -> list[tuple[int, int]]:
    """Pairs of names of one colour among the names of one tensor, in order of dimension."""
    named = zip(names.tolist(), colours.colour[names].tolist(), strict=True)
    coloured = [(name, kind) for name, kind in named if name >= 0 and kind >= 0]
    return [(one, other) for (one, a), (other, b) in combinations(coloured, 2) if a == b]


def sets_of(function: object, *shapes: tuple[int, ...]) -> tuple[int, int]:
    structs = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    text = jax.jit(function).lower(*structs).as_text()
    analysis = analysed(text.encode())
    return len(analysis.conflicts.all), analysis.conflicts.sets


def test_a_chain_of_elementwise_ops_is_one_set() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(jnp.cos(x @ x.T))

    conflicts, sets = sets_of(f, (8, 4))
    assert conflicts >= 3
    assert sets == 1


def test_a_path_across_the_box_is_not_compatible() -> None:
    def f(x: jax.Array) -> jax.Array:
        a = jnp.sin(x @ x.T)
        return a + a.T

    structs = [jax.ShapeDtypeStruct((8, 4), "float32")]
    analysis = analysed(jax.jit(f).lower(*structs).as_text().encode())
    reach = Reach(analysis.program, map_edges(analysis.program))
    pairs = {
        analysis.program.kind(conflict.op): conflict.names for conflict in analysis.conflicts.all
    }
    sine, turned, total = (pairs[f"stablehlo.{op}"] for op in ("sine", "transpose", "add"))
    # sine reaches both sides of the sum, directly and through the transpose: a path across
    product = pairs["stablehlo.dot_general"]
    boxes = [(sine, total, False), (sine, total, True), (product, sine, False)]
    boxes.append((sine, turned, False))
    first, second, crosswise = (np.array(column) for column in zip(*boxes, strict=True))
    assert reach.across(first, second, crosswise).tolist() == [True, True, False, False]


def test_a_crosswise_box_joins_with_sides_swapped() -> None:
    structs = [jax.ShapeDtypeStruct((8, 4), "float32")]
    text = jax.jit(lambda x: jnp.sin(jnp.transpose(x @ x.T))).lower(*structs).as_text()
    analysis = analysed(text.encode())
    assert analysis.conflicts.sets == 1


def test_two_independent_attentions_are_two_sets() -> None:
    def f(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.sin(x @ x.T), jnp.cos(y @ y.T)

    _, sets = sets_of(f, (8, 4), (6, 4))
    assert sets == 2


def test_a_program_without_a_repeated_colour_has_no_conflict() -> None:
    assert sets_of(lambda x, w: x @ w, (8, 4), (4, 2)) == (0, 0)


@given(module=programs())
def test_conflicts_are_those_of_every_tensor_in_program_order(module: Text) -> None:
    analysis = analysed(module.module().encode())
    program, colours = analysis.program, analysis.colours
    expected: dict[tuple[int, int], int] = {}
    for op in range(program.ops):
        tensors = [program.use_names(use) for use in program.uses_of(op)]
        tensors += [program.def_names(value) for value in program.values_of(op)]
        for names in tensors:
            for pair in clashing(names, colours):
                if pair not in expected and pair[::-1] not in expected:
                    expected[pair] = op
    assert {one.names: one.op for one in analysis.conflicts.all} == expected
    assert [one.names for one in analysis.conflicts.all] == list(expected)


@given(module=programs())
def test_a_path_runs_across_a_box_where_a_walk_along_the_edges_finds_one(module: Text) -> None:
    """And so for boxes that are none: of any two conflicts, either way round."""
    analysis = analysed(module.module().encode())
    edges = map_edges(analysis.program)
    following: dict[int, list[int]] = {}
    for name, after in edges.tolist():
        following.setdefault(name, []).append(after)

    def reached(name: int) -> set[int]:
        seen, left = set[int](), [name]
        while left:
            fresh = set(following.get(left.pop(), ())) - seen
            seen |= fresh
            left += fresh
        return seen

    names = analysis.conflicts.names.tolist()
    behind = [tuple(reached(name) for name in pair) for pair in names]
    pairs = [(a, b, way) for a in range(len(names)) for b in range(len(names)) for way in (0, 1)]
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 3)[:400]
    expected = []
    for source, target, way in rows.tolist():
        ends = names[target] if way else names[target][::-1]
        expected.append(any(end in seen for end, seen in zip(ends, behind[source], strict=True)))
    found = Reach(analysis.program, edges).across(
        analysis.conflicts.names[rows[:, 0]],
        analysis.conflicts.names[rows[:, 1]],
        rows[:, 2].astype(np.bool_),
    )
    assert found.tolist() == expected
