"""Peaks counted by hand: what takes over a buffer, what is copied, what sums need.

In these modules a value of `64x64xf32` is one unit, and what else there is is small.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from tests.costmodel.texts import GPU, TPU, Priced, main, maps, moves, product, sums
from tests.modules import value_named
from toast.costmodel.terms.live_ranges import LIVE_RANGES

S, V = "64x64xf32", "64x1xf32"
UNIT, COLUMN = 64 * 64 * 4, 64 * 4
PRODUCT = product(f"y:{S}", f"x:{S}", f"w:{S}")


def column(made: str, source: str) -> str:
    """A product with a column: it reads a unit and keeps little."""
    return product(f"{made}:{V}", f"{source}:{S}", f"v:{V}")


def unsharded(lines: list[str], results: str, device: str = GPU) -> float:
    """The peak less the arguments: x and w, a unit each, and the column v."""
    priced = Priced(main(f"x:{S} w:{S} v:{V}", lines, results), "a=2", device)
    return priced.peak() - (2 * UNIT + COLUMN)


def test_an_elementwise_kernel_writes_over_what_it_reads_last() -> None:
    # y, then z in its buffer; r beside it
    lines = [PRODUCT, maps("sine", f"z:{S}", "y"), column("r", "z")]
    assert unsharded(lines, f"r:{V}") == UNIT + COLUMN


def test_nothing_is_written_over_an_argument() -> None:
    # x is kept for the caller, so z has a buffer of its own
    lines = [maps("sine", f"z:{S}", "x"), column("r", "z")]
    assert unsharded(lines, f"r:{V}") == UNIT + COLUMN


def test_beside_an_argument_the_other_input_is_written_over() -> None:
    lines = [PRODUCT, maps("atan2", f"z:{S}", "x", "y"), column("r", "z")]
    assert unsharded(lines, f"r:{V}") == UNIT + COLUMN


def test_a_buffer_of_another_type_is_not_written_over() -> None:
    narrow = "64x64xbf16"
    lines = [
        PRODUCT,
        moves("convert", f"c:{narrow}", f"y:{S}"),
        maps("sine", f"z:{narrow}", "c"),
        product("r:64x1xbf16", f"z:{narrow}", "n:64x1xbf16"),
    ]
    arguments, half = f"x:{S} w:{S} n:64x1xbf16", UNIT // 2
    peak = Priced(main(arguments, lines, "r:64x1xbf16"), "a=2", GPU).peak()
    # z (16 bits) is written while y (32 bits) is read
    assert peak - (2 * UNIT + COLUMN // 2) == UNIT + half + COLUMN // 2


def test_a_buffer_of_another_shape_is_not_written_over() -> None:
    turned = "32x128xf32"
    lines = [
        PRODUCT,
        moves("reshape", f"c:{turned}", f"y:{S}"),
        maps("sine", f"z:{turned}", "c"),
        product("r:32x1xf32", f"z:{turned}", "n:128x1xf32"),
    ]
    peak = Priced(main(f"x:{S} w:{S} n:128x1xf32", lines, "r:32x1xf32"), "a=2", GPU).peak()
    assert peak - (2 * UNIT + 128 * 4) == 2 * UNIT + 32 * 4


def test_of_two_kernels_the_last_writes_over_what_both_read() -> None:
    lines = [
        PRODUCT,
        maps("sine", f"z:{S}", "y"),
        maps("cosine", f"q:{S}", "y"),
        column("a", "z"),
        column("b", "q"),
        maps("add", f"r:{V}", "a", "b"),
    ]
    # z beside y, which is needed for q; then q over y, beside z; at last q with a, b and r
    assert unsharded(lines, f"r:{V}") == 2 * UNIT + COLUMN


def test_what_a_product_reads_later_is_not_written_over() -> None:
    lines = [
        PRODUCT,
        maps("sine", f"z:{S}", "y"),
        column("a", "z"),
        column("b", "y"),
        maps("add", f"r:{V}", "a", "b"),
    ]
    assert unsharded(lines, f"r:{V}") == 2 * UNIT + COLUMN


def test_a_kernel_writes_over_one_of_its_inputs_only() -> None:
    lines = [PRODUCT, product(f"u:{S}", f"w:{S}", f"x:{S}"), maps("atan2", f"z:{S}", "y", "u")]
    priced = Priced(main(f"x:{S} w:{S} v:{V}", [*lines, column("r", "z")], f"r:{V}"), "a=2", GPU)
    evaluator = priced.evaluator
    program, fusion = evaluator.analysis.program, evaluator.fusion
    live = evaluator.listing.of(LIVE_RANGES)
    y, u, z = (
        int(fusion.position[program.value_op[value_named(program, f"stablehlo.{kind}", nth)]])
        for kind, nth in (("dot_general", 0), ("dot_general", 1), ("atan2", 0))
    )
    spans = zip(live.first.tolist(), live.last.tolist(), strict=True)
    lasts = {first: last for first, last in spans if first in (y, u)}
    # y's buffer is z's from there on; u is read to the end
    assert lasts == {y: z - 1, u: z}


def test_a_product_writes_over_nothing() -> None:
    # z = y x reads whole rows of y for each element: y stays until z is written; r is a result,
    # which runs as soon as z is there
    lines = [PRODUCT, product(f"z:{S}", f"y:{S}", f"x:{S}"), column("r", "z")]
    assert unsharded(lines, f"r:{V}") == 2 * UNIT + COLUMN


def test_what_is_read_where_it_is_made_counts_for_that_moment() -> None:
    # a result of main runs as soon as its inputs are there: with y, which it would write over
    lines = [PRODUCT, maps("sine", f"z:{S}", "y")]
    assert unsharded(lines, f"z:{S}") == 2 * UNIT


X_M, X_K, Y_M = (0, 0), (0, 1), (1, 0)


def user(name: str, rows: int) -> str:
    """`rx = x w`, where x is a few rows and w a unit."""
    return product(f"r{name}:{rows}x64xf32", f"{name}:{rows}x64xf32", f"w:{S}")


def row_bytes(rows: float) -> float:
    return rows * 64 * 4


def test_uses_that_want_one_layout_share_a_copy() -> None:
    """Where x, y and w all lie over one axis, both products want w whole."""
    results = "rx:8x64xf32 ry:4x64xf32"
    module = main(f"x:8x64xf32 y:4x64xf32 w:{S}", [user("x", 8), user("y", 4)], results)
    priced = Priced(module, "a=2", GPU)
    rows = row_bytes((8 + 4) / 2)
    results_too = 2 * rows
    assert priced.peak((X_M, 0), (Y_M, 0)) == results_too + UNIT
    assert priced.peak((X_M, 0), (Y_M, 0), (X_K, 0)) == results_too + UNIT / 2 + UNIT


def test_two_layouts_are_two_copies() -> None:
    results = "rx:8x64xf32 ry:4x64xf32"
    module = main(f"x:8x64xf32 y:4x64xf32 w:{S}", [user("x", 8), user("y", 4)], results)
    priced = Priced(module, "a=2,b=2", GPU)
    # w lies over both axes. x has its rows over both and wants w whole; y has them over a, and k
    # stays on b in its product, whose sums over b are made in place
    actions = [(X_M, 0), (X_M, 1), (Y_M, 0), (X_K, 0), (X_K, 1)]
    arguments = row_bytes(8 / 4) + row_bytes(4) / 4 + UNIT / 4
    made = row_bytes(8 / 4) + row_bytes(4 / 2)
    assert priced.peak(*actions) == arguments + made + UNIT + UNIT / 2


@pytest.mark.parametrize("count", [4, 8])
def test_a_shared_copy_lives_from_its_first_use_to_its_last(count: int) -> None:
    """Whether the uses are of one size or of two."""
    lines = [
        user("x", 8),
        product(f"t:{S}", f"p:{S}", f"q:{S}"),
        *sums("s:64xf32", f"t:{S}", 0),
        product("u:8xf32", "rx:8x64xf32", "s:64xf32"),
        user("y", count),
        product(f"o:{count}xf32", f"ry:{count}x64xf32", "s:64xf32"),
    ]
    arguments = f"x:8x64xf32 y:{count}x64xf32 w:{S} p:{S} q:{S}"
    priced = Priced(main(arguments, lines, f"u:8xf32 o:{count}xf32"), "a=2", GPU)
    # arguments: x, y and w in halves, p and q whole
    base = row_bytes((8 + count) / 2) + UNIT / 2 + 2 * UNIT
    # while t is summed to s, w's copy waits for y, and rx for u, which runs as soon as s is there
    alive = UNIT + UNIT + row_bytes(8 / 2) + 64 * 4 + 8 / 2 * 4
    assert priced.peak((X_M, 0), (Y_M, 0), (X_K, 0)) == base + alive


H, W, Y = "h:64x32xf32", "w:32x16xf32", "y:64x16xf32"
H_M, H_K, W_N = (0, 0), (0, 1), (1, 1)
INPUTS, MADE = 4 * (64 * 32 + 32 * 16), 4 * 64 * 16
"""Bytes of h and w, and of y = h w."""


@pytest.mark.parametrize("device", [TPU, GPU])
def test_sums_are_made_in_place_or_scattered_from_a_buffer(device: str) -> None:
    priced = Priced(main(f"{H} {W}", [product(Y, H, W)], Y), "a=2", device)
    assert priced.made((H_K, 0)) == MADE
    # rows of y over a: beside that half are the sums of all its rows
    assert priced.made((H_K, 0), (H_M, 0)) == MADE / 2 + MADE


def test_sums_of_what_would_be_fused_away_need_a_buffer() -> None:
    lines = [product(Y, H, W), maps("sine", "z:64x16xf32", "y")]
    priced = Priced(main(f"{H} {W}", lines, "z:64x16xf32"), "a=2", TPU)
    # whole rows of h: the sine is computed with the product
    assert priced.made((H_M, 0)) == MADE / 2
    # a collective comes between them: y is stored, and z written over it
    assert priced.made((H_K, 0)) == MADE
    lines = [product(Y, H, W), moves("convert", "z:64x16xbf16", Y)]
    priced = Priced(main(f"{H} {W}", lines, "z:64x16xbf16"), "a=2", TPU)
    # half as many bytes are written beside it
    assert priced.made((H_K, 0)) == MADE + MADE / 2


def feeding(op: str, device: str, made: str = H, devices: int = 2) -> Priced:
    before = H.replace("f32", "bf16") if op == "convert" else H
    fed = made.replace("h:", "t:")
    lines = [moves(op, fed, before), product(Y, fed, W)]
    module, mesh = main(f"{before} {W}", lines, Y), f"a={devices}"
    return Priced(module, mesh, device)


@pytest.mark.parametrize("devices", [4, 8])
def test_a_tpu_computes_what_feeds_a_product_inside_it(devices: int) -> None:
    """Whether its sums are added up or scattered."""
    priced = feeding("sine", TPU, devices=devices)
    assert priced.made((H_K, 0)) == MADE
    assert priced.made((H_K, 0), (H_M, 0)) == MADE / devices + MADE


def test_what_only_products_read_is_stored_in_half_its_bytes_on_a_tpu() -> None:
    # t = sin(sum h) feeds two products: f32 that the matrix unit would round in any case
    lines = [
        moves("sine", "t:64x32xf32", "h:64x32xf32"),
        product("y:64x16xf32", "t:64x32xf32", "w:32x16xf32"),
        maps("tanh", "z:64x16xf32", "y"),
        product("q:64x8xf32", "z:64x16xf32", "v:16x8xf32"),
        product("r:64x4xf32", "z:64x16xf32", "u:16x4xf32"),
    ]
    arguments = "h:64x32xf32 w:32x16xf32 v:16x8xf32 u:16x4xf32"
    text = main(arguments, lines, "q:64x8xf32 r:64x4xf32")
    stored = {}
    for device in (TPU, GPU):
        evaluator = Priced(text, "a=2", device).evaluator
        program, fusion = evaluator.analysis.program, evaluator.fusion
        z = value_named(program, "stablehlo.tanh")
        y = value_named(program, "stablehlo.dot_general")
        stored[device] = [bool(fusion.narrow[v]) for v in (z, y) if fusion.written[v]]
    assert any(stored[TPU])
    assert not any(stored[GPU])


def test_what_does_no_arithmetic_is_not_stored_to_feed_a_product() -> None:
    assert feeding("convert", TPU).made((H_K, 0), (H_M, 0)) == MADE / 2 + MADE


def test_a_gpu_stores_what_feeds_a_product_in_any_case() -> None:
    priced, feed = feeding("sine", GPU), 4 * 64 * 32 / 2
    assert priced.peak((H_K, 0)) == INPUTS / 2 + feed + MADE
    assert priced.peak((H_K, 0), (H_M, 0)) == INPUTS / 2 + feed + MADE / 2 + MADE


def residuals(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sixteen steps, and what each began with: a stack that starts as zeros."""
    return jax.lax.scan(lambda carry, _: (jnp.sin(carry), carry), rows, None, length=16)


@pytest.mark.parametrize("device", [TPU, GPU])
def test_a_stack_that_a_loop_fills_is_laid_out_as_what_fills_it(device: str) -> None:
    module = jax.jit(residuals).lower(jax.ShapeDtypeStruct((8, 32), "float32")).as_text()
    priced = Priced(module.encode(), "a=2", device)
    # what the loop carries, what a step makes of it, and the stack of sixteen, besides the
    # argument; then the counter and its next value
    buffers, counters = (2 + 16) * 8 * 32 * 4, 2 * 4
    assert priced.made() == buffers + counters
    assert priced.made(((0, 0), 0)) == buffers / 2 + counters
