"""The search over degrees, against all that it may choose from tried one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.costmodel.network.mesh import Mesh
from toast.pipeline.pipelining.balance import least_longest
from toast.pipeline.pipelining.degrees import DegreeSpace, best_degrees, merged, stage_meshes
from toast.schedules.orders import make_schedule
from toast.schedules.simulation import simulate
from toast.schedules.steps import PipelineSchedule
from toast.schedules.timeline import ChunkCosts, PipelineTimeline

SIZES = st.integers(1, 9).map(float)
LAYER = st.builds(
    ChunkCosts, forward=SIZES, backward=SIZES, optimizer=SIZES, state_bytes=SIZES,
    kept_bytes=SIZES, forward_bytes=SIZES, backward_bytes=SIZES, sent_bytes=SIZES,
    returned_bytes=SIZES,
)  # fmt: skip


def at_once(
    schedule: PipelineSchedule, costs: Sequence[ChunkCosts], _: int = 1
) -> PipelineTimeline:
    return simulate(schedule, costs, lambda *_: 0.0)


def devices_of(mesh: str | None) -> int:
    return 1 if mesh is None else math.prod(axis.size for axis in Mesh.parse(mesh).axes)


def equal_layers(count: int, *, state: float = 1.0) -> list[ChunkCosts]:
    return [ChunkCosts(forward=1.0, backward=2.0, state_bytes=state, kept_bytes=1.0)] * count


@given(st.integers(1, 64), st.integers(1, 12))
def test_every_way_uses_all_devices(devices: int, layers: int) -> None:
    space = DegreeSpace(devices=devices, layers=layers, microbatches=4, training=True)
    found = space.meshes()
    assert len(found) == len(set(found))
    assert all(stages * devices_of(mesh) == devices for stages, mesh in found)
    assert all(stages <= layers for stages, _ in found)


@given(st.integers(1, 48))
def test_meshes_of_a_stage_offer_all_degrees(devices: int) -> None:
    offered: set[tuple[int, int]] = set()
    for mesh in stage_meshes(devices):
        sizes = [] if mesh is None else [axis.size for axis in Mesh.parse(mesh).axes]
        for chosen in itertools.product((False, True), repeat=len(sizes)):
            data = math.prod(itertools.compress(sizes, chosen))
            offered.add((data, devices // data))
    every = itertools.product(range(1, devices + 1), repeat=2)
    assert offered == {pair for pair in every if math.prod(pair) == devices}


@given(st.lists(SIZES, min_size=1, max_size=8), st.data())
def test_no_cut_has_a_shorter_longest_chunk(seconds: list[float], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(seconds)))

    def longest(cuts: Sequence[int]) -> float:
        ends = zip((0, *cuts), (*cuts, len(seconds)), strict=True)
        return max(sum(seconds[first:end]) for first, end in ends)

    every = itertools.combinations(range(1, len(seconds)), parts - 1)
    assert longest(least_longest(seconds, parts)) == min(map(longest, every))


@given(st.lists(LAYER, min_size=2, max_size=6), st.data())
def test_chunks_cost_what_their_layers_cost(layers: list[ChunkCosts], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(layers) - 1))))
    chunks = merged(layers, cuts)
    assert len(chunks) == len(cuts) + 1
    for name in ("forward", "backward", "optimizer", "state_bytes", "kept_bytes"):
        whole = sum(getattr(one, name) for one in layers)
        assert sum(getattr(one, name) for one in chunks) == whole
    lasts = [layers[end - 1].sent_bytes for end in (*cuts, len(layers))]
    assert [one.sent_bytes for one in chunks] == lasts


@given(st.lists(LAYER, min_size=1, max_size=4), st.integers(1, 6), st.integers(1, 4))
def test_nothing_that_fits_is_faster(
    layers: list[ChunkCosts], devices: int, microbatches: int
) -> None:
    memory = 60.0
    space = DegreeSpace(
        devices=devices, layers=len(layers), microbatches=microbatches, training=True
    )
    best = best_degrees(space, lambda _: layers, at_once, memory)[0]
    for stages, _ in space.meshes():
        for name, chunks in space.orders(stages):
            cuts = least_longest([one.forward + one.backward for one in layers], stages * chunks)
            schedule = make_schedule(name, stages, microbatches, chunks=chunks)
            timeline = at_once(schedule, merged(layers, cuts))
            if max(timeline.peak_bytes(stage) for stage in range(stages)) <= memory:
                assert best.peak_bytes <= memory
                assert best.seconds <= timeline.seconds


def test_weights_that_no_stage_holds_ask_for_more_stages() -> None:
    def costs(mesh: str | None) -> list[ChunkCosts]:
        # Data parallelism divides the work, but every device keeps all weights of its stage.
        share = devices_of(mesh)
        one = ChunkCosts(forward=1.0 / share, backward=2.0 / share, state_bytes=10.0)
        return [one] * 8

    space = DegreeSpace(devices=8, layers=8, microbatches=16, training=True)
    roomy = best_degrees(space, costs, at_once, memory=1000.0)[0]
    tight = best_degrees(space, costs, at_once, memory=25.0)[0]
    assert roomy.stages == 1
    assert tight.stages >= 4
    assert tight.peak_bytes <= 25.0


def test_chunks_are_offered_only_to_whole_rounds_of_microbatches() -> None:
    odd = DegreeSpace(devices=4, layers=8, microbatches=6, training=True)
    even = DegreeSpace(devices=4, layers=8, microbatches=8, training=True)
    assert all(chunks == 1 for _, chunks in odd.orders(4))
    assert {chunks for _, chunks in even.orders(4)} == {1, 2}


def test_several_chunks_win_where_sending_costs_nothing() -> None:
    space = DegreeSpace(devices=4, layers=16, microbatches=4, training=True)

    def costs(mesh: str | None) -> list[ChunkCosts]:
        return equal_layers(16) if mesh is None else _slow(16)

    found = best_degrees(space, costs, at_once, 1e9)
    pipeline = next(one for one in found if one.stages == 4)
    assert (pipeline.schedule, pipeline.chunks) == ("interleaved", 4)
    assert pipeline.idle == pytest.approx(3 / (4 * 4 + 3))


def _slow(count: int) -> list[ChunkCosts]:
    return [ChunkCosts(forward=5.0, backward=10.0)] * count
