"""Buffers behind an update in place, as caches of a decode step are, come from main memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.costmodel.texts import GPU, TPU
from tests.laws.states import every_action
from tests.modules import analysed
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.registry import without
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.updated_reads import UPDATED_READS

BATCH, WIDTH, LAYERS = 8, 1024, 4
DEVICE = find(TPU)
RATE = DEVICE.bandwidth * DEVICE.stream_efficiency
ROW, QUERY = f"{BATCH}x1x{WIDTH}xbf16", f"{BATCH}x{WIDTH}xbf16"
LENGTHS = (512, 2048, 8192)
"""Caches of 8, 32 and 128 MiB a layer; a v5e has 128 MiB for all of them."""


def cache_of(length: int) -> str:
    return f"{BATCH}x{length}x{WIDTH}xbf16"


def attend(layer: str, query: str, held: str, length: int) -> list[str]:
    """Write a row of a cache, and attend to all of it twice, as to keys and to values."""
    kept, scores = cache_of(length), f"{BATCH}x{length}xbf16"
    index = "tensor<i32>, tensor<i32>, tensor<i32>"
    return [
        f"%row{layer} = stablehlo.reshape {query} : (tensor<{QUERY}>) -> tensor<{ROW}>",
        (
            f"%new{layer} = stablehlo.dynamic_update_slice {held}, %row{layer}, %zero, %at, %zero"
            f" : (tensor<{kept}>, tensor<{ROW}>, {index}) -> tensor<{kept}>"
        ),
        (
            f"%scores{layer} = stablehlo.dot_general {query}, %new{layer},"
            " batching_dims = [0] x [0],"
            f" contracting_dims = [1] x [2] : (tensor<{QUERY}>, tensor<{kept}>) -> tensor<{scores}>"
        ),
        (
            f"%out{layer} = stablehlo.dot_general %scores{layer}, %new{layer},"
            f" batching_dims = [0] x [0], contracting_dims = [1] x [1]"
            f" : (tensor<{scores}>, tensor<{kept}>) -> tensor<{QUERY}>"
        ),
    ]


def decode(length: int) -> bytes:
    """A step that writes a row of the cache of each layer, and reads the whole of each."""
    kept = f"tensor<{cache_of(length)}>"
    caches = [
        f"%c{layer}: {kept} {{tf.aliasing_output = {layer} : i32}}" for layer in range(LAYERS)
    ]
    lines, query = ["%zero = stablehlo.constant dense<0> : tensor<i32>"], "%q"
    for layer in range(LAYERS):
        lines += attend(str(layer), query, f"%c{layer}", length)
        query = f"%out{layer}"
    results = [f"%new{layer}" for layer in range(LAYERS)] + [query]
    types = ", ".join([kept] * LAYERS + [f"tensor<{QUERY}>"])
    return (
        f"func.func @main(%q: tensor<{QUERY}>, %at: tensor<i32>, {', '.join(caches)})"
        f" -> ({types}) {{\n" + "\n".join(lines) + f"\nreturn {', '.join(results)} : {types}\n}}"
    ).encode()


def stacked(length: int) -> bytes:
    """The same layers in a loop, which cuts the cache of each out of a stack that it carries."""
    one, kept = f"1x{cache_of(length)}", cache_of(length)
    stack = f"tensor<{LAYERS}x{kept}>"
    index, types = "tensor<i32>, ", f"tensor<i32>, tensor<{QUERY}>, {stack}"
    lines = [
        (
            f"%part = stablehlo.dynamic_slice %s, %i, %zero, %zero, %zero, sizes = [1, {BATCH},"
            f" {length}, {WIDTH}] : ({stack}, {', '.join(['tensor<i32>'] * 4)}) -> tensor<{one}>"
        ),
        f"%held = stablehlo.reshape %part : (tensor<{one}>) -> tensor<{kept}>",
        *attend("", "%v", "%held", length),
        f"%back = stablehlo.reshape %new : (tensor<{kept}>) -> tensor<{one}>",
        (
            f"%t = stablehlo.dynamic_update_slice %s, %back, %i, %zero, %zero, %zero"
            f" : ({stack}, tensor<{one}>, {(index * 4)[:-2]}) -> {stack}"
        ),
        "%j = stablehlo.add %i, %one : tensor<i32>",
        f"stablehlo.return %j, %out, %t : {types}",
    ]
    return (
        f"func.func @main(%q: tensor<{QUERY}>, %at: tensor<i32>,"
        f" %c: {stack} {{tf.aliasing_output = 1 : i32}}) -> (tensor<{QUERY}>, {stack}) {{\n"
        "%zero = stablehlo.constant dense<0> : tensor<i32>\n"
        "%one = stablehlo.constant dense<1> : tensor<i32>\n"
        f"%n = stablehlo.constant dense<{LAYERS}> : tensor<i32>\n"
        f"%r:3 = stablehlo.while(%i = %zero, %v = %q, %s = %c) : {types}\ncond {{\n"
        "%p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "stablehlo.return %p : tensor<i1>\n} do {\n" + "\n".join(lines) + "\n}\n"
        f"return %r#1, %r#2 : tensor<{QUERY}>, {stack}\n}}"
    ).encode()


@cache
def priced(data: bytes, device: str = TPU) -> Evaluator:
    """With products of one row on the matrix unit, so that they wait for memory alone."""
    profile = without(profile_of(find(device)), ["dot_strength_reduction"])
    return Evaluator(analysed(data), Mesh.parse("a=2,b=2"), find(device), profile=profile)


def bytes_of(length: int) -> float:
    """All caches, of two bytes an element."""
    return LAYERS * BATCH * length * WIDTH * 2.0


@pytest.mark.parametrize("device", [TPU, "tpu-v5p", "tpu-v3", GPU])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("module", [decode, stacked])
def test_a_decode_step_takes_as_long_as_reading_its_caches(
    module: Callable[[int], bytes], length: int, device: str
) -> None:
    evaluator = priced(module(length), device)
    rate = evaluator.device.bandwidth * evaluator.device.stream_efficiency
    assert evaluator.cost(()).compute >= bytes_of(length) / rate


def test_a_cache_that_would_fit_on_the_chip_is_fetched_all_the_same() -> None:
    evaluator = priced(decode(512))
    free = Evaluator(
        evaluator.analysis, evaluator.mesh, DEVICE, floored=False, profile=evaluator.profile
    )
    assert free.cost(()).compute < bytes_of(512) / RATE
    assert evaluator.cost(()).compute == pytest.approx(bytes_of(512) / RATE, rel=0.01)


def test_the_pass_that_fetches_buffers_can_be_left_out() -> None:
    evaluator = priced(decode(512))
    found = Evaluator(
        evaluator.analysis,
        evaluator.mesh,
        DEVICE,
        profile=without(evaluator.fusion.profile, ["dynamic_update_slice"]),
    )
    assert found.cost(()).compute < bytes_of(512) / RATE
    assert not found.listing.of(UPDATED_READS)


def states(evaluator: Evaluator, picks: list[int]) -> tuple[Action, ...]:
    known = every_action(evaluator)
    return tuple(known[pick % len(known)] for pick in picks)


@given(picks=st.lists(st.lists(st.integers(0, 10_000), max_size=5), min_size=1, max_size=5))
@settings(max_examples=15)
def test_every_device_reads_its_part_whatever_was_priced_before(
    picks: list[list[int]],
) -> None:
    evaluator = priced(decode(512))
    used = evaluator.new_scratch()
    for pick in picks:
        state = states(evaluator, pick)
        cost = evaluator.cost(state, used)
        assert cost == evaluator.cost(state, evaluator.new_scratch())
        reads = evaluator.tables.updated_reads
        size = float((reads.weight * used.tensors.local[reads.tensor]).sum())
        assert bytes_of(512) / 4 <= size <= bytes_of(512)
        assert cost.compute >= size / RATE * (1 - 1e-12)


def test_keys_and_values_of_one_cache_are_read_once() -> None:
    assert sum(priced(decode(512)).listing.of(UPDATED_READS).values()) == LAYERS


def test_the_explanation_says_which_ops_wait_for_a_cache() -> None:
    evaluator = priced(decode(512))
    program = evaluator.analysis.program
    breakdown = explain(resolve(evaluator, ()))
    assert sum(row.seconds for row in breakdown.fusions) == pytest.approx(breakdown.cost.compute)
    waited = [row for row in breakdown.fusions if row.bytes == bytes_of(512)]
    assert len(waited) == 1
    ops = [op for (op,), _ in waited[0].sources]
    assert [program.kind(op) for op in ops] == ["stablehlo.dot_general"] * LAYERS


def text(first: str, lines: list[str]) -> bytes:
    """A module that updates `%c` in place and reads it."""
    body = "\n".join(["%zero = stablehlo.constant dense<0> : tensor<i32>", *lines])
    return (
        f"func.func @main(%q: tensor<{QUERY}>, %at: tensor<i32>{first}) -> tensor<{QUERY}> {{\n"
        f"{body}\nreturn %out : tensor<{QUERY}>\n}}"
    ).encode()


def test_a_buffer_that_the_step_makes_itself_need_not_be_fetched() -> None:
    kept = cache_of(512)
    lines = [
        "%nothing = stablehlo.constant dense<0.0> : tensor<bf16>",
        f"%c = stablehlo.broadcast_in_dim %nothing, dims = [] : (tensor<bf16>) -> tensor<{kept}>",
        *attend("", "%q", "%c", 512),
    ]
    assert not priced(text("", lines)).listing.of(UPDATED_READS)


def test_an_argument_that_is_read_before_its_update_as_well_counts_once() -> None:
    kept = f"tensor<{cache_of(512)}>"
    lines = [
        (
            "%small = stablehlo.dot_general %q, %c, batching_dims = [0] x [0],"
            f" contracting_dims = [1] x [2] : (tensor<{QUERY}>, {kept}) -> tensor<{BATCH}x512xbf16>"
        ),
        (
            "%first = stablehlo.dot_general %small, %c, batching_dims = [0] x [0],"
            f" contracting_dims = [1] x [1] : (tensor<{BATCH}x512xbf16>, {kept}) -> tensor<{QUERY}>"
        ),
        *attend("", "%first", "%c", 512),
    ]
    assert not priced(text(f", %c: {kept}", lines)).listing.of(UPDATED_READS)


def test_a_buffer_behind_two_updates_is_the_argument_still() -> None:
    kept = f"tensor<{cache_of(512)}>"
    lines = [*attend("0", "%q", "%c", 512), *attend("", "%out0", "%new0", 512)]
    rows = priced(text(f", %c: {kept}", lines)).listing.of(UPDATED_READS)
    assert list(rows.values()) == [1.0]
