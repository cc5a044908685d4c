"""What is held because of how elements lie in memory, on small updates of weights."""

from __future__ import annotations

from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.probes.buffer_assignment import pooled
from benchmarks.probes.figures import golden
from benchmarks.probes.layout_assignment import CONVOLVED, convolved
from benchmarks.probes.programs import lowered_of
from tests.costmodel.texts import GPU, TPU, Priced, main, maps, moves, product
from tests.costmodel.updates import ARGUMENTS, GRADIENT, RESULTS, TRANSPOSED, UPDATE, W
from tests.laws.chains import Text
from tests.laws.programs import programs
from tests.modules import evaluator_of, value_named
from toast.analysis.program import Program
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.passes.fusion import Fusion, batch_dims, fused_into_update
from toast.costmodel.passes.layout_assignment import (
    Beside,
    assign_layouts,
    copied_arguments,
    copied_beside,
)
from toast.costmodel.program.contractions import BATCH, Sides
from toast.costmodel.program.op_traits import Role
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.journal import Entry

FEW = settings(max_examples=30)


def update(device: str, lines: list[str] | None = None, results: str = RESULTS) -> Evaluator:
    body = [GRADIENT, TRANSPOSED, *UPDATE] if lines is None else lines
    return evaluator_of(main(ARGUMENTS, body, results), "a=2", device)


def transposed(evaluator: Evaluator) -> dict[int, tuple[int, int]]:
    program, fusion = evaluator.analysis.program, evaluator.fusion
    return copied_arguments(program, fusion, assign_layouts(program, fusion))


def held_beside(evaluator: Evaluator) -> list[Beside]:
    program, fusion = evaluator.analysis.program, evaluator.fusion
    return copied_beside(program, fusion, assign_layouts(program, fusion))


def test_a_tpu_copies_what_an_update_reads_into_the_layout_of_the_gradient() -> None:
    """The transpose makes three dimensions of what is no product of two matrices."""
    evaluator = update(TPU)
    # of p, m and n all but one: in the buffer of what is copied first there is room for it
    assert set(transposed(evaluator)) == {2, 3}
    assert not transposed(update(GPU))


def walked(program: Program, fusion: Fusion, transposed: dict[int, int]) -> dict[int, int]:
    """What `assign_layouts` finds; `transposed` are products of values that are left as made."""
    given = {argument.value for argument in program.arguments}
    found = {}
    for number, launched in enumerate(fusion.launched):
        if any(fusion.flow.role[op] != Role.FUSIBLE for op in launched.ops):
            continue
        read = {program.sources[use] for use in launched.reads}
        made = {value for op in launched.ops for value in program.values_of(op)}
        own = program.shape(program.values_of(launched.ops[0])[0])
        elements = program.elements[program.values_of(launched.ops[0])[0]]
        seen = made | {value for value in read if program.elements[value] == elements}
        dots = [transposed[value] for value in seen if value in transposed]
        dots += [op for op in launched.contractions if op in transposed.values()]
        if dots and any(program.shape(value) == own for value in read & given):
            found[number] = int(fusion.position[min(dots)])
    return found


@FEW
@given(module=programs(), seed=st.integers(0, 1_000), device=st.sampled_from([TPU, GPU]))
def test_fusions_with_copied_layouts_are_those_that_a_walk_finds(
    module: Text, seed: int, device: str
) -> None:
    """Whatever the values are that products leave in another layout: here any."""
    evaluator = evaluator_of(module.module().encode(), "a=2", device)
    program, fusion = evaluator.analysis.program, evaluator.fusion
    rng = np.random.default_rng(seed)
    values = np.flatnonzero(rng.random(program.values) < 0.5).tolist()
    transposed = {value: int(rng.integers(program.ops)) for value in values}
    with patch(
        "toast.costmodel.passes.layout_assignment.transposed_products", lambda *_: transposed
    ):
        assert assign_layouts(program, fusion) == walked(program, fusion, transposed)


def test_an_update_is_of_what_a_walk_finds_too() -> None:
    evaluator = update(TPU)
    program, fusion = evaluator.analysis.program, evaluator.fusion
    transposed = {value_named(program, "stablehlo.transpose"): int(fusion.roots.dots[0])}
    assert assign_layouts(program, fusion) == walked(program, fusion, transposed) != {}


@given(sides=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=1).map(tuple))
def test_the_batch_of_a_product_is_what_both_operands_and_the_result_have(sides: Sides) -> None:
    assert batch_dims(sides) == len([size for side, size in sides if side == BATCH and size > 1])


def test_what_is_no_product_of_matrices_has_no_batch() -> None:
    assert batch_dims(()) == -1


def test_a_gradient_that_is_not_transposed_is_laid_out_as_the_weight_is() -> None:
    made = product(f"t:{W}", "x:32x8xf32", "d:32x16x4xf32", (0, 0))
    assert not transposed(update(TPU, [made, *UPDATE]))


def test_a_product_of_two_matrices_is_made_the_other_way_round_instead() -> None:
    w = "16x8xf32"
    lines = [
        product("g:8x16xf32", "x:32x8xf32", "d:32x16xf32", (0, 0)),
        moves("transpose", f"t:{w}", "g:8x16xf32", ", dims = [1, 0]"),
        maps("add", f"m1:{w}", "m", "t"),
    ]
    module = main(f"x:32x8xf32 d:32x16xf32 m:{w}", lines, f"m1:{w}")
    assert not transposed(evaluator_of(module, "a=2", TPU))


def test_a_single_argument_of_an_update_is_copied_too() -> None:
    lines = [GRADIENT, TRANSPOSED, maps("add", f"m1:{W}", "m", "t")]
    assert set(transposed(update(TPU, lines, f"m1:{W}"))) == {3}


def test_the_copies_count_at_the_peak() -> None:
    found, size = update(TPU), 8 * 16 * 4 * 4
    beside = held_beside(found)
    assert [(value, width) for value, _, width in beside] == [(2, 1.0), (3, 1.0)]
    # the three results, and what of the arguments lies in the other layout
    assert Priced(main(ARGUMENTS, [GRADIENT, TRANSPOSED, *UPDATE], RESULTS), "a=2", TPU).made() == (
        3 * size + 2 * size
    )
    # what is small of these is on the chip, but for the results
    given = sum(one.bytes for one in explain(resolve(found, ())).held if one.why is Entry.BASE)
    tiles = 4 * (8 * 128) * 4  # two of the dimensions fill one tile
    assert found.cost(()).peak == given + 3 * tiles


def test_a_tpu_computes_a_gradient_inside_the_one_kernel_that_reads_it() -> None:
    evaluator = update(TPU)
    program, gradient = evaluator.analysis.program, "stablehlo.transpose"
    assert fused_into_update(program, evaluator.fusion) == {value_named(program, gradient)}
    # returned as well it has to be there
    kept = update(TPU, None, f"{RESULTS} t:{W}")
    assert not fused_into_update(kept.analysis.program, kept.fusion)


def test_a_gradient_inside_a_kernel_is_stored_to_be_summed_over_devices() -> None:
    x, d, w = "x:32x64xf32", "d:32x64xf32", "64x64xf32"
    lines = [
        product(f"g:{w}", d, x, (0, 0)),
        maps("add", f"m1:{w}", "m", "g"),
        maps("multiply", f"p1:{w}", "m1", "g"),
    ]
    priced = Priced(main(f"{x} {d} m:{w}", lines, f"m1:{w} p1:{w}"), "a=2", TPU)
    unit = 64 * 64 * 4
    assert priced.made() == 2 * unit
    assert priced.made(((0, 0), 0)) == 3 * unit


FILTER = "3x3x4x8xf32"
CONVOLUTION = (
    "%g = stablehlo.convolution(%x, %d) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f],"
    " window = {pad = [[1, 1], [1, 1]]}"
    " {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    f" : (tensor<2x8x8x4xf32>, tensor<2x8x8x8xf32>) -> tensor<{FILTER}>"
)


def test_a_gpu_copies_one_argument_of_the_update_of_a_convolutions_kernel_early() -> None:
    update_lines = [line.replace(W, FILTER).replace("%t", "%g") for line in UPDATE]
    given = f"x:2x8x8x4xf32 d:2x8x8x8xf32 p:{FILTER} m:{FILTER} n:{FILTER}"
    module = main(given, [CONVOLUTION, *update_lines], RESULTS.replace(W, FILTER))
    ((value, (first, last)),) = transposed(evaluator_of(module, "a=2", GPU)).items()
    assert value in (2, 3, 4)
    assert first == 0 < last
    assert not transposed(evaluator_of(module, "a=2", TPU))


def test_a_tpu_keeps_an_image_that_is_an_argument_in_tiles_and_16_bits() -> None:
    """As libtpu keeps a copy of `bf16[8,224,224,3]`, which in tiles takes 49 MiB."""
    given = f"x:2x8x8x4xf32 k:{FILTER}"
    convolved = (
        "%g = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],"
        " window = {pad = [[1, 1], [1, 1]]}"
        " {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
        f" : (tensor<2x8x8x4xf32>, tensor<{FILTER}>) -> tensor<2x8x8x8xf32>"
    )
    found = evaluator_of(main(given, [convolved], "g:2x8x8x8xf32"), "a=2", TPU)
    ((value, _, width),) = held_beside(found)
    assert (found.analysis.program.shape(value), width) == ((2, 8, 8, 4), 0.5)


@pytest.mark.parametrize("case", CONVOLVED)
@pytest.mark.parametrize("device", [TPU, GPU])
def test_images_are_padded_by_themselves_where_the_compiler_pads_them(
    case: str, device: str
) -> None:
    width, stride, turned = CONVOLVED[case]
    evaluator = evaluator_of(convolved(width, stride, turned=turned), "a=2", device)
    elements = evaluator.analysis.program.elements
    copied = held_beside(evaluator)
    found = [round(elements[value] * times) for value, _, times in copied if times > 1.0]
    assert found == golden("layout_assignment", f"convolution of {case}", device)


def gradient_of_filter(width: int) -> Evaluator:
    """The gradient of a filter of so many pixels that takes every other."""

    def loss(filters: jax.Array, x: jax.Array) -> jax.Array:
        made = jax.lax.conv_general_dilated(
            jnp.sin(x), filters, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return jnp.sum(jnp.sin(made))

    filters = jax.ShapeDtypeStruct((width, width, 8, 8), jnp.float32)
    images = jax.ShapeDtypeStruct((16, 64, 64, 8), jnp.float32)
    return evaluator_of(lowered_of(jax.grad(loss), filters, images), "a=2", GPU)


def test_the_gradient_of_a_filter_reads_what_was_padded_for_the_convolution() -> None:
    evaluator = gradient_of_filter(3)
    ((_, (first, last), times),) = held_beside(evaluator)
    at = evaluator.fusion.position[evaluator.analysis.program.ops_named("stablehlo.convolution")]
    assert (first, last) == (at.min(), at.max())
    assert times == (65 / 64) ** 2


def test_what_is_padded_on_both_sides_is_padded_again_for_the_gradient_of_its_filter() -> None:
    """By what one side has more, as cuDNN takes the rest; so XLA pads 96 pixels to 99 and to 97."""
    evaluator = gradient_of_filter(5)
    found = sorted((first, last, times) for _, (first, last), times in held_beside(evaluator))
    at = evaluator.fusion.position[evaluator.analysis.program.ops_named("stablehlo.convolution")]
    assert found == [
        (at.min(), at.min(), (67 / 64) ** 2),
        (at.max(), at.max(), (65 / 64) ** 2),
    ]


def test_maxima_over_windows_keep_their_places_for_the_gradient_on_a_gpu() -> None:
    evaluator = evaluator_of(pooled(4), "a=2", GPU)
    program, at = evaluator.analysis.program, evaluator.fusion.position
    (pooling,) = program.ops_named("stablehlo.reduce_window")
    (gradient,) = program.ops_named("stablehlo.select_and_scatter")
    span = int(at[pooling]), int(at[gradient])
    assert held_beside(evaluator) == [(program.values_of(pooling)[0], span, 4.0)]
    assert held_beside(evaluator_of(pooled(4), "a=2", TPU)) == []
