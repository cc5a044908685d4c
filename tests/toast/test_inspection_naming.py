"""Names of colours: a weight before its moments, and stars only where numbers vary."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from examples import gemma
from examples.models import MODELS
from toast.analysis.analyse import Analysis, analyse
from toast.analysis.forms import bytecode
from toast.analysis.load import load
from toast.analysis.program import Program
from toast.labels.colours import colour_names
from toast.labels.value_flow import CONTRACTIONS, FLOWING, ValueFlow
from toast.request.patterns import starred

FORWARD_STEPS = 8


def analysed(lowered: jax.stages.Lowered) -> Analysis:
    return analyse(load(bytecode(lowered.compiler_ir("stablehlo"))).program)


def test_starred_keeps_what_is_shared_and_stars_what_varies() -> None:
    assert starred(["p['a'][3]['w']"]) == "p['a'][3]['w']"
    assert starred(["p[0][1].w", "p[0][2].w"]) == "p[0][*].w"
    assert starred(["layers.3.w", "layers.4.w"]) == "layers.*.w"


def test_starred_lists_numbers_when_asked() -> None:
    names = [f"p[{i}].w" for i in (0, 2, 3, 4, 7)]
    assert starred(names, listed=True) == "p[0,2-4,7].w"
    assert starred(["layers.3.w", "layers.5.w"], listed=True) == "layers.3,5.w"
    assert starred(["p[12].w"], listed=True) == "p[12].w"


def test_weights_are_named_before_their_moments() -> None:
    names = colour_names(analysed(gemma.lower(gemma.PRESETS["tiny"])))
    of_arguments = [name for name in names if name.startswith("state")]
    assert of_arguments
    assert all(name.startswith("state['params']") for name in of_arguments)


def test_the_gemma_layers_are_starred_as_one() -> None:
    names = colour_names(analysed(gemma.lower(gemma.PRESETS["tiny"])))
    assert "state['params']['layers'][*]['down'].0" in names
    assert len(set(names)) == len(names)


def alternating(weights: list[jax.Array], x: jax.Array) -> list[jax.Array]:
    """Two families of layers of one size, told apart by what is done to them."""
    squash = (jnp.tanh, jnp.exp)
    return [squash[i % 2](x @ weight).sum(1) for i, weight in enumerate(weights)]


@pytest.mark.parametrize("layers", [2, 4])
def test_groups_that_a_number_tells_apart_have_different_names(layers: int) -> None:
    weights = [jax.ShapeDtypeStruct((8, 16), "float32")] * layers
    names = colour_names(
        analysed(jax.jit(alternating).lower(weights, jax.ShapeDtypeStruct((4, 8), "float32")))
    )
    columns = sorted(name for name in names if name.startswith("weights") and name.endswith(".1"))
    wanted = {
        2: ["weights[0].1", "weights[1].1"],
        4: ["weights[0,2].1", "weights[1,3].1"],
    }
    assert columns == wanted[layers]


def test_the_one_with_more_uses_names_what_no_product_reads() -> None:
    def step(old: jax.Array, scale: jax.Array) -> jax.Array:
        return old + jnp.tanh(scale) * jnp.exp(scale)

    shape = jax.ShapeDtypeStruct((64,), "float32")
    assert colour_names(analysed(jax.jit(step).lower(shape, shape))) == ["scale.0"]


def scanned(stack: jax.Array, x: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda carry, w: (carry @ w.astype("bfloat16"), None), x, stack)[0]


def test_products_are_seen_through_casts_and_loops() -> None:
    stack = jax.ShapeDtypeStruct((3, 8, 8), "float32")
    x = jax.ShapeDtypeStruct((4, 8), "bfloat16")
    program = load(bytecode(jax.jit(scanned).lower(stack, x).compiler_ir("stablehlo"))).program
    assert [ValueFlow(program).feeding[item.value] for item in program.arguments] == [True, True]
    assert_feeding_is_found_by_walking(program)


def assert_feeding_is_found_by_walking(program: Program) -> None:
    """From use to use, through what passes a value on, no further than the steps allow."""
    flow = ValueFlow(program)

    def feeds(value: int, steps: int) -> bool:
        for use in flow.uses(value):
            op, operands = program.users[use], program.uses_of(program.users[use])
            if program.kind(op) in CONTRACTIONS:
                return True
            place = use - operands.start
            cut = program.kind(op) == "stablehlo.dynamic_slice" and place > 0
            if program.kind(op) in FLOWING and steps > 0 and not cut:
                passed = program.values_of(op)[place :: len(operands)]
                if any(feeds(following, steps - 1) for following in passed):
                    return True
        return False

    found = [feeds(value, FORWARD_STEPS) for value in range(program.values)]
    assert flow.feeding.tolist() == found


def test_what_feeds_a_product_in_a_step_is_found_by_walking() -> None:
    program = load(bytecode(gemma.lower(gemma.PRESETS["tiny"]).compiler_ir("stablehlo"))).program
    assert_feeding_is_found_by_walking(program)


def test_the_nearest_argument_is_found_through_a_loop() -> None:
    stack = jax.ShapeDtypeStruct((3, 8, 8), "float32")
    x = jax.ShapeDtypeStruct((4, 8), "bfloat16")
    program = load(bytecode(jax.jit(scanned).lower(stack, x).compiler_ir("stablehlo"))).program
    flow = ValueFlow(program)
    dot = next(op for op in range(program.ops) if program.kind(op) == "stablehlo.dot_general")
    sources = [int(program.use_value[use]) for use in program.uses_of(dot)]
    nearest = [program.arguments[flow.nearest_argument(value)].name for value in sources]
    assert sorted(nearest) == ["stack", "x"]


def test_a_constant_has_no_nearest_argument() -> None:
    text = "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {"
    text += " %c = stablehlo.constant dense<1.0> : tensor<8xf32>"
    text += " %y = stablehlo.add %x, %c : tensor<8xf32> return %y : tensor<8xf32> }"
    program = load(text.encode()).program
    constant = next(v for v in range(program.values) if program.constant[v])
    assert ValueFlow(program).nearest_argument(constant) == -1


def test_what_only_an_op_knows_is_named_after_it() -> None:
    text = "func.func @main(%x: tensor<4x6xf32>, %w: tensor<6x4xf32>) -> tensor<4x4xf32> {"
    text += " %a = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<2x2x6xf32>"
    text += " %b = stablehlo.reshape %a : (tensor<2x2x6xf32>) -> tensor<4x6xf32>"
    text += " %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0]"
    text += " : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>"
    text += " return %y : tensor<4x4xf32> }"
    names = colour_names(analyse(load(text.encode()).program))
    assert all(names)
    assert len(set(names)) == len(names)


def test_no_colour_of_a_convolution_is_without_a_name() -> None:
    model = MODELS["unet"]
    names = colour_names(analysed(model.lower(model.config("tiny"))))
    assert all(names)
    assert len(set(names)) == len(names)
