"""What fits, ranks, the worst cases and traffic over several cases, and the tables of them."""

from __future__ import annotations

import math

import pytest

from benchmarks.accuracy import tables
from benchmarks.accuracy.statistics import memory_error
from benchmarks.accuracy.summary import (
    FEW,
    Fit,
    Ranks,
    by,
    called_fitting,
    memory,
    traffic,
    wire,
    worst,
)
from tests.benchmarks.accuracy_samples import GIB, MIB, record, refusal
from toast.costmodel.hardware.devices import find

MARGIN = 0.05

USABLE = find("tpu-v5e").usable_bytes


def of(plan: str, model: str = "m", target: str = "tpu-v5e:2x4") -> str:
    return f"{model} data=8 {plan} {target}"


def test_errors_over_cases() -> None:
    some = [record(of("a"), peak=100 * MIB), record(of("b"), peak=200 * MIB, wire=(0.0, 0.0))]
    assert (memory(some).cases, memory(some).median, memory(some).near) == (2, 0.5, 0.5)
    assert (wire(some).cases, wire(some).near) == (1, 1.0)
    assert math.isnan(memory([]).median)


def test_a_plan_is_called_fitting_while_the_margin_stays_free() -> None:
    assert called_fitting(record(peak=int(USABLE * (1.0 - MARGIN))))
    assert not called_fitting(record(peak=USABLE * (1.0 - MARGIN) + 1))


def test_wrong_calls_are_named_on_both_sides() -> None:
    rows = [
        record(of("good")),
        record(of("false-fit"), refused=refusal(20 * GIB), peak=10 * GIB),
        record(of("right-refusal"), refused=refusal(20 * GIB), peak=19.5 * GIB),
        record(of("false-refusal"), peak=16.0 * GIB, main=12 * GIB),
        record(of("low"), peak=94 * MIB),
        record(of("nearly-low"), peak=96 * MIB),
    ]
    fit = Fit.of(rows)
    assert (fit.cases, fit.refused) == (6, 2)
    assert fit.false_fits == [of("false-fit")]
    assert fit.false_refusals == [of("false-refusal")]
    assert fit.low == [of("false-fit"), of("low")]


def test_ranks_need_some_plans_and_say_how_many_are_close() -> None:
    plans = [record(of(f"p{n}"), seconds=(n, 1.0 + 0.05 * n)) for n in range(FEW)]
    ranks = Ranks.of(plans)
    assert (ranks.plans, ranks.close_plans) == (FEW, FEW)
    assert ranks.all == pytest.approx(1.0)
    assert ranks.close == pytest.approx(1.0)
    assert math.isnan(Ranks.of(plans[1:]).all)
    spread = [record(of(f"p{n}"), seconds=(n, 2.0**n)) for n in range(FEW)]
    assert Ranks.of(spread).close_plans == 1
    assert math.isnan(Ranks.of(spread).close)


def test_cases_are_grouped_in_the_order_in_which_they_are_met() -> None:
    rows = [record(of("a", "z")), record(of("a", "b")), record(of("c", "z"))]
    assert {model: len(some) for model, some in by(rows, "model").items()} == {"z": 2, "b": 1}
    assert list(by(rows, "model")) == ["z", "b"]


def test_the_worst_come_first_and_those_without_an_error_never() -> None:
    rows = [
        record(of("a"), peak=120 * MIB),
        record(of("b"), peak=10 * MIB),
        record(of("c"), refused=refusal(None)),
    ]
    assert [row["plan"] for row in worst(rows, memory_error, 5)] == ["b", "a"]
    assert [row["plan"] for row in worst(rows, memory_error, 1)] == ["b"]


def test_traffic_is_summed_by_kind_over_what_was_compiled_through() -> None:
    rows = [record(of("a")), record(of("b"), wire=(1e6, 0.0)), record(refused=refusal(GIB))]
    (gathers,) = traffic(rows)
    assert gathers.kind == "all_gather"
    assert (gathers.predicted_count, gathers.compiled_count) == (6, 2)
    assert gathers.predicted_bytes == pytest.approx(9.9e8 + 1e6)
    assert gathers.compiled_bytes == pytest.approx(9e8)


def test_the_report_leaves_out_what_is_stale_and_names_what_failed() -> None:
    rows = [
        record(of("first")),
        record(of("second"), stale=True),
        {"key": "third", "model": "m", "error": "engine_crashed: boom"},
        {"key": "fourth", "model": "m", "same_as": of("first")},
    ]
    text = tables.report(rows, verbose=True)
    assert "| tpu-v5e:2x4 | m | 1 | 10.0 % | 10.0 % | 100 % | 1 | 10.0 % |" in text
    assert "second" not in text
    assert "fourth" not in text
    assert "- third: engine_crashed: boom" in text
    assert tables.report([]) == "No case has been compiled yet."


def test_tables_name_the_misses_and_where_their_text_is() -> None:
    rows = [record(of(f"p{n}"), peak=(100 + n) * MIB) for n in range(12)]
    text = tables.misses(rows)
    assert "| m data=8 p11 tpu-v5e:2x4 | 111.0 | 100.0 | +11 % |" in text
    assert "tpu-v5e:2x4/m_data=8_p11.hlo.gz" in text
    assert "p1 tpu" not in text.split("wire, MB")[0]


def test_feasibility_names_both_kinds_of_mistakes() -> None:
    wrong = record(of("fits"), refused=refusal(20 * GIB), peak=GIB)
    text = tables.feasibility([wrong, record(of("no"), peak=16 * GIB, main=16 * GIB)])
    assert "| tpu-v5e:2x4 | 2 | 1 | 1 | 1 | 1 |" in text
    refused, _, accepted = text.partition("Accepted, but")
    assert f"- {of('fits')}" in refused
    assert f"- {of('no')}" in accepted


def test_all_targets_together_have_a_line_where_there_are_two() -> None:
    one = [record(of("a"))]
    assert "| all |" not in tables.by_target(one)
    assert "| all | 2 |" in tables.by_target([*one, record(of("a", target="a100:8"))])


def test_ranks_are_shown_where_there_are_enough_plans() -> None:
    plans = [record(of(f"p{n}"), seconds=(n, 1.0 + 0.05 * n)) for n in range(FEW)]
    assert f"| tpu-v5e:2x4 | m | {FEW} | 1.000 | {FEW} | 1.000 |" in tables.rank_table(plans)
    assert tables.rank_table(plans[1:]) == ""


def test_counts_and_bytes_of_collectives_are_shown_a_target() -> None:
    row = "| tpu-v5e:2x4 | all_gather | 3 | 2 | 990.0 | 900.0 |"
    assert row in tables.collectives([record()])
