"""Colours of real programs: loops, reshapes, repeated layers, optimizers."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples import gemma
from tests.modules import analysed, colours_of, value_named
from toast.analysis.analyse import Analysis, analyse
from toast.analysis.load import load
from toast.analysis.program import FactorKind


def lowered(function: object, *shapes: tuple[int, ...]) -> Analysis:
    structs = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    text = jax.jit(function).lower(*structs).as_text(debug_info=True)
    return analysed(text.encode())


def argument_colours(analysis: Analysis) -> list[list[int]]:
    return [colours_of(analysis, argument.value) for argument in analysis.program.arguments]


def test_a_loop_joins_what_it_carries() -> None:
    def f(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=3)[0]

    analysis = lowered(f, (8, 16), (16, 16))
    (rows, columns), weight = argument_colours(analysis)
    assert rows != columns
    # the loop feeds the result of c @ w back into c, so both of its dimensions are one
    assert weight == [columns, columns]
    result = value_named(analysis.program, "loop_end", 0)
    carried = list(analysis.program.values_of(int(analysis.program.value_op[result])))
    assert [rows, columns] in [colours_of(analysis, value) for value in carried]


def test_a_scan_over_layers_has_the_colours_of_its_unrolled_twin() -> None:
    def layer(c: jax.Array, w: tuple[jax.Array, jax.Array]) -> jax.Array:
        return c + jnp.tanh(c @ w[0]) @ w[1]

    def scanned(x: jax.Array, w1: jax.Array, w2: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, w: (layer(c, w), None), x, (w1, w2))[0]

    def unrolled(x: jax.Array, w1: jax.Array, w2: jax.Array) -> jax.Array:
        for i in range(3):
            x = layer(x, (w1[i], w2[i]))
        return x

    shapes = ((8, 16), (3, 16, 32), (3, 32, 16))
    one, two = (argument_colours(lowered(f, *shapes)) for f in (scanned, unrolled))
    for x, w1, w2 in (one, two):
        batch, model = x
        assert (w1[1], w2[2]) == (model, model)
        assert batch not in w1 + w2
        assert w1[2] not in (batch, model)


def test_a_merged_dimension_takes_the_colour_of_its_major_factor() -> None:
    analysis = lowered(lambda x: jnp.tanh(x.reshape(8 * 4, 16)), (8, 4, 16))
    (batch, sequence, model) = argument_colours(analysis)[0]
    merged = value_named(analysis.program, "stablehlo.tanh")
    assert colours_of(analysis, merged) == [batch, model]
    program = analysis.program
    op = next(op for op in range(program.ops) if program.kind(op) == "stablehlo.reshape")
    kinds = [program.factor_kind[name] for name in program.factors_of(op)]
    assert kinds.count(FactorKind.BLOCKED) == 1
    assert sequence != batch


def test_a_size_one_factor_does_not_hide_the_next() -> None:
    analysis = lowered(lambda x: jnp.tanh(x.reshape(1, 8, 16)), (8, 16))
    batch, model = argument_colours(analysis)[0]
    assert colours_of(analysis, value_named(analysis.program, "stablehlo.tanh"))[1:] == [
        batch,
        model,
    ]


def test_shared_constants_do_not_join_colours() -> None:
    def f(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        half = jnp.full((8, 8), 0.5)
        return a * half, b * half

    first, second = argument_colours(lowered(f, (8, 8), (8, 8)))
    assert not set(first) & set(second)


def test_parameters_gradients_and_moments_share_their_colours() -> None:
    analysis = gemma_analysis(layers=2)
    program = analysis.program
    by_name = {
        argument.name: colours_of(analysis, argument.value) for argument in program.arguments
    }
    checked = 0
    for name, colours in by_name.items():
        if "['params']" in name:
            assert by_name[name.replace("params", "mu")] == colours
            assert by_name[name.replace("params", "nu")] == colours
            checked += 1
    assert checked >= 16
    results = [int(program.use_value[result.use]) for result in program.results]
    for argument in program.arguments:
        if argument.aliases >= 0:
            returned = results[argument.aliases]
            assert colours_of(analysis, argument.value) == colours_of(analysis, returned)


def gemma_analysis(layers: int, *, remat: bool = False) -> Analysis:
    config = replace(gemma.PRESETS["tiny"], layers=layers, remat=remat)
    return analyse(load(gemma.lower(config).as_text(debug_info=True).encode()).program)


@pytest.fixture(scope="module", params=[2, 6])
def transformer(request: pytest.FixtureRequest) -> tuple[int, Analysis]:
    return request.param, gemma_analysis(request.param)


def test_layers_add_sets_but_no_independent_resolutions(
    transformer: tuple[int, Analysis],
) -> None:
    layers, analysis = transformer
    assert analysis.conflicts.sets == layers
    assert analysis.groups.sets == 1
    assert np.unique(analysis.groups.of_set).tolist() == [0]


@pytest.mark.parametrize("layers", [2, 6, 18])
def test_recomputed_layers_have_four_resolutions_as_the_paper_says(layers: int) -> None:
    """With each layer recomputed backwards there is one set forwards and one backwards."""
    analysis = gemma_analysis(layers, remat=True)
    assert analysis.conflicts.sets == 2 * layers
    assert 2**analysis.groups.sets == 4


def test_layers_are_in_one_group_per_dimension(transformer: tuple[int, Analysis]) -> None:
    layers, analysis = transformer
    groups: dict[str, set[int]] = {}
    colours: dict[str, set[int]] = {}
    for argument in analysis.program.arguments:
        if "['params']['layers']" not in argument.name:
            continue
        weight = argument.name.split("'")[-2]
        for dim, colour in enumerate(colours_of(analysis, argument.value)):
            key = f"{weight}.{dim}"
            groups.setdefault(key, set()).add(int(analysis.groups.of_colour[colour]))
            colours.setdefault(key, set()).add(colour)
    assert all(len(found) == 1 for found in groups.values())
    assert len(colours["gate.1"]) == layers
    assert len(colours["gate.0"]) == 1
    assert groups["gate.1"] == groups["up.1"] == groups["down.0"]


def test_colours_that_meet_are_never_in_one_group() -> None:
    def deep(x: jax.Array, *weights: jax.Array) -> jax.Array:
        for w in weights:
            x = jnp.tanh(x @ w)
        return x

    analysis = lowered(deep, (8, 16), *[(16, 16)] * 4)
    for first, second in argument_colours(analysis)[1:]:
        assert analysis.groups.of_colour[first] != analysis.groups.of_colour[second]


def test_layers_that_take_their_own_part_of_one_tensor_are_in_one_group() -> None:
    def f(x: jax.Array, *weights: jax.Array) -> jax.Array:
        masks = jnp.ones((3, 32))
        for i in range(3):
            hidden = jnp.tanh(x @ weights[2 * i]) * jax.lax.slice(masks, (i, 0), (i + 1, 32))
            x = x + hidden @ weights[2 * i + 1]
        return x

    analysis = lowered(f, (8, 16), *[(16, 32), (32, 16)] * 3)
    hidden = [colours[1] for colours in argument_colours(analysis)[1::2]]
    assert len(set(hidden)) == 3
    assert len({int(analysis.groups.of_colour[colour]) for colour in hidden}) == 1
