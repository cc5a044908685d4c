"""What an inspection says: sets and conflicts in words, and the graph of one set."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import pytest

from examples import gemma
from toast.analysis.analyse import analyse
from toast.analysis.errors import InvalidRequest
from toast.analysis.forms import bytecode
from toast.analysis.load import load
from toast.analysis.names import map_edges
from toast.inspect.graph import set_graph
from toast.inspect.inspect_module import inspect_module
from toast.inspect.records import Inspection
from toast.labels.conflict_words import ConflictWords, differing, short

TRANSPOSE = (
    b"func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {"
    b" %y = stablehlo.transpose %x, dims = [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>"
    b" %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]"
    b" : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>"
    b" return %z : tensor<64x64xf32> }"
)
NO_SETS = (
    b"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {"
    b" %y = stablehlo.tanh %x : tensor<64x32xf32> return %y : tensor<64x32xf32> }"
)


@cache
def tiny() -> bytes:
    return bytecode(gemma.lower(gemma.PRESETS["tiny"]).compiler_ir("stablehlo"))


@cache
def inspected() -> Inspection:
    return inspect_module(tiny())


def test_a_set_is_described_by_its_sides_and_where_it_arises() -> None:
    (row,) = inspected().sets
    assert (
        row.description == "shard the key or the query side of attention, 2 places (62 conflicts)"
    )
    assert row.isomorphic * row.conflicts == 62
    key, query = row.resolutions
    equation = "of dot_general bsnh,bth->bnst at gemma.py:"
    assert key.startswith("the key side: dimension 1 (t) of the result [8, 32, 32, 4] " + equation)
    assert query.startswith("the query side: dimension 2 (s) of the result")
    assert "gemma.py:" in row.location


def test_without_names_the_dimensions_are_named() -> None:
    (row,) = inspect_module(TRANSPOSE).sets
    assert row.description == (
        "shard dimension 0 or dimension 1 of the result of dot_general, 1 place (2 conflicts)"
    )
    assert row.resolutions[1] == ("dimension 1 of the result [64, 64] of dot_general at module:1")


def test_resolutions_and_conflicts_have_the_order_of_the_bits() -> None:
    source = load(tiny())
    analysis = analyse(source.program)
    words = ConflictWords(source, analysis)
    found = inspected().conflicts
    for index in range(5):
        conflict, side = analysis.conflicts.all[index], int(analysis.conflicts.side[index])
        tensor = words.tensor(conflict.op, conflict.names)
        first = words.dimension(conflict.op, conflict.names[side], tensor)
        assert found[index].names[0] == first
    assert {row.set for row in found} == {0}


def test_letters_need_an_einsum_that_fits() -> None:
    def step(q: jax.Array, k: jax.Array) -> jax.Array:
        return jnp.einsum("sd,td->st", q, k) + (q @ k.T)

    shape = jax.ShapeDtypeStruct((16, 8), "float32")
    source = load(bytecode(jax.jit(step).lower(shape, shape).compiler_ir("stablehlo")))
    words = ConflictWords(source, analyse(source.program))
    program = source.program
    dots = [op for op in range(program.ops) if program.kind(op) == "stablehlo.dot_general"]
    letters = [sorted(words.letters(op).values()) for op in dots]
    assert letters == [["d", "s", "t"], []]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("p['layers'][0]['query']", "p['layers'][0]['key']", ("query", "key")),
        ("p.attn.q.kernel", "p.attn.k.kernel", ("q", "k")),
        ("p['layers'][0]['q']", "cache['layers'][0]['k']", ("q", "k")),
        ("p['query']['bias']", "cache['keys']", None),
        ("p['qkv']", "p['qkv']", None),
        ("x", "x.y", None),
    ],
)
def test_paths_differ_in_a_word(first: str, second: str, words: tuple[str, str] | None) -> None:
    assert differing(first, second) == words


def test_short_locations_keep_file_and_line() -> None:
    assert short("/a/b/step.py:12") == "step.py:12"
    assert short("") == ""


def test_colours_come_by_size_and_say_where_they_are_worked_on() -> None:
    rows = inspected().colours
    carried = [row.size for row in rows if row.arguments]
    assert carried == sorted(carried, reverse=True)
    assert all("gemma.py:" in row.location for row in rows)


def test_the_graph_holds_both_names_of_every_conflict() -> None:
    graph = inspected().graph
    assert graph is not None
    nodes = {node.id: node for node in graph.nodes}
    assert len(graph.conflicts) == inspected().sets[0].conflicts
    for first, second in graph.conflicts:
        assert {nodes[first].side, nodes[second].side} == {0, 1}
        assert nodes[first].op_number == nodes[second].op_number
    assert graph.left_out == graph.neighbours_left_out == 0


def test_the_edges_of_the_graph_are_those_of_the_map() -> None:
    graph = inspected().graph
    assert graph is not None
    known = set(map(tuple, map_edges(load(tiny()).program).tolist()))
    shown = {node.id for node in graph.nodes}
    drawn = {(edge.source, edge.target) for edge in graph.edges if not edge.linked}
    sides = {node.id: node.side for node in graph.nodes}
    touching = {pair for pair in known if any(sides.get(name, -1) >= 0 for name in pair)}
    assert drawn == {pair for pair in touching if set(pair) <= shown}
    assert drawn == touching
    assert len([1 for a, b in drawn if sides[a] < 0 or sides[b] < 0]) > 0


@pytest.mark.parametrize("limit", [2, 9, 30, 75])
def test_a_graph_is_cut_and_says_what_is_missing(limit: int) -> None:
    source = load(tiny())
    analysis = analyse(source.program)
    words = ConflictWords(source, analysis)
    whole, cut = set_graph(analysis, words, 0), set_graph(analysis, words, 0, limit)
    assert whole is not None
    assert cut is not None
    assert len(cut.nodes) <= limit
    inside = sum(node.side >= 0 for node in cut.nodes)
    assert inside + cut.left_out == sum(node.side >= 0 for node in whole.nodes)
    assert {node.id for node in cut.nodes if node.side >= 0} == {
        name for pair in cut.conflicts for name in pair
    }
    if limit < 30:
        assert cut.left_out > 0


def test_a_set_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no compatibility set 1"):
        inspect_module(TRANSPOSE, 1)
    with pytest.raises(InvalidRequest, match="no compatibility set 3"):
        inspect_module(NO_SETS, 3)


def test_a_module_without_conflicts_has_no_graph() -> None:
    found = inspect_module(NO_SETS)
    assert found.graph is None
    assert found.sets == []


def test_an_inspection_survives_json() -> None:
    again = Inspection.model_validate_json(inspected().model_dump_json())
    assert again == inspected()
