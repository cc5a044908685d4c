"""Who is ahead, how often and by how much; tables, plot and page say it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy.records import Record, write_records
from benchmarks.planners import document, tables
from benchmarks.planners.plots import draw, points
from benchmarks.planners.results import Fits, Match, Result, Summary, matches_of
from tests.benchmarks.accuracy_samples import GIB, MIB, record, refusal

WIDE = "data=2,model=4"


def plan(
    name: str, seconds: float | None, model: str = "mlp", mesh: str = WIDE, **changes: Any
) -> Record:
    """A plan that takes so long; None: it is refused."""
    key = f"{model} {mesh} {name} tpu-v5e:2x4"
    refused = refusal(20 * GIB) if seconds is None else None
    row = record(key, wire=(0.0, 0.0), seconds=(1.0, seconds or 1.0), refused=refused)
    return row | {"plan_seconds": 0.5} | changes


def late(name: str, model: str = "mlp") -> Record:
    row = plan(name, 1.0, model)
    del row["compiled"]
    return row | {"error": "did not finish in 400 s", "plan_seconds": 400.0}


def match(*records: Record) -> Match:
    (found,) = matches_of(records)
    return found


def test_the_rival_is_the_best_by_hand_or_of_the_peer() -> None:
    by_hand = plan("manual:data", 0.5), plan("manual:fsdp", 0.4)
    found = match(plan("mcts", 0.3), *by_hand, plan("xla-auto", 0.6), plan("greedy", 0.1))
    assert found.rival is not None
    assert found.rival.plan == "manual:fsdp"
    assert found.ratio == pytest.approx(0.75)
    faster = match(plan("mcts", 0.3), *by_hand, plan("xla-auto", 0.2))
    assert faster.ratio == pytest.approx(1.5)


def test_what_does_not_fit_is_no_rival() -> None:
    found = match(plan("mcts", 0.3), plan("manual:data", None), late("xla-auto"))
    assert found.rival is None
    assert found.ratio is None
    assert not found.alone_too_large


def test_a_plan_that_alone_does_not_fit_has_lost() -> None:
    found = match(plan("mcts", None), plan("manual:data", 0.5))
    assert found.ratio == math.inf
    assert found.alone_too_large
    assert not match(plan("mcts", None), plan("manual:data", None)).alone_too_large


def test_an_unfinished_plan_of_ours_has_lost_and_is_not_called_too_large() -> None:
    found = match(late("mcts"), plan("manual:data", 0.5))
    assert found.ratio == math.inf
    assert not found.alone_too_large


def test_targets_without_times_are_compared_by_memory_alone(tmp_path: Path) -> None:
    rows = [
        record(f"mlp {WIDE} {name} a100:8", main=size)
        for name, size in (("mcts", 9 * GIB), ("manual:data", 8 * GIB))
    ]
    write_records(tmp_path / "a.jsonl", rows)
    matches = tables.read_matches(tmp_path)
    assert len(tables.summary(matches).splitlines()) == 2
    assert len(tables.ahead(matches).splitlines()) == 2
    assert tables.fitting(matches).endswith("| a100:8 | 1 | 1 | 1 | 0 |")
    assert "| 9,216 | 8,192 (data) |" in tables.memory(matches)


def test_a_summary_counts_and_takes_the_geometric_mean() -> None:
    matches = matches_of(
        [
            *(plan("mcts", 0.2, "a"), plan("manual:x", 0.4, "a")),
            *(plan("mcts", 0.8, "b"), plan("manual:x", 0.4, "b")),
            *(plan("mcts", 0.4, "c"), plan("manual:x", 0.4, "c")),
            *(plan("mcts", None, "d"), plan("manual:x", 0.4, "d")),
            plan("mcts", 0.4, "e"),
        ]
    )
    found = Summary.of(matches)
    assert (found.compared, found.won, found.clear) == (4, 2, 1)
    assert found.mean == pytest.approx(1.0)
    assert math.isnan(Summary.of([]).mean)
    fits = Fits.of([*matches, match(late("mcts"), plan("manual:x", 0.4))])
    assert (fits.cases, fits.ours, fits.rivals, fits.too_large) == (5, 4, 4, 1)


def test_a_record_without_times_keeps_its_memory() -> None:
    row = plan("mcts", 1.0)
    row["compiled"]["compute_seconds"] = None
    result = Result.of(row)
    assert (result.seconds, result.fits, result.runs) == (None, True, False)
    assert result.bytes == 100 * 2**20
    assert result.plan_seconds == 0.5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        plan("mcts", 0.4),
        plan("manual:megatron", 0.3),
        plan("xla-auto", 0.8),
        plan("beam", 0.5),
        late("ilp"),
        plan("mcts", 0.2, "gns_2"),
        plan("manual:edges", 0.4, "gns_2"),
        late("xla-auto", "gns_2"),
        plan("random", None, "gns_2"),
    ]
    write_records(tmp_path / "tpu-v5e-2x4.jsonl", rows)
    return tmp_path


def test_the_tables_name_winners_losses_and_what_failed(folder: Path) -> None:
    text = tables.report(folder)
    assert "| tpu-v5e:2x4 | mlp | 1 | 0 | 0 | 1.333 |" in text
    assert "| tpu-v5e:2x4 | all | 2 | 1 | 1 | 0.816 |" in text
    assert "mlp data=2,model=4: megatron 300.00 ms, ours 400.00 ms (1.333)" in text
    first, second = (
        [cell.strip() for cell in line.split("|")[4:-1]]
        for line in tables.ahead(tables.read_matches(folder)).splitlines()[2:]
    )
    others = ["", "", "500.00", "not finished", ""]
    assert first == ["400.00", "300.00 (megatron)", "800.00", "1.333", *others]
    assert second[:4] == ["200.00", "400.00 (edges)", "not finished", "0.500"]
    assert second[4:] == ["", "", "", "", "too large"]


def test_an_unfinished_plan_of_ours_is_called_so(tmp_path: Path) -> None:
    write_records(tmp_path / "a.jsonl", [late("mcts"), plan("manual:data", 0.5)])
    (line,) = tables.ahead(tables.read_matches(tmp_path)).splitlines()[2:]
    cells = [cell.strip() for cell in line.split("|")[4:8]]
    assert cells == ["not finished", "500.00 (data)", "", "not finished"]


def test_memory_is_set_beside_the_least_of_rivals(tmp_path: Path) -> None:
    small = record("mlp data=2,model=4 manual:fsdp tpu-v5e:2x4", main=70 * MIB)
    rows = [plan("mcts", 0.5), plan("manual:data", None), small, plan("greedy", 0.1)]
    write_records(tmp_path / "a.jsonl", rows)
    (line,) = tables.memory(tables.read_matches(tmp_path)).splitlines()[2:]
    assert line.endswith("| 100 | 70 (fsdp) | data |")
    refused = [plan("mcts", None)]
    write_records(tmp_path / "a.jsonl", refused)
    (line,) = tables.memory(tables.read_matches(tmp_path)).splitlines()[2:]
    assert line.endswith("| 20,480, too large |  |  |")


def test_every_plan_has_a_line_fastest_first(folder: Path) -> None:
    lines = tables.every(tables.read_matches(folder)).splitlines()[2:]
    names = [line.split(" | ")[3] for line in lines]
    assert names == [
        *("megatron", "mcts", "beam", "xla-auto", "ilp"),
        *("mcts", "edges", "random", "xla-auto"),
    ]
    assert lines[4].endswith("| did not finish in 400 s |")


def test_programs_stand_in_the_order_of_their_list(tmp_path: Path) -> None:
    rows = [plan("mcts", 0.2, model) for model in ("unet", "nobody", "gns_2", "mlp")]
    write_records(tmp_path / "a.jsonl", rows)
    places = [found.place[1] for found in tables.read_matches(tmp_path)]
    assert places == ["mlp", "gns_2", "unet", "nobody"]


def test_nothing_compiled_is_said(tmp_path: Path) -> None:
    assert tables.report(tmp_path) == "No case has been compiled yet."
    assert draw([], tmp_path / "a.svg") is None


def test_points_are_relative_to_ours(folder: Path) -> None:
    found = points(tables.read_matches(folder))
    assert [number for number, _ in found["hand"]] == [0, 1]
    assert [ratio for _, ratio in found["hand"]] == pytest.approx([0.75, 2.0])
    assert [ratio for _, ratio in found["peer"]] == pytest.approx([2.0])
    assert [ratio for _, ratio in found["other"]] == pytest.approx([1.25])


def test_the_section_of_the_page_is_replaced_and_the_rest_kept(folder: Path) -> None:
    docs = folder / "docs"
    docs.mkdir()
    page = docs / "planners.md"
    page.write_text("# Planners\n\nBefore.\n")
    assert document.write_page(folder, docs) == [page, docs / document.PLOT]
    first = page.read_text()
    assert first.startswith("# Planners\n\nBefore.\n\n" + document.BEGIN)
    assert "| mlp | data=2,model=4 |" in first
    page.write_text(first + "\nAfter.\n")
    drawn = (docs / document.PLOT).read_bytes()
    document.write_page(folder, docs)
    assert page.read_text() == first + "\nAfter.\n"
    assert (docs / document.PLOT).read_bytes() == drawn
