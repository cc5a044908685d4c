"""The figures of a half, from records that are made up."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.zoo.document import by_memory
from benchmarks.zoo.summary import Summary, least_bytes, pressed_errors, time_error, verdicts
from benchmarks.zoo.tables import (
    MEMORY,
    brief_table,
    curve_table,
    is_gap,
    page_table,
    side_by_side,
)
from tests.benchmarks.accuracy_samples import GIB, MIB, record, refusal

V5E = "tpu-v5e:2x4"


def case(plan: str = "mcts", words: str = "", **changes: Any) -> dict[str, Any]:
    """A record of the program m/train-adam on eight v5e."""
    made = record(f"m/train-adam data=8 {plan} {V5E}", **changes)
    made["predicted"]["room_bytes"] = made["predicted"]["peak_bytes"]
    return made | {"key": f"m/train-adam data=8 {plan} {words}{' ' * bool(words)}{V5E}"}


def pressed(main: int, level: float = 0.1) -> dict[str, Any]:
    """The same pressed; what is predicted of it is with the one with room."""
    made = case(words=f"pressed={level}", main=main)
    del made["predicted"]
    return made


def test_memory_with_room_leaves_out_what_was_squeezed_without_a_flag() -> None:
    roomy = case(peak=110 * MIB, main=100 * MIB)
    full = case("random-0", peak=40 * GIB, main=15 * GIB)
    found = Summary.of([roomy, full])
    assert found.room.cases == 1
    assert found.room.median == pytest.approx(0.1)
    assert found.room_bias == pytest.approx(0.1)


def test_tiny_programs_say_nothing_of_memory_unless_one_figure_is_large() -> None:
    tiny = case(peak=40 * MIB, main=20 * MIB)
    wrong = case("random-0", peak=100 * MIB, main=50 * MIB)
    assert Summary.of([tiny, wrong]).room.cases == 1


def test_pressed_memory_is_the_least_of_all_levels_and_of_room() -> None:
    rows = [case(main=1000), pressed(900), pressed(700, 0.4), pressed(1200, 0.7)]
    assert least_bytes(rows) == {rows[0]["key"]: 700}
    assert Summary.of(rows).squeezed == pytest.approx(0.7)
    assert least_bytes([case(main=1000), pressed(1200)]) == {rows[0]["key"]: 1000}


def test_pressed_memory_is_held_against_what_was_predicted_of_it() -> None:
    rows = [case(main=1000), pressed(800)]
    assert pressed_errors(rows) == []
    rows[0]["predicted"]["pressed_bytes"] = 1000
    assert [error for _, error in pressed_errors(rows)] == [pytest.approx(0.25)]


def test_pressing_what_has_no_room_says_nothing() -> None:
    assert least_bytes([case(main=15 * GIB), pressed(10 * GIB)]) == {}


def _sized(*, fits: bool, refused: bool, plan: str = "mcts") -> dict[str, Any]:
    refused_with = refusal(17 * GIB) if refused else None
    made = case(plan, "sized=1.05", refused=refused_with, main=14 * GIB)
    return made | {"batch": 64, "predicted": made["predicted"] | {"fits": fits}}


def test_verdicts_count_both_kinds_of_mistakes() -> None:
    rows = [
        _sized(fits=True, refused=False),
        _sized(fits=False, refused=True),
        _sized(fits=True, refused=True),
        _sized(fits=False, refused=False),
        case(main=100 * MIB),
    ]
    found = verdicts(rows)
    assert (found.cases, found.right) == (4, 2)
    assert (found.false_fits, found.false_refusals) == (1, 1)
    assert found.share == pytest.approx(0.5)


def test_programs_of_another_batch_count_for_verdicts_alone() -> None:
    found = Summary.of([_sized(fits=True, refused=False)])
    assert found.verdicts.cases == 1
    assert found.room.cases == found.wire.cases == found.time.cases == 0


def test_ranks_are_over_the_plans_of_one_program() -> None:
    seconds = [(0.1, 0.2), (0.2, 0.3), (0.3, 0.4), (0.4, 0.6), (0.5, 0.5)]
    rows = [case(f"random-{n}", seconds=both, wire=(0, 0)) for n, both in enumerate(seconds)]
    found = Summary.of(rows)
    assert found.ranked == 1
    assert found.rank_median == found.rank_least == pytest.approx(0.9)


def test_a_failed_or_stale_case_does_not_count() -> None:
    failed = {"key": f"m/infer data=8 mcts {V5E}", "model": "m/infer", "error": "late"}
    assert Summary.of([failed, case() | {"stale": True}]).cases == 0


def test_both_halves_stand_side_by_side() -> None:
    halves = {"tuning": [case(peak=110 * MIB)], "held-out": [case(peak=150 * MIB)]}
    header, rows = side_by_side(halves)
    assert header == ["", "tuning", "held-out", "wanted"]
    medians = [row for row in rows if row[3] == "6 %"]
    assert [row[1:3] for row in medians] == [["10.0 %", "50.0 %"]]
    assert "| 10.0 % | 50.0 % | 6 % |" in page_table(halves)
    assert brief_table({"train": halves}).splitlines()[2].startswith("| train | 1 | 10.0 % |")


def test_cases_are_sorted_by_what_the_compiler_lays_out() -> None:
    rows = [case(peak=110 * MIB, main=100 * MIB), case("random-0", main=3 * GIB), pressed(5 * MIB)]
    found = by_memory({"tuning": rows, "held-out": []})
    laid_out = {name: Summary.of(halves["tuning"]).room.cases for name, halves in found.items()}
    assert laid_out == {"under 256 MiB": 1, "from 256 MiB": 0, "from 1 GiB": 0, "from 2 GiB": 1}
    line = brief_table(found, MEMORY).splitlines()[2]
    assert line == "| under 256 MiB | 1 | 10.0 % | 10.0 % | 0 |  |  |"


def test_a_gap_is_a_third() -> None:
    assert is_gap(0.04, 0.08)
    assert not is_gap(0.06, 0.08)
    assert not is_gap(float("nan"), 0.1)


def test_a_curve_is_a_row_of_what_was_laid_out() -> None:
    table = curve_table([case(main=200 * MIB), pressed(150 * MIB), pressed(180 * MIB, 0.7)])
    cells = {column.header: list(column.cells) for column in table.columns}
    assert len(cells["case"]) == 1
    assert (cells["room"], cells["left 70%"], cells["left 40%"]) == (["200"], ["180"], [""])
    assert (cells["left 10%"], cells["held"], cells["predicted"]) == (["150"], ["60"], ["110"])


def test_a_step_of_which_nothing_but_copies_is_estimated_has_no_time() -> None:
    row = record(f"m data=8 mcts {V5E}")
    assert time_error(row) is not None
    row["compiled"]["cycles"] = {"copy": 10.0}
    assert time_error(row) is None
