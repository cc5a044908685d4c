"""Random dimension numbers of `dot_general`: what is found is what Shardy says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.shardcombine.tools import found_rule, one_op, ops_of, shardy_rule
from toast.analysis.shardcombine.compare import splits

SIZES = [1, 3, 8, 8, 25, 64]


@st.composite
def dot_generals(draw: st.DrawFn) -> tuple[str, list[str]]:
    """An op and the types of its operands, dimensions in any order."""
    batch = draw(st.lists(st.sampled_from(SIZES), max_size=2))
    contracting = draw(st.lists(st.sampled_from(SIZES), max_size=2))
    free = [draw(st.lists(st.sampled_from(SIZES), max_size=2)) for _ in range(2)]
    sides = []
    for own in free:
        roles = [("b", i) for i in range(len(batch))] + [("c", i) for i in range(len(contracting))]
        order = draw(st.permutations(roles + [("f", i) for i in range(len(own))]))
        sides.append(order)
    sizes = [{"b": batch, "c": contracting, "f": own} for own in free]
    shapes = [[size[role][i] for role, i in side] for side, size in zip(sides, sizes, strict=True)]
    result = [*batch]
    for side, own in zip(sides, free, strict=True):
        result += [own[i] for role, i in side if role == "f"]
    places = [
        [[side.index((role, i)) for i in range(len(of))] for side in sides]
        for role, of in (("b", batch), ("c", contracting))
    ]
    types = ["x".join([*map(str, shape), "f32"]) for shape in [*shapes, result]]
    text = (
        f"%r = stablehlo.dot_general %0, %1, "
        f"batching_dims = {places[0][0]} x {places[0][1]}, "
        f"contracting_dims = {places[1][0]} x {places[1][1]} "
        f": (tensor<{types[0]}>, tensor<{types[1]}>) -> tensor<{types[2]}>"
    )
    return text, types[:2]


@settings(max_examples=40, derandomize=True)
@given(case=dot_generals())
def test_the_rule_is_shardys_up_to_renaming(case: tuple[str, list[str]]) -> None:
    with ops_of(one_op(*case)) as ops:
        assert splits(found_rule(ops[0])) == splits(shardy_rule(ops[0]))
