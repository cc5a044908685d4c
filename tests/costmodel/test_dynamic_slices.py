"""Loops over stacks: what slices and updates of them cost, and what is copied behind the loop."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.probes.dynamic_update_slice import update
from benchmarks.probes.figures import golden
from tests.costmodel.profiles import TPU as TPU_PROFILE
from tests.costmodel.texts import GPU, TPU
from tests.modules import analysed, argument_group
from toast.aot.target import CHIPS
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.explain import FusionTime, explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.kernels.incremental import streamed
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.buffer_assignment import value_spans
from toast.costmodel.passes.fusion import fuse
from toast.costmodel.program.buffers import loop_copies
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.journal import Bound

DEVICE = find(TPU)
RATE = DEVICE.bandwidth * DEVICE.stream_efficiency
CLOCK = CHIPS[TPU].clock or 0.0
"""Cycles in a second."""
DONATED = "{tf.aliasing_output = 1 : i32}"


def loop(layers: int, rows: int, width: int, *, given: str = "", kept: bool = True) -> bytes:
    """`x = x @ w[i] + c[i]` in a loop that stacks each x; c is read in it where `kept`."""
    w, c = f"tensor<{layers}x{width}x{width}xbf16>", f"tensor<{layers}x{rows}x{width}xbf16>"
    x, one = f"tensor<{rows}x{width}xbf16>", f"tensor<1x{rows}x{width}xbf16>"
    square = f"{width}x{width}xbf16"
    cut = (
        f"%ci = stablehlo.dynamic_slice %cs, %i, %z, %z, sizes = [1, {rows}, {width}]"
        f" : ({c}, tensor<i32>, tensor<i32>, tensor<i32>) -> {one}"
        if kept
        else f"%ci = stablehlo.constant dense<1.0> : {one}"
    )
    return f"""
func.func @main(%w: {w}, %c: {c} {given}, %x: {x}) -> ({x}, {c}) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %fill = stablehlo.constant dense<0.0> : {c}
  %r:5 = stablehlo.while(%i = %zero, %v = %x, %s = %fill, %ws = %w, %cs = {"%c" if kept else "%w"})
    : tensor<i32>, {x}, {c}, {w}, {c if kept else w}
  cond {{
    %n = stablehlo.constant dense<{layers}> : tensor<i32>
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %z = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %wi = stablehlo.dynamic_slice %ws, %i, %z, %z, sizes = [1, {width}, {width}]
      : ({w}, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x{square}>
    %wm = stablehlo.reshape %wi : (tensor<1x{square}>) -> tensor<{square}>
    %y = stablehlo.dot_general %v, %wm, contracting_dims = [1] x [0]
      : ({x}, tensor<{square}>) -> {x}
    {cut}
    %cm = stablehlo.reshape %ci : ({one}) -> {x}
    %u = stablehlo.add %y, %cm : {x}
    %ur = stablehlo.reshape %u : ({x}) -> {one}
    %t = stablehlo.dynamic_update_slice %s, %ur, %i, %z, %z
      : ({c}, {one}, tensor<i32>, tensor<i32>, tensor<i32>) -> {c}
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %y, %t, %ws, %cs : tensor<i32>, {x}, {c}, {w}, {c if kept else w}
  }}
  return %r#1, %r#2 : {x}, {c}
}}
""".encode()


def evaluator(data: bytes, device: str = TPU, mesh: str = "a=2") -> Evaluator:
    return Evaluator(analysed(data), Mesh.parse(mesh), find(device), floored=False)


def fusions(found: Evaluator, kind: str, *state: Action) -> list[FusionTime]:
    """The fusions with an op of a kind."""
    program = found.analysis.program
    return [
        row
        for row in explain(resolve(found, state)).fusions
        if kind in {program.kind(op) for op in row.sources[0][0]}
    ]


def test_a_slice_of_a_stack_is_read_from_where_the_stack_lies() -> None:
    """A layer would wait on the chip, all of them do not: each is streamed to its product."""
    found = evaluator(loop(64, 128, 2048))
    layer = 2.0 * 2048 * 2048
    assert streamed(DEVICE.on_chip_bytes, 0.25, layer) == 0.0
    assert streamed(DEVICE.on_chip_bytes, 0.25, 64 * layer) == 1.0
    (row,) = fusions(found, "stablehlo.dot_general")
    assert row.bound is Bound.BYTES
    streaming = golden("fusion_rates", "product of a stream of 1 GiB")["contraction"] / CLOCK
    expected = 64 * (layer / 2**30 * streaming + DEVICE.op_overhead)
    assert row.seconds == pytest.approx(expected, rel=1 / 20)


def test_a_slice_of_a_stack_that_waits_on_the_chip_costs_no_bytes() -> None:
    found = evaluator(loop(2, 128, 2048))
    (row,) = fusions(found, "stablehlo.dot_general")
    assert row.bytes == 0.0
    # nor does cutting it cost what arithmetic on its elements would
    assert row.seconds < 2 * 2048 * 2048 / DEVICE.element_rate
    assert not found.tables.fusions.dot_computed.any()


def test_a_stack_that_the_mesh_splits_may_wait_on_the_chip() -> None:
    found = evaluator(loop(4, 128, 4096), mesh="a=8")
    action = Action(group=argument_group(found.analysis, 0, 2), axis=0)
    (whole,), (split,) = (fusions(found, "stablehlo.dot_general", *s) for s in ((), (action,)))
    assert whole.bytes == pytest.approx(4 * 2.0 * 4096 * 4096)
    assert split.bytes == 0.0


@pytest.mark.parametrize("device", [TPU, GPU])
def test_a_stack_made_in_a_loop_that_reads_a_donated_one_is_copied_to_its_buffer(
    device: str,
) -> None:
    found = evaluator(loop(64, 4096, 512, given=DONATED), device)
    (row,) = fusions(found, "loop_end")
    chip, size = find(device), 2.0 * 64 * 4096 * 512
    streamed_twice = 2 * size / (chip.bandwidth * chip.stream_efficiency)
    copied = golden("fusion_rates", "transpose and add 64 Mi")["copy"] / CLOCK * size / 2**28
    expected = copied if device == TPU else streamed_twice
    assert row.runs == 1.0
    assert row.seconds == pytest.approx(expected + 2 * chip.op_overhead, rel=1 / 10)
    assert sum(k.seconds for k in explain(resolve(found, ())).fusions) == pytest.approx(
        found.cost(()).compute
    )


@pytest.mark.parametrize(("given", "kept"), [("", True), (DONATED, False)])
def test_nothing_is_copied_to_a_buffer_that_is_free_or_not_given(given: str, kept: bool) -> None:
    found = evaluator(loop(64, 4096, 512, given=given, kept=kept))
    assert not fusions(found, "loop_end")
    assert not loop_copies(found.analysis.program)


def test_a_donated_argument_that_the_loop_carries_is_updated_in_place() -> None:
    x = "tensor<64x64xf32>"
    data = f"""
func.func @main(%x: {x} {{tf.aliasing_output = 0 : i32}}) -> {x} {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, {x}
  cond {{
    %n = stablehlo.constant dense<5> : tensor<i32>
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %b = stablehlo.tanh %a : {x}
    stablehlo.return %j, %b : tensor<i32>, {x}
  }}
  return %r#1 : {x}
}}
"""
    assert not loop_copies(analysed(data.encode()).program)


def update_seconds(data: bytes, dim: int | None, device: str = TPU) -> float:
    """The update alone, its buffer's dimension over an axis."""
    found = evaluator(data, device)
    state = () if dim is None else (Action(group=argument_group(found.analysis, 0, dim), axis=0),)
    return found.cost(state).compute


@pytest.mark.parametrize("device", [TPU, GPU])
@pytest.mark.parametrize(
    ("part", "known", "dim"), [(1, False, 0), (1, False, 1), (1, True, 0), (4096, False, 0)]
)
def test_an_update_handles_what_it_writes(part: int, known: bool, dim: int, device: str) -> None:
    """Also along a split dimension of which a single device has the place."""
    data = update(4096, part, known=known)
    assert update_seconds(data, dim, device) <= update_seconds(data, None, device)


@settings(max_examples=20)
@given(st.integers(1, 8), st.sampled_from([128, 512, 2048]))
def test_more_layers_take_longer_and_no_layer_costs_less(layers: int, width: int) -> None:
    less, more = (evaluator(loop(n, 128, width)).cost(()).compute for n in (layers, layers + 1))
    assert more / (layers + 1) >= less / layers * (1 - 1e-9)


def test_a_slice_that_is_only_written_into_a_stack_is_there_for_that_moment() -> None:
    """What it is made of is let go of as soon as the product can run, and takes no buffer else."""

    def step(stack: jax.Array, x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        product = x.T @ x
        other = jnp.tanh(x @ w) @ w
        return jax.lax.dynamic_update_slice(stack, product[None], (0, 0, 0)), other

    shapes = (4, 64, 64), (512, 64), (64, 64)
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    program = analysed(jax.jit(step).lower(*given).as_text().encode()).program
    first, _ = value_spans(program, fuse(program, TPU_PROFILE))
    (written,) = program.ops_named("stablehlo.dynamic_update_slice")
    slice_ = program.sources[program.uses_of(written)[1]]
    assert first[slice_] > max(program.ops_named("stablehlo.dot_general"))
