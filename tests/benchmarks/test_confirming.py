"""The table of confirmed plans says which are slower than a control, or refused beside one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.confirming.running import Choose, run_cases
from benchmarks.confirming.tables import report, write_page
from toast.analysis.errors import InvalidRequest
from toast.pipeline.confirm.compilations import BEATEN, NO_TIME


def plan(kind: str, step: float | None, *, fits: bool = True, chosen: bool = False) -> Any:
    compiled = {"fits": fits, "step_seconds": step}
    control = kind in ("data_parallel", "fully_sharded")
    return {"kind": kind, "control": control, "chosen": chosen, "compiled": compiled}


def record(name: str, *plans: Any) -> str:
    taken = next(row for row in plans if row["chosen"])
    confirmed = {"fits": taken["compiled"]["fits"], "plans": list(plans)}
    row = {"key": name, "model": name, "target": "tpu-v5e:2x4", "confirmed": confirmed}
    return json.dumps(row) + "\n"


def keep(folder: Path, *records: str) -> None:
    (folder / "tpu-v5e-2x4.jsonl").write_text("".join(records))


def test_a_plan_is_compared_with_the_faster_control_that_fits(tmp_path: Path) -> None:
    control = plan("data_parallel", 0.003)
    quick = plan("fully_sharded", 0.001, fits=False)
    keep(tmp_path, record("one", plan("answer", 0.002, chosen=True), control, quick))
    text = report(tmp_path)
    assert "| 2.00 | data_parallel | 3.00 | 0.667 | fully_sharded |" in text
    assert "slower than the best control: none" in text


def test_what_is_slower_or_refused_is_named(tmp_path: Path) -> None:
    control = plan("data_parallel", 0.003)
    slow = record("slow", plan("answer", 0.004, chosen=True), control)
    refused = record("refused", plan("answer", None, fits=False, chosen=True), control)
    keep(tmp_path, slow, refused)
    text = report(tmp_path)
    assert "slower than the best control: slow;" in text
    assert "refused where a control fits: refused;" in text


def test_controls_that_cannot_be_faster_need_no_time(tmp_path: Path) -> None:
    beaten = plan("data_parallel", None) | {"note": BEATEN}
    late = plan("fully_sharded", None) | {"note": NO_TIME}
    answer = plan("answer", 0.002, chosen=True)
    alone = record("alone", answer)
    keep(tmp_path, record("beaten", answer, beaten), record("late", answer, beaten, late), alone)
    text = report(tmp_path)
    assert "| beaten | tpu-v5e:2x4 | 2.00 | answer | 2.00 | none can be |" in text
    assert "| late | tpu-v5e:2x4 | 2.00 | answer | 2.00 |  |" in text
    assert "| alone | tpu-v5e:2x4 | 2.00 | answer | 2.00 |  |" in text


def test_what_our_own_plan_took_is_said_where_a_control_is_taken(tmp_path: Path) -> None:
    control = plan("data_parallel", 0.003, chosen=True)
    keep(tmp_path, record("one", plan("answer", 0.004), control))
    assert "| 4.00 | data_parallel | 3.00 | data_parallel | 3.00 | 1.000 |" in report(tmp_path)


def test_the_page_keeps_what_is_around_the_table(tmp_path: Path) -> None:
    keep(tmp_path, record("one", plan("answer", 0.002, chosen=True)))
    page = tmp_path / "confirm.md"
    page.write_text("# Title\n\ntext\n")
    write_page(tmp_path, tmp_path)
    once = page.read_text()
    assert once.startswith("# Title\n\ntext\n")
    assert "| one |" in once
    write_page(tmp_path, tmp_path)
    assert page.read_text() == once


def test_an_unknown_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="nothing: no such program"):
        run_cases(Choose(only=("nothing",)), tmp_path)


def test_a_program_of_the_zoo_that_is_not_lowered_leaves_no_record(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="nothing/train is not lowered"):
        run_cases(Choose(only=("nothing/train",)), tmp_path)
    assert not list(tmp_path.iterdir())
