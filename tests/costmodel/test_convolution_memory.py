"""Memory of convolutions on a TPU: tiles and blocks of pixels."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.probes.figures import golden
from benchmarks.probes.nets import step
from benchmarks.probes.nets_of_images import MADE, NETS, SPECTROGRAMS, making, spectrograms
from tests.costmodel.explained import assert_adds_up
from tests.costmodel.profiles import TPU, holding
from tests.laws.states import every_action
from tests.modules import analysed, argument_group
from toast.costmodel.evaluator import Action, Evaluator, State
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.space_to_batch import NO_IMAGE, filter_gradients, image_rows, images
from toast.costmodel.resolved import resolve

MIB = 2**20


@cache
def priced(data: bytes, device: str, mesh: str = "data=8") -> Evaluator:
    return Evaluator(analysed(data), Mesh.parse(mesh), find(device))


def batch_over(evaluator: Evaluator, *axes: int) -> State:
    """The images over mesh axes: the last argument's first dimension."""
    last = len(evaluator.analysis.program.arguments) - 1
    group = argument_group(evaluator.analysis, last, 0)
    return tuple(Action(group=group, axis=axis) for axis in axes)


def first_over(evaluator: Evaluator) -> State:
    """The images over the mesh: the first argument's first dimension."""
    return (Action(group=argument_group(evaluator.analysis, 0, 0), axis=0),)


@pytest.mark.parametrize(
    ("name", "device"),
    [
        *((name, "tpu-v5e") for name in NETS),
        ("4 images of 128 channels, normed", "tpu-v3"),
        ("8 images of 2048 channels", "tpu-v5p"),
    ],
)
def test_memory_is_within_a_tenth_of_what_libtpu_reports(name: str, device: str) -> None:
    evaluator = priced(step(*NETS[name]), device)
    predicted = evaluator.cost(batch_over(evaluator, 0)).peak / MIB
    assert predicted == pytest.approx(golden("nets_of_images", name, device), rel=0.1)


@pytest.mark.parametrize("name", MADE)
def test_images_that_are_results_lie_as_results_do(name: str) -> None:
    """What a convolution makes of few channels is padded; what the program returns is not."""
    evaluator = priced(making(*MADE[name]), "tpu-v5e")
    predicted = evaluator.cost(first_over(evaluator)).peak / MIB
    assert predicted == pytest.approx(golden("nets_of_images", name, "tpu-v5e"), rel=0.05)


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v3", "tpu-v5p"])
def test_an_image_may_be_given_without_its_channel(device: str) -> None:
    """A TPU copies it to tiles all the same."""
    compiled = {golden("nets_of_images", name, device) for name in SPECTROGRAMS}
    evaluators = [priced(spectrograms(*channel), device) for channel in SPECTROGRAMS.values()]
    peaks = {one.cost(first_over(one)).peak for one in evaluators}
    assert len(compiled) == len(peaks) == 1


def test_a_batch_without_images_takes_what_its_filters_take() -> None:
    filters = 2 * 3 * 3 * 8 * 4 * 4
    assert filters <= priced(making(0, 8, 8, 4), "tpu-v5e").cost(()).peak < MIB


def test_a_batch_that_fills_no_tile_takes_more_memory_than_one_twice_as_large() -> None:
    """As libtpu for v5e does: 1109 MiB with 4 images on a device, 782 with 8. A v3 does not."""
    peaks = {}
    for device in ("tpu-v5e", "tpu-v3"):
        for batch in (32, 64):
            evaluator = priced(step(batch, 128, 128, 10, True), device)
            peaks[device, batch] = evaluator.cost(batch_over(evaluator, 0)).peak
    assert peaks["tpu-v5e", 32] > 1.3 * peaks["tpu-v5e", 64]
    assert peaks["tpu-v3", 32] < 0.6 * peaks["tpu-v3", 64]


def test_what_sums_over_pixels_is_a_gradient_and_all_else_makes_images() -> None:
    program = analysed(step(32, 16, 64, 3, True)).program
    convolutions = program.ops_named("stablehlo.convolution")
    gradients = filter_gradients(program).tolist()
    assert [program.shape(program.values_of(op)[0]) for op in gradients] == [(3, 3, 64, 64)] * 3
    assert len(convolutions) == 3 + 2 + len(gradients)
    (image,) = images(program, TPU.layout_assignment).values()
    assert image.row == (0, 2, 3, 4, 2, True, 1, 0, 1)
    (plain,) = images(analysed(step(32, 16, 64, 3)).program, TPU.layout_assignment).values()
    assert not plain.normed


def test_images_are_known_with_their_channels_in_groups_too() -> None:
    evaluator = priced(step(32, 16, 64, 3, True), "tpu-v5e")
    found = image_rows(evaluator.layouts, images(evaluator.analysis.program, TPU.layout_assignment))
    shapes = [tuple(size for size, _ in dims) for _, dims in evaluator.layouts.tensors]
    rows = dict(zip(shapes, found.tolist(), strict=True))
    assert rows[32, 16, 16, 8, 8] == [0, 2, 3, 5, 2, True, 1, 0, 1]
    assert rows[3, 3, 64, 64] == list(NO_IMAGE)


@pytest.mark.parametrize(
    ("batch", "pixels", "channels", "device", "of"),
    [
        (64, 32, 320, "tpu-v5e", 384 / 320),  # channels fill tiles of 128
        (64, 32, 3, "tpu-v5e", 4 * 128 / (3 * 8)),  # few channels: in rows, the batch in columns
        (32, 32, 128, "tpu-v5e", 8 * 5 / 32),  # 34 pixels with a halo in 8 blocks of 5
        (32, 16, 128, "tpu-v5e", 8 * 3 / 16),
        (32, 4, 128, "tpu-v5e", 1.0),  # a block would be smaller than its halo
        (32, 32, 128, "tpu-v3", 1.0),
        (40, 32, 128, "tpu-v3", 8 / 5),  # five images take the rows of eight
    ],
)
def test_images_take_tiles_and_blocks(
    batch: int, pixels: int, channels: int, device: str, of: float
) -> None:
    evaluator = priced(step(batch, pixels, channels, 3), device)
    scratch = resolve(evaluator, batch_over(evaluator, 0)).scratch
    shapes = [tuple(size for size, _ in dims) for _, dims in evaluator.layouts.tensors]
    local, shape = batch // 8 * pixels**2 * channels * 4, (batch, pixels, pixels, channels)
    sizes = [s for s, is_of in zip(scratch.tensors.stored, shapes, strict=True) if is_of == shape]
    assert pytest.approx(local * of, abs=1) in sizes


def test_images_lie_in_no_tiles_on_a_gpu() -> None:
    gpu = priced(step(64, 16, 2048, 4), "a100-40gb")
    assert (gpu.tables.tensors.image[:, 0] < 0).all()


@cache
def small_step() -> Evaluator:
    chip = replace(find("tpu-v5e"), memory_bytes=2**24, reserved_bytes=0)
    mesh, profile = Mesh.parse("data=2,model=4"), holding("tpu-v5e", 0)
    return Evaluator(analysed(step(16, 16, 64, 4, True)), mesh, chip, profile=profile)


PICKS = st.lists(st.integers(0, 10_000), max_size=6)


def state_of(picks: list[int]) -> State:
    actions = every_action(small_step())
    return tuple(actions[pick % len(actions)] for pick in picks)


@given(st.lists(PICKS, min_size=2, max_size=12))
def test_a_peak_does_not_depend_on_what_was_priced_before(states: list[list[int]]) -> None:
    evaluator = small_step()
    used = evaluator.new_scratch()
    for picks in states:
        state = state_of(picks)
        assert evaluator.cost(state, used) == evaluator.cost(state, evaluator.new_scratch())


@given(PICKS)
def test_the_explained_memory_adds_up(picks: list[int]) -> None:
    assert_adds_up(small_step(), state_of(picks))
