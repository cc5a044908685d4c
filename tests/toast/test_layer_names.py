"""The numbers of repeated layers are known in the keys of any library."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.analysis.load import load
from toast.labels.layers import argument_patterns, group_names
from toast.request.patterns import layer_patterns, matches, path

STYLES: dict[str, Callable[[str, int], str]] = {
    "a list in a dict": lambda name, number: f"['{name}'][{number}]",
    "text keys": lambda name, number: f"['{name}']['{number}']",
    "numbered keys": lambda name, number: f"['{name}_{number}']",
    "a list of a module": lambda name, number: f".{name}[{number}]",
    "dots": lambda name, number: f".{name}.{number}",
    "dots in one key": lambda name, number: f"['{name}.{number}']",
    "numbered attributes": lambda name, number: f".{name}_{number}",
    "words that mean layers": lambda name, number: f"['{name}block{number}']",
    "an unnamed node": lambda name, number: f".{name}[<flat index {number}>]",
}
Leaf = tuple[list[tuple[str, int]], str, tuple[int, ...]]
"""The layers that an array is in, from the outside, its own name and its shape."""
LEAVES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 12)), max_size=3),
        st.sampled_from(["kernel", "w1", "bias"]),
        st.sampled_from([(), (4,), (4, 8)]),
    ),
    max_size=12,
    unique_by=lambda leaf: (tuple(leaf[0]), leaf[1]),
)


def partition(items: Sequence[object]) -> list[list[int]]:
    """The places of equal items, by the first of each."""
    found: dict[object, list[int]] = {}
    for place, item in enumerate(items):
        found.setdefault(item, []).append(place)
    return list(found.values())


def groups(leaves: Sequence[Leaf], write: Callable[[str, int], str]) -> list[list[int]]:
    names = [f"p{''.join(write(*step) for step in steps)}['{own}']" for steps, own, _ in leaves]
    return partition(layer_patterns(names, [shape for _, _, shape in leaves]))


@given(leaves=LEAVES, style=st.sampled_from(sorted(STYLES)))
def test_groups_are_the_same_however_layers_are_written(leaves: list[Leaf], style: str) -> None:
    assert groups(leaves, STYLES[style]) == groups(leaves, STYLES["a list in a dict"])


@given(leaves=LEAVES, style=st.sampled_from(sorted(STYLES)))
def test_what_is_in_one_group_differs_in_numbers_alone(leaves: list[Leaf], style: str) -> None:
    for members in groups(leaves, STYLES[style]):
        without = {([name for name, _ in leaves[i][0]].__repr__(), *leaves[i][1:]) for i in members}
        assert len(without) == 1


@given(
    steps=st.lists(st.sampled_from("ab"), min_size=1, max_size=3),
    counts=st.lists(st.integers(2, 4), min_size=3, max_size=3),
    style=st.sampled_from(sorted(STYLES)),
)
def test_all_layers_alike_are_one_group(steps: list[str], counts: list[int], style: str) -> None:
    paths: list[list[tuple[str, int]]] = [[]]
    for name, count in zip(steps, counts, strict=False):
        paths = [[*before, (name, number)] for before in paths for number in range(count)]
    leaves: list[Leaf] = [(one, "kernel", (4, 8)) for one in paths]
    assert groups(leaves, STYLES[style]) == [list(range(len(leaves)))]


@pytest.mark.parametrize(
    ("template", "pattern", "steps"),
    [
        ("p['h']['{}']['attn']['kernel']", "p['h'][*]['attn']['kernel']", "p/h/*/attn/kernel"),
        ("p['layers_{}']['mlp']", "p['layers_*']['mlp']", "p/layers_*/mlp"),
        ("model.layers[{}].weight", "model.layers[*].weight", "model/layers/*/weight"),
        ("encoder.layer.{}.output", "encoder.layer.*.output", "encoder/layer/*/output"),
        ("p['block_{}']['w']", "p['block_*']['w']", "p/block_*/w"),
        ("params[{}].attn", "params[*].attn", "params/*/attn"),
        ("p['layer{}']['w']", "p['layer*']['w']", "p/layer*/w"),
        ("p['mlp/~/linear_{}']['w']", "p['mlp/~/linear_*']['w']", "p/mlp/~/linear_*/w"),
    ],
)
def test_a_number_is_starred_where_libraries_write_it(
    template: str, pattern: str, steps: str
) -> None:
    names = [template.format(number) for number in range(48)]
    assert layer_patterns(names, [(4, 4)] * 48) == [pattern] * 48
    assert path(pattern) == steps
    assert matches(pattern, names) == list(range(48)), "and pins take it"


def test_numbers_that_count_no_layers_stay() -> None:
    block = "p['block_{}']['Dense_{}']['kernel']"
    names = [block.format(i, j) for i in range(3) for j in range(2)]
    shapes = [(4, 16), (16, 4)] * 3
    assert set(layer_patterns(names, shapes)) == {
        "p['block_*']['Dense_0']['kernel']",
        "p['block_*']['Dense_1']['kernel']",
    }
    gates = ["p['w1']", "p['w2']", "opt[0].count", "opt[1]['w']"]
    assert layer_patterns(gates, [(4, 4), (4, 4), (), (4, 4)]) == gates


def test_layers_of_two_shapes_keep_their_numbers() -> None:
    names = [f"p['block'][{n}]['w']" for n in range(4)]
    assert layer_patterns(names, [(4,), (8,)] * 2) == names


def test_layers_that_are_numbered_through_all_stages_are_one_group_for_each_stage() -> None:
    names = [f"p['stage_{n // 2}']['block_{n}']['w']" for n in range(6)]
    assert set(layer_patterns(names, [(4,)] * 6)) == {"p['stage_*']['block_*']['w']"}


TRAINING = b"""
module {
  func.func @main(
      %a: tensor<8x8xf32> loc("state.params['h']['0']['w']"),
      %b: tensor<8x8xf32> loc("state.params['h']['1']['w']"),
      %m: tensor<8x8xf32> loc("state.opt_state[0].mu['h']['0']['w']"),
      %n: tensor<8x8xf32> loc("state.opt_state[0].mu['h']['1']['w']"),
      %x: tensor<4x8xf32> loc("x")) -> (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0]
        : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0]
        : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %2 = stablehlo.add %m, %m : tensor<8x8xf32>
    %3 = stablehlo.add %n, %n : tensor<8x8xf32>
    return %1, %2, %3 : tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}
"""


def test_moments_of_a_librarys_optimizer_belong_to_the_weight_of_their_path() -> None:
    program = load(TRAINING).program
    weights = "state.params['h'][*]['w']"
    assert group_names(program) == [weights, weights, weights, weights, "x"]
    assert argument_patterns(program)[2] == "state.opt_state[0].mu['h'][*]['w']"
