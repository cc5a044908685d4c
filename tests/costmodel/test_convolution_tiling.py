"""Time of convolutions on a TPU: whole tiles of the matrix unit, few images in blocks of pixels."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import pytest
from numba import njit

from benchmarks.probes.convolution_tiling import (
    CONVOLUTIONS,
    FILTER,
    FORWARD,
    IMAGE,
    Convolution,
    Form,
)
from benchmarks.probes.figures import golden
from benchmarks.probes.nets import chain
from benchmarks.probes.programs import lowered_of
from benchmarks.probes.space_to_batch import CHAINS
from tests.costmodel.profiles import TPU
from tests.modules import analysed, argument_group, evaluator_of
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.kernels.convolution import blocking
from toast.costmodel.kernels.products import product_tiling
from toast.costmodel.passes.convolution_tiling import (
    NO_WINDOW,
    FilterWindow,
    convolution_sides,
    windows,
)
from toast.costmodel.passes.space_to_batch import images
from toast.costmodel.program.contractions import BATCH, CONTRACTED, LEFT, RIGHT

CYCLES = 1.5e9
"""A v5e's in a second."""
V5E = "tpu-v5e"


@njit(_nrt=False)
def padding_of(t: Any, s: Any, dot: int) -> float:
    padding, _, _ = product_tiling(t, s, dot)
    return float(padding)


@njit(_nrt=False)
def blocking_of(t: Any, s: Any, dot: int) -> float:
    return float(blocking(t, s, dot))


def alone(form: Form, source: int, made: int, **rest: int) -> bytes:
    """The module of a convolution."""
    return Convolution(form=form, source=source, made=made, **rest).module()


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


FEW = 8
"""Fewer images than these are convolved in blocks of pixels."""


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_arithmetic_is_within_a_twelfth_of_what_libtpu_estimates(name: str) -> None:
    """Of few images, in blocks, within an eighth."""
    seconds = convolving(priced(CONVOLUTIONS[name].module()))
    cycles = golden("convolution_tiling", name)
    near = 1 / 12 if CONVOLUTIONS[name].batch >= FEW else 1 / 8
    assert seconds * CYCLES == pytest.approx(cycles, rel=near)


@pytest.mark.parametrize("device", [V5E, "tpu-v5p", "tpu-v3"])
def test_images_whose_pixels_lie_apart_take_the_time_of_many(device: str) -> None:
    """How much longer 64 take than 32, priced and compiled."""
    names = [f"image, stride 2, {batch} of 16 x 16" for batch in (32, 64)]
    half, whole = (golden("convolution_tiling", name, device) for name in names)
    less, more = (convolving(priced(CONVOLUTIONS[name].module(), device)) for name in names)
    assert more / less == pytest.approx(whole / half, rel=0.1)


@pytest.mark.parametrize(
    ("side", "stride", "pads", "splits"),
    [
        (3, 2, (0, 1), 1),
        (3, 2, (1, 1), 2),
        (3, 2, (2, 2), 0),
        (5, 2, (2, 2), 1),
        (5, 2, (1, 2), 0),
        (5, 2, (3, 3), 2),
        (7, 2, (3, 3), 0),
        (4, 4, (0, 0), 2),
        (1, 2, (0, 0), 2),
        (3, 1, (1, 1), 0),
    ],
)
def test_pixels_that_lie_apart_fall_into_blocks_by_their_padding(
    side: int, stride: int, pads: tuple[int, int], splits: int
) -> None:
    """As libtpu's cycles for two images tell: 2 to 3 times their arithmetic, or 16 to 18 times."""
    x, filters = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((2, 96, 8), (side, 8, 8)))
    form = ("NWC", "WIO", "NWC")

    def convolve(x: Any, filters: Any) -> Any:
        return jax.lax.conv_general_dilated(x, filters, (stride,), [pads], dimension_numbers=form)

    slope = jax.eval_shape(convolve, x, filters)
    module = lowered_of(
        lambda slope, w: jax.linear_transpose(lambda x: convolve(x, w), x)(slope), slope, filters
    )
    (window,) = windows(analysed(module).program, TPU.convolution_tiling).values()
    assert window.splits == splits


def test_more_images_whose_pixels_lie_apart_are_never_cheaper() -> None:
    nets = [
        alone(IMAGE, 128, 128, stride=2, batch=batch, pixels=16) for batch in (8, 12, 16, 32, 48)
    ]
    cycles = [round(convolving(priced(net)) * CYCLES) for net in nets]
    assert cycles == sorted(cycles)


def test_what_a_device_has_of_the_channels_takes_whole_tiles() -> None:
    """256 channels over 4 devices take the time that 512 do, and over 2 half of what 256 take."""
    evaluator = priced(alone(FORWARD, 256, 256))
    group = argument_group(evaluator.analysis, 1, 3)
    whole = convolving(evaluator)
    halves = convolving(evaluator, Action(group=group, axis=0))
    quarters = convolving(evaluator, Action(group=group, axis=1))
    assert halves == pytest.approx(whole / 2)
    assert quarters == pytest.approx(whole / 2)


@pytest.mark.parametrize("name", list(CHAINS)[:5])
def test_gradients_of_a_chain_are_within_an_eighth_of_what_libtpu_estimates(name: str) -> None:
    """Of fewer than 8 images three quarters of the cycles make blocks of pixels."""
    compute = priced(chain(*CHAINS[name])).cost(()).compute
    assert compute * CYCLES == pytest.approx(golden("space_to_batch", name)["cycles"], rel=1 / 8)


def blocks(evaluator: Evaluator) -> list[float]:
    """Seconds to make blocks for each convolution, unsharded."""
    scratch = evaluator.new_scratch()
    evaluator.cost((), scratch)
    tables = evaluator.tables
    return [blocking_of(tables, scratch, dot) for dot in range(len(tables.fusions.dot_sums))]


def test_half_of_the_blocks_are_made_of_lines_of_pixels_that_fill_tiles() -> None:
    """128 pixels by 32 channels: a quarter of the room of 128 channels, as libtpu copies half."""
    made = [sum(blocks(priced(chain(4, 128, (n, n, n))))) for n in (32, 64, 128)]
    assert made[0] / made[2] == pytest.approx((1 + 1 / 4) / 2)
    assert made[1] / made[2] == pytest.approx((1 + 1 / 2) / 2)
    names = [f"4 images of 128 x 128, {n} channels" for n in (32, 64)]
    few, more = (priced(chain(*CHAINS[name])).cost(()).compute for name in names)
    cycles = [golden("space_to_batch", name)["cycles"] for name in names]
    assert few / more == pytest.approx(cycles[0] / cycles[1], rel=1 / 4)


def test_blocks_are_made_of_few_images_with_wide_windows_on_some_chips() -> None:
    few, many = chain(4, 32, (128, 128, 128)), chain(8, 32, (128, 128, 128))
    made = blocks(priced(few))
    # two convolutions, the gradient of one's images, and of both filters, which read two images
    assert sorted(made) == pytest.approx([made[0]] * 3 + [2 * made[0]] * 2)
    assert made[0] > 0.0
    assert not any(blocks(priced(many)))
    assert not any(blocks(priced(few, "tpu-v3")))


def test_an_image_alone_is_an_image() -> None:
    """One image is no dimension that could be named, and is a batch all the same."""
    (one,) = images(analysed(chain(1, 32, (64, 64, 64))).program, TPU.layout_assignment).values()
    (two,) = images(analysed(chain(2, 32, (64, 64, 64))).program, TPU.layout_assignment).values()
    assert one == two


@pytest.mark.parametrize(
    ("form", "sides", "window"),
    [
        (
            FORWARD,
            {(LEFT, 8), (LEFT, 32), (CONTRACTED, 64), (RIGHT, 128)},
            FilterWindow(row=5, widest=5, whole=25),
        ),
        (
            IMAGE,
            {(LEFT, 8), (LEFT, 32), (CONTRACTED, 128), (RIGHT, 64)},
            FilterWindow(row=5, widest=5, whole=25),
        ),
        (
            FILTER,
            {(CONTRACTED, 8), (CONTRACTED, 32), (LEFT, 64), (RIGHT, 128)},
            FilterWindow(widest=5),
        ),
    ],
)
def test_sides_and_windows(form: Form, sides: set[tuple[int, int]], window: FilterWindow) -> None:
    program = analysed(alone(form, 64, 128, side=5)).program
    ((op, found),) = convolution_sides(program, TPU.convolution_tiling).items()
    assert {side for side in found if side[1] > 1} == sides
    assert {size for side, size in found if side == BATCH} <= {1}
    assert windows(program, TPU.convolution_tiling) == {op: window}


@pytest.mark.parametrize("form", [FORWARD, IMAGE, FILTER])
def test_strides_change_no_window(form: Form) -> None:
    (plain,) = windows(analysed(alone(form, 64, 128)).program, TPU.convolution_tiling).values()
    program = analysed(alone(form, 64, 128, stride=2)).program
    (strided,) = windows(program, TPU.convolution_tiling).values()
    assert strided == (plain._replace(apart=2, spread=4, splits=1) if form == IMAGE else plain)
    assert plain.widest == 3


@pytest.mark.parametrize(
    ("groups", "window"),
    [
        (64, FilterWindow(row=3, widest=3, contracted=1, made=2, whole=9)),
        (4, FilterWindow(row=3, widest=3, contracted=16, made=32, whole=9)),
    ],
)
def test_groups_are_a_batch(groups: int, window: FilterWindow) -> None:
    program = analysed(alone(FORWARD, 64, 128, groups=groups)).program
    ((op, found),) = convolution_sides(program, TPU.convolution_tiling).items()
    assert (BATCH, groups) in found
    assert windows(program, TPU.convolution_tiling) == {op: window}


def test_groups_of_one_fill_tiles_together() -> None:
    """Sixteen on a device take the time of 128, so devices that share them save nothing."""
    evaluator = priced(alone(FORWARD, 128, 128, groups=128))
    group = argument_group(evaluator.analysis, 1, 3)
    assert convolving(evaluator, Action(group=group, axis=0)) == pytest.approx(
        convolving(evaluator)
    )


def test_larger_groups_are_shared_by_devices() -> None:
    evaluator = priced(alone(FORWARD, 128, 128, groups=8))
    group = argument_group(evaluator.analysis, 1, 3)
    assert convolving(evaluator, Action(group=group, axis=0)) == pytest.approx(
        convolving(evaluator) / 2
    )


def test_filters_of_groups_are_taken_to_fill_tiles() -> None:
    program = analysed(alone(FILTER, 64, 64, groups=4)).program
    assert convolution_sides(program, TPU.convolution_tiling) == {}


def test_other_devices_take_a_convolution_as_it_is() -> None:
    for device in ("a100-40gb", "cpu"):
        evaluator = priced(alone(FORWARD, 64, 64), device)
        assert evaluator.tables.fusions.dot_window.tolist() == [list(NO_WINDOW)]
        assert convolving(evaluator) == evaluator.tables.fusions.dot_seconds[0]
