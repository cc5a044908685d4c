"""What is sent, and in which form, counted by hand.

An all-reduce of b bytes over n devices puts 2 b (n - 1)/n on the wire of each, a reduce-scatter or
an all-gather b (n - 1)/n, where b is the larger of what goes in and comes out.
"""

from __future__ import annotations

import pytest

from tests.costmodel.texts import GPU, TPU, Priced, main, maps, moves, product, sums
from toast.costmodel.evaluator import Action
from toast.costmodel.resolved import resolve

X_M, X_K, W_N = (0, 0), (0, 1), (1, 1)
"""Dimensions of the arguments of `y[m, n] = x[m, k] w[k, n]`."""


def one_product(mesh: str, device: str, dtype: str = "f32") -> Priced:
    x, w, y = (f"{n}:{s}x{dtype}" for n, s in (("x", "64x32"), ("w", "32x16"), ("y", "64x16")))
    return Priced(main(f"{x} {w}", [product(y, x, w)], y), mesh, device)


def test_sums_that_one_dimension_wants_are_scattered() -> None:
    priced = one_product("a=2,b=2", "cpu")
    sent = priced.sent((X_K, 0), (X_K, 1), (X_M, 0), (X_M, 1))
    assert sent == {("REDUCE_SCATTER", (0, 1)): 64 * 16 * 4 * 3 / 4}


def test_sums_that_two_dimensions_want_are_summed_whole() -> None:
    """XLA has no reduce-scatter over two dimensions at once: it sums, and slices afterwards."""
    priced = one_product("a=2,b=2", "cpu")
    sent = priced.sent((X_K, 0), (X_K, 1), (X_M, 0), (W_N, 1))
    assert sent == {("ALL_REDUCE", (0, 1)): 2 * 64 * 16 * 4 * 3 / 4}


def test_a_dimension_that_is_sharded_already_takes_all_axes_of_a_sum_or_none() -> None:
    """Rows over a when computed, over a and b when stored; the sums are over b and c."""
    priced = one_product("a=2,b=2,c=2", GPU)
    whole = 64 * 16 * 4 / 2
    sent = priced.sent((X_M, 0), (X_K, 1), (X_K, 2), (X_M, 1))
    assert sent == {("ALL_REDUCE", (1, 2)): 2 * whole * 3 / 4}
    sent = priced.sent((X_M, 0), (X_K, 1), (X_M, 1))
    assert sent == {("REDUCE_SCATTER", (1,)): whole / 2}


def test_a_batch_that_is_sharded_already_is_gathered_to_take_an_axis_of_its_sums() -> None:
    """Matrices over a when multiplied, over a and b when stored; the sums are over b."""
    x, w, y = "x:8x64x32xf32", "w:8x32x16xf32", "y:8x64x16xf32"
    line = (
        "%y = stablehlo.dot_general %x, %w, batching_dims = [0] x [0],"
        " contracting_dims = [2] x [1] : (tensor<8x64x32xf32>, tensor<8x32x16xf32>)"
        " -> tensor<8x64x16xf32>"
    )
    priced = Priced(main(f"{x} {w}", [line], y), "a=2,b=2", GPU)
    batch, k, whole = (0, 0), (0, 2), 8 * 64 * 16 * 4
    sent = priced.sent((batch, 0), (k, 1), (batch, 1))
    assert sent == {("ALL_REDUCE", (1,)): 2 * (whole / 2) / 2, ("ALL_GATHER", (0,)): whole / 2}
    # a batch that is whole before takes its part at once
    assert priced.sent((k, 1), (batch, 1)) == {("REDUCE_SCATTER", (1,)): whole / 2}


def test_sums_that_one_axis_scatters_are_summed_over_the_other_in_shards() -> None:
    priced = one_product("a=2,b=4", "cpu")
    sent = priced.sent((X_K, 0), (X_K, 1), (X_M, 0))
    whole = 64 * 16 * 4
    # two devices along a scatter the whole; then four along b sum the half that is left
    assert sent == {
        ("REDUCE_SCATTER", (0,)): whole / 2,
        ("ALL_REDUCE", (1,)): 2 * (whole / 2) * 3 / 4,
    }


@pytest.mark.parametrize("device", [TPU, GPU])
def test_the_sums_of_a_product_are_scattered_in_one_piece(device: str) -> None:
    """Not block by block while it multiplies: plans pin what a sum is computed as."""
    x, w, y = "x:4096x65536xf32", "w:65536x4096xf32", "y:4096x4096xf32"
    priced = Priced(main(f"{x} {w}", [product(y, x, w)], y), "a=8", device)
    assert priced.sent((X_K, 0), (X_M, 0)) == {("REDUCE_SCATTER", (0,)): 4096 * 4096 * 4 * 7 / 8}


@pytest.mark.parametrize("device", ["tpu-v3", "tpu-v5p"])
def test_some_tpus_sum_whole_what_would_be_scattered_over_all_devices(device: str) -> None:
    whole = 64 * 16 * 4
    some = one_product("a=2,b=2", device).sent((X_K, 0), (X_M, 0))
    assert some == {("REDUCE_SCATTER", (0,)): whole / 2}
    everything = one_product("a=4", device).sent((X_K, 0), (X_M, 0))
    assert everything == {("ALL_REDUCE", (0,)): 2 * whole * 3 / 4}
    assert one_product("a=4", TPU).sent((X_K, 0), (X_M, 0)) == {
        ("REDUCE_SCATTER", (0,)): whole * 3 / 4
    }


@pytest.mark.parametrize("device", [TPU, GPU])
def test_a_lookup_is_scattered_over_all_axes_of_its_table_or_summed_whole(device: str) -> None:
    """XLA masks the rows that are elsewhere and sums."""
    table, rows = "16x8xf32", "32x8xf32"
    gather = (
        '%r = "stablehlo.gather"(%t, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1],'
        " collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,"
        " slice_sizes = array<i64: 1, 8>, indices_are_sorted = false}"
        f" : (tensor<{table}>, tensor<32x1xi32>) -> tensor<{rows}>"
    )
    lines = [gather, maps("sine", f"s:{rows}", "r")]
    priced = Priced(main(f"t:{table} i:32x1xi32", lines, f"s:{rows}"), "a=2,b=2", device)
    table_rows, batch, whole = (0, 0), (1, 0), 32 * 8 * 4

    def sums(*choices: tuple[tuple[int, int], int]) -> dict[tuple[str, tuple[int, ...]], float]:
        kinds = ("ALL_REDUCE", "REDUCE_SCATTER")
        return {key: size for key, size in priced.sent(*choices).items() if key[0] in kinds}

    both = ((table_rows, 0), (table_rows, 1))
    scattered = {("REDUCE_SCATTER", (0, 1)): whole * 3 / 4}
    assert sums(*both, (batch, 0), (batch, 1)) == scattered
    assert sums(*both, (batch, 0)) == {("ALL_REDUCE", (0, 1)): 2 * whole * 3 / 4}
    assert sums((table_rows, 0), (batch, 0)) == {("REDUCE_SCATTER", (0,)): whole / 2}


def test_sums_of_a_reduction_have_no_product_to_run_beside() -> None:
    x, y = "x:64x32xf32", "y:32xf32"
    priced = Priced(main(x, sums(y, x, 0), y), "a=8", TPU)
    assert priced.sent((X_M, 0), (X_K, 0)) == {("REDUCE_SCATTER", (0,)): 32 * 4 * 7 / 8}


X, RESULT = "x:64x32xf32", "64x16xf32"
WEIGHTS = ["w1:32x16xf32", "w2:32x16xf32", "w3:32x16xf32"]
THREE = [product(f"p{i}:{RESULT}", X, w) for i, w in enumerate(WEIGHTS)]
SUMMED = 2 * 64 * 16 * 4 / 2
"""On each wire of an all-reduce of one result over two devices."""


def added(results: str) -> Priced:
    lines = [*THREE, maps("add", f"s:{RESULT}", "p0", "p1"), maps("add", f"t:{RESULT}", "s", "p2")]
    return Priced(main(" ".join([X, *WEIGHTS]), lines, results), "a=2")


def test_products_that_are_added_up_are_summed_over_devices_once() -> None:
    priced = added(f"t:{RESULT}")
    assert priced.sent((X_K, 0)) == {("ALL_REDUCE", (0,)): SUMMED}
    (row,) = resolve(priced.evaluator, priced.state((X_K, 0))).totals()
    assert row.count == 1


def test_a_product_that_is_used_elsewhere_too_is_summed_by_itself() -> None:
    # p0 is returned: it and t (which then adds what is summed to what is not) are summed apart,
    # and no other sum of products is left
    assert added(f"t:{RESULT} p0:{RESULT}").sent((X_K, 0)) == {("ALL_REDUCE", (0,)): 3 * SUMMED}
    # p2 joins last: p0 + p1 are still one
    assert added(f"t:{RESULT} p2:{RESULT}").sent((X_K, 0)) == {("ALL_REDUCE", (0,)): 2 * SUMMED}


def test_products_that_are_rounded_before_they_are_added_are_summed_one_by_one() -> None:
    wide, narrow = "64x16xf32", "64x16xbf16"
    lines = [
        *THREE[:2],
        moves("convert", f"n0:{narrow}", f"p0:{wide}"),
        moves("convert", f"n1:{narrow}", f"p1:{wide}"),
        maps("add", f"s:{narrow}", "n0", "n1"),
    ]
    priced = Priced(main(" ".join([X, *WEIGHTS[:2]]), lines, f"s:{narrow}"), "a=2")
    assert priced.sent((X_K, 0)) == {("ALL_REDUCE", (0,)): 2 * SUMMED}


def test_sums_over_different_axes_are_not_joined() -> None:
    u, v = "u:64x8xf32", "v:8x16xf32"
    lines = [
        THREE[0],
        product(f"q:{RESULT}", u, v),
        maps("add", f"s:{RESULT}", "p0", "q"),
    ]
    priced = Priced(main(" ".join([X, WEIGHTS[0], u, v]), lines, f"s:{RESULT}"), "a=2,b=2")
    u_k = (2, 1)
    assert priced.sent((X_K, 0), (u_k, 0)) == {("ALL_REDUCE", (0,)): SUMMED}
    apart = {("ALL_REDUCE", (0,)): SUMMED, ("ALL_REDUCE", (1,)): SUMMED}
    assert priced.sent((X_K, 0), (u_k, 1)) == apart
    assert priced.sent((X_K, 0)) == {("ALL_REDUCE", (0,)): SUMMED}


TABLE, ROWS = "16x8xf32", "32x8xf32"


def scattered(result: str, table: str, updates: str) -> str:
    """Rows added up in a table, at the indices `i`."""
    return (
        f'%{result} = "stablehlo.scatter"(%{table}, %i, %{updates})'
        " ({^bb0(%p: tensor<f32>, %q: tensor<f32>):"
        " %c = stablehlo.add %p, %q : tensor<f32>\n stablehlo.return %c : tensor<f32>})"
        " {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],"
        " inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],"
        f" index_vector_dim = 1>}} : (tensor<{TABLE}>, tensor<32x1xi32>, tensor<{ROWS}>)"
        f" -> tensor<{TABLE}>"
    )


def test_scatters_are_summed_once_whatever_is_added_besides() -> None:
    """As the gradient of rows that are looked up twice and used otherwise as well: (x + s) + r."""
    arguments = f"z:{TABLE} i:32x1xi32 u:{ROWS} x:{TABLE} y:{TABLE}"
    lines = [
        scattered("s", "z", "u"),
        scattered("r", "y", "u"),
        maps("add", f"t:{TABLE}", "x", "s"),
        maps("add", f"v:{TABLE}", "t", "r"),
    ]
    batch, whole = (2, 0), 16 * 8 * 4
    priced = Priced(main(arguments, lines, f"v:{TABLE}"), "a=2")
    assert priced.sent((batch, 0)) == {("ALL_REDUCE", (0,)): 2 * whole / 2}
    # not where each of them is scattered over devices, and something else is added in between
    sent = priced.sent((batch, 0), ((0, 0), 0))
    assert sent[("REDUCE_SCATTER", (0,))] == 2 * whole / 2
    # the first sum is used by itself: what is added later is another
    priced = Priced(main(arguments, lines, f"v:{TABLE} t:{TABLE}"), "a=2")
    assert priced.sent((batch, 0)) == {("ALL_REDUCE", (0,)): 2 * (2 * whole / 2)}


def test_what_is_only_added_to_each_other_is_scattered_once() -> None:
    """The gradient of an embedding that is looked up twice, and is the head: (d + s) + r."""
    table, whole = TABLE, 16 * 8 * 4
    lines = [
        product(f"d:{table}", "h:32x16xf32", f"u:{ROWS}", (0, 0)),
        scattered("s", "z", "u"),
        scattered("r", "y", "u"),
        maps("add", f"p:{table}", "d", "s"),
        maps("add", f"q:{table}", "p", "r"),
        maps("add", f"v:{table}", "q", "x"),
    ]
    tables = " ".join(f"{name}:{table}" for name in "zyx")
    priced = Priced(main(f"{tables} i:32x1xi32 u:{ROWS} h:32x16xf32", lines, f"v:{table}"), "a=2")
    batch, vocabulary = (4, 0), (0, 0)
    # summed whole, the scatters are one and the product another
    assert priced.sent((batch, 0)) == {("ALL_REDUCE", (0,)): 2 * (2 * whole / 2)}
    assert priced.sent((batch, 0), (vocabulary, 0))[("REDUCE_SCATTER", (0,))] == whole / 2


def test_products_do_not_join_over_what_is_added_besides() -> None:
    lines = [
        *THREE[:2],
        maps("add", f"s:{RESULT}", "p0", "z"),
        maps("add", f"t:{RESULT}", "s", "p1"),
    ]
    priced = Priced(main(" ".join([X, *WEIGHTS[:2], f"z:{RESULT}"]), lines, f"t:{RESULT}"), "a=2")
    assert priced.sent((X_K, 0)) == {("ALL_REDUCE", (0,)): 2 * SUMMED}
    # what is one sum before that stays one
    lines = [
        *THREE[:2],
        maps("add", f"s:{RESULT}", "p0", "p1"),
        maps("add", f"t:{RESULT}", "s", "z"),
    ]
    priced = Priced(main(" ".join([X, *WEIGHTS[:2], f"z:{RESULT}"]), lines, f"t:{RESULT}"), "a=2")
    assert priced.sent((X_K, 0)) == {("ALL_REDUCE", (0,)): SUMMED}


def test_a_scatter_joins_a_product_only_where_their_sum_is_scattered() -> None:
    """The gradient of an embedding that is also the head: rows of a scatter and a product."""
    table, rows = TABLE, ROWS
    lines = [
        scattered("s", "z", "u"),
        product(f"d:{table}", "h:32x16xf32", f"u:{rows}", (0, 0)),
        maps("add", f"r:{table}", "s", "d"),
    ]
    priced = Priced(main(f"z:{table} i:32x1xi32 u:{rows} h:32x16xf32", lines, f"r:{table}"), "a=2")
    whole, batch, vocabulary = 16 * 8 * 4, (2, 0), (0, 0)
    assert priced.sent((batch, 0)) == {("ALL_REDUCE", (0,)): 2 * (2 * whole / 2)}
    sent = priced.sent((batch, 0), (vocabulary, 0))
    assert sent == {
        ("REDUCE_SCATTER", (0,)): whole / 2,
        # the table that is scattered into is kept in shards, and taken whole
        ("ALL_GATHER", (0,)): whole / 2,
    }


HALF, FULL = 32 * 16 * 2 / 2, 32 * 16 * 4 / 2
"""On the wire where two devices gather w in 16 bits, and in 32."""


@pytest.mark.parametrize(("device", "width"), [(TPU, HALF), (GPU, FULL), ("cpu", FULL)])
def test_a_tpu_gathers_in_16_bits_what_one_product_reads(device: str, width: float) -> None:
    sent = one_product("a=2", device).sent((X_M, 0), (X_K, 0))
    assert sent == {("ALL_GATHER", (0,)): width}


@pytest.mark.parametrize(("dtype", "width"), [("bf16", HALF), ("i32", FULL), ("f64", 2 * FULL)])
def test_other_types_are_gathered_as_they_are(dtype: str, width: float) -> None:
    sent = one_product("a=2", TPU, dtype).sent((X_M, 0), (X_K, 0))
    assert sent == {("ALL_GATHER", (0,)): width}


@pytest.mark.parametrize("device", [TPU, GPU])
@pytest.mark.parametrize(("dtype", "width"), [("bf16", 0.5), ("f64", 1.0)])
def test_what_is_joined_and_then_narrowed_is_gathered_narrow(
    device: str, dtype: str, width: float
) -> None:
    """As the halves of a rotary embedding: XLA narrows them before it joins them."""
    half, whole = "64x32xf32", "64x64xf32"
    join = (
        f"%j = stablehlo.concatenate %h0, %h1, dim = 1 : (tensor<{half}>, tensor<{half}>)"
        f" -> tensor<{whole}>"
    )
    lines = [
        maps("tanh", f"h0:{half}", "x"),
        maps("negate", f"h1:{half}", "x"),
        join,
        moves("convert", f"y:64x64x{dtype}", f"j:{whole}"),
    ]
    priced = Priced(main(f"x:{half}", lines, f"y:64x64x{dtype}"), "a=2", device)
    gathered = 64 * 32 * 4 / 2
    assert priced.sent((X_K, 0)) == {("ALL_GATHER", (0,)): 2 * width * gathered}
    both = Priced(main(f"x:{half}", lines, f"y:64x64x{dtype} j:{whole}"), "a=2", device)
    assert both.sent((X_K, 0)) == {("ALL_GATHER", (0,)): 2 * gathered}


@pytest.mark.parametrize(("device", "part"), [(TPU, 0.5), (GPU, 1.0)])
def test_a_tpu_gathers_in_16_bits_what_is_looked_up_for_products(device: str, part: float) -> None:
    table, rows, w = "t:16x8xf32", "32x8xf32", "w:8x4xf32"
    lookup = (
        '%r = "stablehlo.gather"(%t, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1],'
        " collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,"
        " slice_sizes = array<i64: 1, 8>, indices_are_sorted = false}"
        f" : (tensor<16x8xf32>, tensor<32x1xi32>) -> tensor<{rows}>"
    )
    lines = [lookup, product("y:32x4xf32", f"r:{rows}", w)]
    batch, vocabulary, whole = (1, 0), (0, 0), 16 * 8 * 4 / 2

    def gathered(*results: str) -> float:
        priced = Priced(main(f"{table} i:32x1xi32 {w}", lines, " ".join(results)), "a=2", device)
        return priced.sent((batch, 0), (vocabulary, 0))[("ALL_GATHER", (0,))]

    assert gathered("y:32x4xf32") == part * whole
    assert gathered("y:32x4xf32", f"r:{rows}") == whole


def test_what_two_products_read_is_gathered_once_and_in_16_bits() -> None:
    w = "w:32x16xf32"
    lines = [
        product("p:64x16xf32", "x:64x32xf32", w),
        product("q:64x16xf32", "v:64x32xf32", w),
    ]
    module = main(f"x:64x32xf32 {w} v:64x32xf32", lines, "p:64x16xf32 q:64x16xf32")
    priced = Priced(module, "a=2", TPU)
    assert priced.sent((X_M, 0), ((2, 0), 0), (X_K, 0)) == {("ALL_GATHER", (0,)): HALF}


def test_two_products_of_different_sizes_that_want_one_layout_share_a_gather() -> None:
    w = "w:32x16xf32"
    lines = [
        product("p:64x16xf32", "x:64x32xf32", w),
        product("q:8x16xf32", "v:8x32xf32", w),
    ]
    module = main(f"x:64x32xf32 {w} v:8x32xf32", lines, "p:64x16xf32 q:8x16xf32")
    priced, v_m = Priced(module, "a=2,b=2", TPU), (2, 0)
    assert priced.sent((X_M, 0), (v_m, 0), (X_K, 0)) == {("ALL_GATHER", (0,)): HALF}
    # v's rows over b alone: k stays on a there, so w is gathered for x, as one product reads it,
    # and v's product sums what it has over a
    sent = priced.sent((X_M, 0), (v_m, 1), (X_K, 0))
    assert sent == {("ALL_GATHER", (0,)): HALF, ("ALL_REDUCE", (0,)): 2 * (8 // 2 * 16 * 4) / 2}


def test_what_is_scaled_for_two_products_is_gathered_once_and_in_16_bits() -> None:
    """A plan keeps it in shards where it is made, so the product is what is sent."""
    w, x, v = "w:32x16xf32", "x:64x32xf32", "v:64x32xf32"
    scalar = "%two = stablehlo.constant dense<2.0> : tensor<f32>"
    wide = moves("broadcast_in_dim", "c:32x16xf32", "two:f32", ", dims = []")
    lines = [
        scalar,
        wide,
        maps("multiply", "s:32x16xf32", "w", "c"),
        product("p:64x16xf32", x, "s:32x16xf32"),
        product("q:64x16xf32", v, "s:32x16xf32"),
    ]
    priced = Priced(main(f"{x} {w} {v}", lines, "p:64x16xf32 q:64x16xf32"), "a=2", TPU)
    assert priced.sent((X_M, 0), ((2, 0), 0), (X_K, 0)) == {("ALL_GATHER", (0,)): HALF}


def test_what_a_product_and_another_op_read_is_gathered_whole() -> None:
    x, w = "x:64x32xf32", "w:32x16xf32"
    lines = [product("p:64x16xf32", x, w), *sums("s:32xf32", w, 1)]
    priced = Priced(main(f"{x} {w}", lines, "p:64x16xf32 s:32xf32"), "a=2", TPU)
    # the sum over n keeps k where it is, so the product alone wants w whole
    assert priced.sent((X_M, 0), (X_K, 0)) == {("ALL_GATHER", (0,)): HALF}
    # with n on a too nothing changes: w keeps k on a, and the sum is computed as w lies
    assert priced.sent((X_M, 0), (X_K, 0), (W_N, 0)) == {("ALL_GATHER", (0,)): HALF}


@pytest.mark.parametrize("action", [Action(group=99, axis=0), Action(group=0, axis=1)])
def test_a_state_of_another_program_or_mesh_is_refused(action: Action) -> None:
    evaluator = one_product("a=2", "cpu").evaluator
    good = Action(group=0, axis=0)
    assert evaluator.cost((good,)).compute > 0
    with pytest.raises(IndexError, match="not there"):
        evaluator.cost((good, action))
    with pytest.raises(IndexError):
        resolve(evaluator, (Action(group=-1, axis=0),)).totals()
    with pytest.raises(IndexError):
        evaluator.masks((Action(group=0, axis=-1),))
