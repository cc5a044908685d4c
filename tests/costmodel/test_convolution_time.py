"""Time of convolutions on a TPU: whole tiles of the matrix unit, few images in blocks of pixels."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from tests.costmodel.nets import FORWARD, IMAGE, KERNEL, alone, chain
from tests.laws.states import every_action
from tests.modules import analysed, argument_group, evaluator_of
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.kernels.compute import _product as kernel_of_products
from toast.costmodel.kernels.convolution import blocking as kernel_of_blocks
from toast.costmodel.passes.convolution_tiling import NO_WINDOW, Window, convolution_sides, windows
from toast.costmodel.passes.space_to_batch import images
from toast.costmodel.program.contractions import BATCH, CONTRACTED, LEFT, RIGHT

CYCLES = 1.5e9
"""A v5e's in a second."""
V5E = "tpu-v5e"


@njit(_nrt=False)
def padding_of(t: Any, s: Any, dot: int) -> float:
    padding, _, _ = kernel_of_products(t, s, dot)
    return float(padding)


@njit(_nrt=False)
def blocking_of(t: Any, s: Any, dot: int) -> float:
    return float(kernel_of_blocks(t, s, dot))


@cache
def priced(data: bytes, device: str = V5E) -> Evaluator:
    return evaluator_of(data, "a=2,b=4", device)


def convolving(evaluator: Evaluator, *state: Action) -> float:
    """Seconds on the matrix unit of the only convolution there is."""
    scratch = evaluator.new_scratch()
    evaluator.cost(state, scratch)
    (seconds,) = evaluator.tables.fusions.dot_seconds.tolist()
    unit = evaluator.tables.fusions.dot_unit[0]
    first, last = evaluator.tables.units.start[unit : unit + 2]
    return float(seconds * padding_of(evaluator.tables, scratch, 0)) / float(
        scratch.units.shards[first:last].prod()
    )


@pytest.mark.parametrize(
    ("net", "cycles"),
    [
        ((FORWARD, 128, 256), 37120),
        ((FORWARD, 64, 256, 1), 4352),  # one pixel: half of what is contracted is empty
        ((FORWARD, 64, 64), 12544),  # a row of three pixels and their channels in two passes
        ((FORWARD, 96, 256), 40587),
        ((FORWARD, 160, 256), 53475),
        ((FORWARD, 192, 256), 61952),
        ((FORWARD, 320, 256), 99328),
        ((FORWARD, 64, 256, 7), 119040),
        ((FORWARD, 64, 256, 3, 2), 25600),
        ((FORWARD, 256, 64), 37120),  # what it makes takes whole columns
        ((FORWARD, 256, 160), 74240),
        ((IMAGE, 64, 256), 37120),
        ((IMAGE, 256, 64), 24832),
        ((IMAGE, 160, 256), 74240),
        ((IMAGE, 256, 160), 53475),
        ((IMAGE, 256, 256, 3, 2, 1, 8, 28), 227584),  # with zeros between what is read
        ((IMAGE, 256, 256, 3, 2, 1, 16, 28), 229376),  # without half of them: twice as many
        ((IMAGE, 256, 256, 3, 2, 1, 16, 32), 313622),
        ((IMAGE, 640, 640, 3, 2, 1, 8, 14), 360424),
        ((IMAGE, 256, 256, 1, 2, 1, 16, 28), 27136),
        ((KERNEL, 160, 256), 50853),  # either of the channels takes rows
        ((KERNEL, 256, 160), 50853),
    ],
)
def test_arithmetic_is_within_a_twelfth_of_what_libtpu_estimates(
    net: tuple[int, ...], cycles: int
) -> None:
    """Estimated cycles of libtpu 0.0.42 for a v5e: mostly of 8 images of 32 x 32."""
    seconds = convolving(priced(alone(*net)))
    assert seconds * CYCLES == pytest.approx(cycles, rel=1 / 12)


def test_what_a_device_has_of_the_channels_takes_whole_tiles() -> None:
    """256 channels over 4 devices take the time that 512 do, and over 2 half of what 256 take."""
    evaluator = priced(alone(FORWARD, 256, 256))
    group = argument_group(evaluator.analysis, 1, 3)
    whole = convolving(evaluator)
    halves = convolving(evaluator, Action(group=group, axis=0))
    quarters = convolving(evaluator, Action(group=group, axis=1))
    assert halves == pytest.approx(whole / 2)
    assert quarters == pytest.approx(whole / 2)


@pytest.mark.parametrize(
    ("batch", "pixels", "channels", "cycles"),
    [
        (1, 64, (128, 128, 128), 270376),
        (1, 64, (64, 64, 64), 251491),
        (2, 64, (128, 256, 128), 743517),
        (4, 32, (256, 256, 256), 679241),
        (8, 64, (128, 128, 128), 439165),
    ],
)
def test_gradients_of_a_chain_are_within_an_eighth_of_what_libtpu_estimates(
    batch: int, pixels: int, channels: tuple[int, ...], cycles: int
) -> None:
    """Of fewer than 8 images three quarters of the cycles make blocks of pixels."""
    compute = priced(chain(batch, pixels, channels)).cost(()).compute
    assert compute * CYCLES == pytest.approx(cycles, rel=1 / 8)


def blocks(evaluator: Evaluator) -> list[float]:
    """Seconds to make blocks for each convolution, unsharded."""
    scratch = evaluator.new_scratch()
    evaluator.cost((), scratch)
    tables = evaluator.tables
    return [blocking_of(tables, scratch, dot) for dot in range(len(tables.fusions.dot_sums))]


def test_blocks_are_made_of_few_images_with_wide_windows_on_some_chips() -> None:
    few, many = chain(4, 32, (128, 128, 128)), chain(8, 32, (128, 128, 128))
    made = blocks(priced(few))
    # two convolutions, the gradient of one's images, and of both kernels, which read two images
    assert sorted(made) == pytest.approx([made[0]] * 3 + [2 * made[0]] * 2)
    assert made[0] > 0.0
    assert not any(blocks(priced(many)))
    assert not any(blocks(priced(few, "tpu-v3")))


def test_an_image_alone_is_an_image() -> None:
    """One image is no dimension that could be named, and is a batch all the same."""
    (one,) = images(analysed(chain(1, 32, (64, 64, 64))).program).values()
    (two,) = images(analysed(chain(2, 32, (64, 64, 64))).program).values()
    assert one == two


@pytest.mark.parametrize(
    ("form", "sides", "window"),
    [
        (FORWARD, {(LEFT, 8), (LEFT, 32), (CONTRACTED, 64), (RIGHT, 128)}, Window(row=5, widest=5)),
        (IMAGE, {(LEFT, 8), (LEFT, 32), (CONTRACTED, 128), (RIGHT, 64)}, Window(row=5, widest=5)),
        (KERNEL, {(CONTRACTED, 8), (CONTRACTED, 32), (LEFT, 64), (RIGHT, 128)}, Window(widest=5)),
    ],
)
def test_sides_and_windows(form: int, sides: set[tuple[int, int]], window: Window) -> None:
    program = analysed(alone(form, 64, 128, 5)).program
    ((op, found),) = convolution_sides(program).items()
    assert {side for side in found if side[1] > 1} == sides
    assert {size for side, size in found if side == BATCH} <= {1}
    assert windows(program) == {op: window}


@pytest.mark.parametrize("form", [FORWARD, IMAGE, KERNEL])
def test_strides_change_no_window(form: int) -> None:
    (plain,) = windows(analysed(alone(form, 64, 128, 3)).program).values()
    (strided,) = windows(analysed(alone(form, 64, 128, 3, 2)).program).values()
    assert strided == plain._replace(apart=2 if form == IMAGE else 1)
    assert plain.widest == 3


def test_groups_are_taken_to_fill_tiles() -> None:
    program = analysed(alone(FORWARD, 64, 64, 3, 1, 4)).program
    assert convolution_sides(program) == {}
    (window,) = windows(program).values()
    assert window.widest == 3
    assert convolving(priced(alone(FORWARD, 64, 64, 3, 1, 4))) == pytest.approx(
        priced(alone(FORWARD, 64, 64, 3, 1, 4)).tables.fusions.dot_seconds[0]
    )


def test_other_devices_take_a_convolution_as_it_is() -> None:
    for device in ("a100-40gb", "cpu"):
        evaluator = priced(alone(FORWARD, 64, 64), device)
        assert evaluator.tables.fusions.dot_window.tolist() == [list(NO_WINDOW)]
        assert convolving(evaluator) == evaluator.tables.fusions.dot_seconds[0]


@given(picks=st.lists(st.lists(st.integers(0, 10_000), max_size=5), min_size=1, max_size=5))
@settings(deadline=None, max_examples=30)
def test_a_state_costs_the_same_whatever_was_priced_before(picks: list[list[int]]) -> None:
    """Batches of 8 over up to 8 devices: some states make blocks, others do not."""
    evaluator = priced(chain(8, 32, (64, 128, 64)))
    known, used = every_action(evaluator), evaluator.new_scratch()
    for state in picks:
        actions = tuple(known[pick % len(known)] for pick in state)
        assert evaluator.cost(actions, used) == evaluator.cost(actions, evaluator.new_scratch())
