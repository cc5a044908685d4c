"""Convolutions with groups of several channels, whose images a TPU lays apart."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from benchmarks.probes.figures import golden
from benchmarks.probes.grouped_images import NETS, SINGLE, Images
from tests.modules import analysed, evaluator_of
from toast.costmodel.evaluator import Cost, Evaluator
from toast.costmodel.kernels.incremental import groups_apart
from toast.costmodel.passes.convolution_groups import ChannelGroup, group_of, is_grouped
from toast.costmodel.passes.space_to_batch import CONVOLUTION

CYCLES = {"tpu-v5e": 1.503e9, "tpu-v5p": 1.75e9, "tpu-v3": 0.94e9}
"""Of each chip in a second."""
TILE = 128


@cache
def priced(case: str, device: str) -> Cost:
    module = SINGLE[case].single() if case in SINGLE else NETS[case].net()
    return evaluator_of(module, "a=2", device).cost(())


@njit(_nrt=False)
def apart(t: Any, s: Any, tensor: int) -> tuple[float, bool]:
    return groups_apart(t, s, tensor)


def forms(evaluator: Evaluator) -> list[tuple[float, bool]]:
    """How often its own room each tensor takes with its groups apart, where it has some."""
    scratch = evaluator.new_scratch()
    evaluator.cost((), scratch)
    tensors = range(len(evaluator.tables.tensors.itemsize))
    found = [apart(evaluator.tables, scratch, tensor) for tensor in tensors]
    return [one for one in found if one[0] > 0.0]


@pytest.mark.parametrize("case", SINGLE)
def test_memory_of_one_is_what_libtpu_lays_out_for_a_v5e(case: str) -> None:
    compiled = golden("grouped_images", case, "tpu-v5e")["mib"]
    assert priced(case, "tpu-v5e").peak / 2**20 == pytest.approx(compiled, rel=0.05)


@pytest.mark.parametrize("device", CYCLES)
@pytest.mark.parametrize("case", NETS)
def test_memory_of_a_net_is_within_a_quarter_of_the_compiled(case: str, device: str) -> None:
    compiled = golden("grouped_images", case, device)["mib"]
    assert priced(case, device).peak / 2**20 == pytest.approx(compiled, rel=1 / 4)


@pytest.mark.parametrize("case", NETS)
def test_time_of_a_net_is_within_three_tenths_of_what_libtpu_estimates_for_a_v5e(case: str) -> None:
    compiled = golden("grouped_images", case, "tpu-v5e")["cycles"]
    assert priced(case, "tpu-v5e").compute * CYCLES["tpu-v5e"] == pytest.approx(compiled, rel=0.3)


@pytest.mark.parametrize("device", CYCLES)
def test_groups_take_longer_than_all_channels_together(device: str) -> None:
    """Each has a sixteenth of the arithmetic, and fills its tiles by itself."""
    together, groups = (f"net, 8 images, {of}" for of in ("no groups", "groups of 16"))
    assert priced(groups, device).compute > 1.5 * priced(together, device).compute
    compiled = [golden("grouped_images", case, device)["cycles"] for case in (together, groups)]
    assert compiled[1] > 1.5 * compiled[0]


@given(st.sampled_from([8, 32, 128]), st.sampled_from([1, 2, 4, 8, 16, 32, 64]))
def test_groups_take_no_more_room_than_a_tile_each_and_none_where_they_fill_tiles(
    batch: int, groups: int
) -> None:
    images = Images(batch=batch, pixels=8, channels=256, groups=groups)
    found = forms(evaluator_of(images.single(), "a=2", "tpu-v5e"))
    size = 256 // groups
    assert bool(found) == (1 < size < TILE)
    for room, by_image in found:
        assert 1.0 <= room <= TILE / size
        assert not (by_image and batch < size)


def test_groups_are_found_in_filters_and_in_their_gradients() -> None:
    program = analysed(Images(batch=8, pixels=8, channels=64, groups=4).net()).program
    found = [op for op in program.ops_named(CONVOLUTION) if is_grouped(program, op)]
    # in each of three blocks the convolution, and the gradients of its image and of its filter
    assert len(found) == 3 * 3
    assert {group_of(program, op) for op in found} == {ChannelGroup(read=16, made=16)}


def test_a_group_that_makes_more_channels_than_it_reads() -> None:
    x, filters = jax.ShapeDtypeStruct((8, 8, 8, 64), "float32"), (3, 3, 16, 256)

    def convolve(x: jax.Array, filters: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x,
            filters,
            (2, 2),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=4,
        )

    lowered = jax.jit(convolve).lower(x, jax.ShapeDtypeStruct(filters, "float32"))
    program = analysed(lowered.as_text().encode()).program
    (op,) = program.ops_named(CONVOLUTION)
    assert group_of(program, op) == ChannelGroup(read=16, made=64)


def test_a_gpu_lays_no_groups_apart() -> None:
    images = Images(batch=8, pixels=8, channels=256, groups=16)
    assert not forms(evaluator_of(images.single(), "a=2", "a100-40gb"))
