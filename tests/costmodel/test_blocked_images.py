"""What is kept besides few images on a TPU: what is convolved, and what normalises them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.blocked_images import LAYERS, NETS, step
from benchmarks.probes.convolution_chains import grouped, plain, strided
from benchmarks.probes.figures import TARGETS, golden
from benchmarks.probes.layouts import Layout
from benchmarks.probes.nets import scaled_step
from benchmarks.probes.programs import lowered_of
from tests.modules import analysed
from toast.analysis.program import Program
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Evaluator, State
from toast.costmodel.explain import HeldMemory, explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.passes.blocked_images import sums_apart
from toast.costmodel.passes.fusion import fuse
from toast.costmodel.passes.space_to_batch import given_images, images, in_forms, normalising
from toast.costmodel.resolved import resolve

MIB = 2**20
BY_EXAMPLE = "normalised by example"


def net(name: str, images_: int = 32) -> Layout:
    program = partial(step, *NETS[name], images=images_)
    return Layout(program=program, mesh="data=8", choices=(((-1, 0), 0),))


def at_the_peak(name: str, device: str, images_: int) -> list[HeldMemory]:
    """What is in memory of one image's size, or of its half, for a net on eight devices."""
    layout = net(name, images_)
    bench = layout.bench(TARGETS[device])
    found = explain(resolve(bench.evaluator, layout.state(bench))).alive
    return [one for one in found if one.shape[1:3] == (128, 128)]


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p"])
@pytest.mark.parametrize("name", NETS)
def test_memory_is_within_a_third_of_what_libtpu_reports(name: str, device: str) -> None:
    layout = net(name)
    bench = layout.bench(TARGETS[device])
    predicted = bench.evaluator.room_bytes(layout.state(bench)) / MIB
    assert 2 / 3 < predicted / golden("blocked_images", name, device) < 4 / 3


def test_only_images_in_blocks_keep_what_normalises_them() -> None:
    """Four images on a device lie in blocks on a v5e, and eight do not; a v3 has no blocks."""
    most = {
        (device, count): max(one.bytes for one in at_the_peak(BY_EXAMPLE, device, 8 * count))
        for device in ("tpu-v5e", "tpu-v3")
        for count in (4, 8)
    }
    image = 128 * 128 * 128 * 4
    assert most["tpu-v5e", 4] == 2 * 4 * image * 17 / 16  # the mean and the factor
    assert most["tpu-v5e", 8] < 1.01 * 8 * image
    assert most["tpu-v3", 4] < 1.01 * 4 * image


def test_lines_of_pixels_fill_tiles_where_images_of_few_channels_are_normalised() -> None:
    """48 channels fill 128 columns in part, and 128 pixels all of them."""
    image = 4 * 128 * 128 * 48 * 4 * 17 / 16
    few = "normalised by example, of 48 channels"
    assert max(one.bytes for one in at_the_peak(few, "tpu-v5e", 32)) == 2 * image
    plain = max(one.bytes for one in at_the_peak("plain, of 48 channels", "tpu-v5e", 32))
    assert plain == image * 128 / 48


def test_means_over_the_batch_are_of_no_example() -> None:
    rules = profile_of(find("tpu-v5e")).layout_assignment
    found = {}
    for name in NETS:
        program = net(name).bench("tpu-v5e:2x4").evaluator.analysis.program
        found[name] = len(normalising(program, images(program, rules)))
    by_example = {name for name in NETS if name.startswith(BY_EXAMPLE)}
    assert {name for name, count in found.items() if count} == by_example
    assert all(found[name] >= 2 * LAYERS for name in by_example)


def test_what_vmap_convolves_of_an_argument_is_given() -> None:
    """`jax.vmap` puts a dimension of 1 in and takes it away; the argument is kept in tiles."""
    text = """
func.func public @main(%x: tensor<64x3x32x32xf32>, %w: tensor<128x3x3x3xf32>)
    -> tensor<64x128x32x32xf32> {
  %wide = stablehlo.broadcast_in_dim %x, dims = [0, 2, 3, 4]
    : (tensor<64x3x32x32xf32>) -> tensor<64x1x3x32x32xf32>
  %flat = stablehlo.reshape %wide : (tensor<64x1x3x32x32xf32>) -> tensor<64x3x32x32xf32>
  %y = stablehlo.convolution(%flat, %w)
    dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {pad = [[1, 1], [1, 1]]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<64x3x32x32xf32>, tensor<128x3x3x3xf32>) -> tensor<64x128x32x32xf32>
  return %y : tensor<64x128x32x32xf32>
}
"""
    program = analysed(text.encode()).program
    assert set(given_images(program)) == {program.arguments[0].value}


@pytest.mark.parametrize(
    ("dtype", "device", "rows"),
    [
        ("float32", "tpu-v3", 2),
        ("bfloat16", "tpu-v3", 4),
        ("float32", "tpu-v5p", 2),
        ("bfloat16", "tpu-v5p", 2),
    ],
)
def test_few_rows_of_narrow_elements_are_padded(dtype: str, device: str, rows: int) -> None:
    """Two images of 16 bits take the room of four on a v3, whose lowest tile of them has four."""
    evaluator, state = priced(dtype, device)
    scratch, width = resolve(evaluator, state).scratch, 4 if dtype == "float32" else 2
    tensors = zip(evaluator.layouts.tensors, evaluator.tables.tensors.itemsize, strict=True)
    alike = [
        tuple(size for size, _ in dims) == (16, 4, 4, 128) and itemsize == width
        for (_, dims), itemsize in tensors
    ]
    assert min(scratch.tensors.stored[alike]) == rows * 4 * 4 * 128 * width


def priced(dtype: str, device: str) -> tuple[Evaluator, State]:
    """Two images of 4 x 4 pixels on each of eight devices, too small for blocks."""
    program = partial(scaled_step, 16, 4, 128, 2, (), dtype)
    layout = Layout(program=program, mesh="data=8", choices=(((-1, 0), 0),))
    bench = layout.bench(TARGETS[device])
    return bench.evaluator, layout.state(bench)


def program_of(net: Callable[..., object], images_: int = 2, filters: int = 2) -> Program:
    """Convolutions without gradients of 16 x 16 pixels and 8 channels."""
    image = jax.ShapeDtypeStruct((images_, 16, 16, 8), jnp.float32)
    given = [jax.ShapeDtypeStruct((3, 3, 8, 8), jnp.float32)] * filters
    return analysed(lowered_of(net, image, given)).program


def test_a_window_that_moves_on_by_two_reads_one_pixel_more() -> None:
    """It read none, so that few images of strided convolutions were in no blocks."""
    profile = profile_of(find("tpu-v5e"))
    halos = {
        net: {one.halo for one in images(program_of(net), profile.layout_assignment).values()}
        for net in (plain, strided)
    }
    assert halos == {plain: {2}, strided: {1}}


def test_only_steps_of_training_handle_images_in_several_forms() -> None:
    profile = profile_of(find("tpu-v5e"))
    rules, blocks = profile.layout_assignment, profile.space_to_batch
    found = {}
    for name, program in {
        "given": program_of(grouped),
        "trained": analysed(scaled_step(2, 16, 8, 2, (1, 2, 4), "float32")).program,
    }.items():
        moved = in_forms(program, images(program, rules), blocks)
        found[name] = {one.forms for one in moved.values() if one.normed}
    assert found == {"given": {1}, "trained": {4}}


def test_each_sum_of_an_image_is_apart_where_none_is_trained() -> None:
    profile = profile_of(find("tpu-v5e"))
    program = program_of(grouped)
    summed = sums_apart(program, fuse(program, profile))
    assert [program.shape(one)[:3] for some in summed.values() for one in some] == [(2, 16, 16)] * 2
    for other in (program_of(plain), analysed(net(BY_EXAMPLE).program()).program):
        assert not any(sums_apart(other, fuse(other, profile)).values())
