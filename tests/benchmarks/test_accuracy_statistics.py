"""The figures of one case, and of several at once, are what they say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.accuracy.statistics import (
    CLOSE,
    close_pairs,
    memory_error,
    needed_bytes,
    quantile,
    spearman,
    step_seconds,
    wire_bytes,
    wire_error,
    within,
)
from tests.benchmarks.accuracy_samples import GIB, MIB, record, refusal
from toast.aot import CompiledCollective
from toast.aot.collective_time import collective_seconds
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.collectives import Kind, collective_tables
from toast.costmodel.network.mesh import Mesh

Seconds = st.floats(min_value=1e-6, max_value=1e3)
Pairs = st.lists(st.tuples(Seconds, Seconds), min_size=1, max_size=12)


def test_errors_of_one_case() -> None:
    assert memory_error(record()) == pytest.approx(0.1)
    assert wire_error(record()) == pytest.approx(0.1)
    times = step_seconds(record())
    assert times is not None
    assert times[0] == pytest.approx(0.41)
    assert times[1] == pytest.approx(0.5 + 9e8 / 9e10, rel=1e-2)


def test_a_step_with_kernels_is_compared_with_no_estimate_of_the_rest() -> None:
    """The compiler gives a kernel no cycles, so what it does is missing in the compiled step."""
    some, none = record(), record()
    some["compiled"]["unestimated"] = {"kernel": 1.0}
    none["compiled"]["unestimated"] = {"gather": 2.0}
    assert step_seconds(some) is None
    assert step_seconds(none) == step_seconds(record())


def test_a_tpu_program_without_a_report_of_its_memory_has_no_error() -> None:
    old, gpu = record(), record("m data=8 mcts a100:8")
    for row in (old, gpu):
        row["compiled"]["memory"] |= {"main": None, "temp": 40 * MIB}
    assert (needed_bytes(old), memory_error(old)) == (None, None)
    assert needed_bytes(gpu) == 100 * MIB
    assert wire_error(old) == pytest.approx(0.1)


def test_traffic_that_is_next_to_nothing_has_no_error() -> None:
    assert wire_error(record(wire=(0.0, 0.0))) is None
    assert wire_error(record(wire=(60e3, 0.0))) is None
    assert wire_error(record(wire=(131072.0, 0.0))) == pytest.approx(2.0)
    assert wire_error(record(wire=(0.0, 131072.0))) == pytest.approx(-1.0)


def test_a_refused_case_has_the_memory_that_the_compiler_named_and_no_traffic() -> None:
    refused = record(refused=refusal(20 * GIB), peak=10 * GIB)
    assert memory_error(refused) == pytest.approx(-0.5)
    assert wire_bytes(refused) is None
    assert wire_error(refused) is None
    assert step_seconds(refused) is None
    assert memory_error(record(refused=refusal(None))) is None


def test_compiled_collectives_are_priced_by_the_tables_of_the_prediction() -> None:
    mesh, device = Mesh.parse("data=2,model=4"), find("tpu-v5e")
    tables = collective_tables(mesh, device)

    def row(axes: tuple[str, ...] | None, size: int) -> CompiledCollective:
        return CompiledCollective(
            kind="all_gather",
            axes=axes,
            group_size=size,
            count=3,
            result_bytes=3e6,
            wire_bytes=0.0,
        )

    def once(axes: int) -> float:
        return 3 * tables.seconds(Kind.ALL_GATHER, axes, 1e6)

    known = (row(("data",), 2), row(("model", "data"), 8))
    assert collective_seconds(known, mesh, device) == pytest.approx(once(1) + once(3))
    # groups that are no axes: as axes of that size, or as all of them
    assert collective_seconds((row(None, 4),), mesh, device) == pytest.approx(once(2))
    assert collective_seconds((row(None, 5),), mesh, device) == pytest.approx(once(3))


@pytest.mark.parametrize(("mesh", "halved"), [("x=8", 0.5), ("x=4,y=2", 1.0)])
def test_permutes_between_many_devices_go_both_ways_at_once(mesh: str, halved: float) -> None:
    sizes, device = Mesh.parse(mesh), find("tpu-v5e")
    permutes = CompiledCollective(
        kind="collective_permute",
        axes=("x",),
        group_size=2,
        count=9,
        result_bytes=9e6,
        wire_bytes=0.0,
    )
    one = collective_tables(sizes, device).seconds(Kind.COLLECTIVE_PERMUTE, 1, 1e6)
    assert collective_seconds((permutes,), sizes, device) == pytest.approx(9 * halved * one)


def test_rank_correlation() -> None:
    assert spearman([(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]) == pytest.approx(1.0)
    assert spearman([(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]) == pytest.approx(-1.0)
    assert spearman([(1.0, 5.0), (1.0, 5.0), (2.0, 6.0), (3.0, 7.0)]) == pytest.approx(1.0)
    assert math.isnan(spearman([(1.0, 1.0), (2.0, 2.0)]))
    assert math.isnan(spearman([(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]))


@given(Pairs)
def test_ranks_do_not_change_with_the_units(pairs: list[tuple[float, float]]) -> None:
    straight = spearman(pairs)
    assert math.isnan(straight) or -1.0 - 1e-9 <= straight <= 1.0 + 1e-9
    scaled = spearman([(2.0 * one, 1024.0 * other) for one, other in pairs])
    assert scaled == pytest.approx(straight, nan_ok=True)
    turned = spearman([(-one, other) for one, other in pairs])
    assert turned == pytest.approx(-straight, nan_ok=True)


@given(Pairs)
def test_close_pairs_are_within_the_bound_and_no_window_holds_more(
    pairs: list[tuple[float, float]],
) -> None:
    near = close_pairs(pairs)
    times = [compiled for _, compiled in near]
    assert max(times) <= min(times) * (1.0 + CLOSE)
    for _, least in pairs:
        window = [pair for pair in pairs if least <= pair[1] <= least * (1.0 + CLOSE)]
        assert len(window) <= len(near)


def test_close_pairs_of_nothing_are_none() -> None:
    assert close_pairs([]) == []
    assert close_pairs([(1.0, 1.0), (1.0, 2.0), (9.0, 2.5)]) == [(1.0, 2.0), (9.0, 2.5)]


def test_quantiles_are_of_absolute_values() -> None:
    assert quantile([-0.2, 0.1, 0.0], 0.5) == pytest.approx(0.1)
    assert within([-0.2, 0.1, 0.0], 0.15) == pytest.approx(2 / 3)
    assert math.isnan(quantile([], 0.5))
    assert math.isnan(within([], 0.5))
