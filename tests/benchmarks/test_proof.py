"""The benchmark of proofs: what is run again, what becomes of a case that ends badly, the page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.accuracy.records import Record, read_records, write_records
from benchmarks.proof import checker, child, running
from benchmarks.proof.__main__ import DATA, main
from benchmarks.proof.cases import Case, every_case
from benchmarks.proof.document import report, write_page
from benchmarks.proof.running import prove_cases
from toast.verify.pair import load_pair
from toast.verify.scaling import SMALLEST
from toast.verify.stages import VerifyStages
from toast.verify.unsharded import UnshardedRuns

DOCS = Path(__file__).parents[2] / "docs"
TINY = [Case.of(f"itx tiny 2x2x2 {planner}") for planner in ("greedy", "random")]
CHILD = """
import json, os, sys, time
data, *keys = sys.argv[1:]
for key in keys:
    print(json.dumps({"event": "begin", "key": key}), flush=True)
    if "2x4" in key:
        os.abort()
    if "4x2" in key:
        time.sleep(60)
    record = {"key": key, "verdict": "equal", "why": "", "planning": "", "comparing": ""}
    print(json.dumps({"event": "proved", "record": record}), flush=True)
print(json.dumps({"event": "done"}), flush=True)
"""


def by_key(data: Path) -> dict[str, Record]:
    return {record["key"]: record for record in read_records(data)}


def test_cases_are_proved_once_and_again_when_code_changes(tmp_path: Path) -> None:
    data = tmp_path / "cases.jsonl"
    assert prove_cases(TINY, data) == 2
    first = by_key(data)
    assert [first[case.key]["verdict"] for case in TINY] == ["equal", "equal"]
    assert all(record["told"] and record["worst"]["excess"] <= 1 for record in first.values())
    assert prove_cases(TINY, data) == 0
    write_records(data, [record | {"planning": "another"} for record in first.values()])
    assert prove_cases(TINY, data, limit=1) == 1
    again = by_key(data)[TINY[0].key]
    assert again == first[TINY[0].key], "the same programs are not compared again"


def test_a_case_that_ends_its_process_or_takes_too_long_cannot_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "python_module", lambda _: [sys.executable, "-c", CHILD])
    cases = [Case(model="itx", mesh=mesh, planner="beam") for mesh in ("2x4", "4x2", "8x1")]
    data = tmp_path / "cases.jsonl"
    assert prove_cases(cases, data, case_seconds=2) == 3
    died, hung, proved = (by_key(data)[case.key] for case in cases)
    assert [died["verdict"], hung["verdict"], proved["verdict"]] == ["untold", "untold", "equal"]
    assert "aborted" in died["why"]
    assert hung["why"] == "it took more than 2 s"


def test_nothing_is_begun_when_the_time_is_over(tmp_path: Path) -> None:
    assert prove_cases(TINY, tmp_path / "cases.jsonl", seconds=0) == 0


def test_what_xla_refuses_cannot_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("no\nsuch layout")

    monkeypatch.setattr(child, "verify_pair", refuse)
    record = child.prove_one(TINY[0], tmp_path, UnshardedRuns(0), {})
    assert (record["verdict"], record["why"]) == ("untold", "XLA refuses: no")
    assert record["programs"]


def test_the_digest_is_that_of_programs_and_layouts(tmp_path: Path) -> None:
    def digest(case: Case) -> str:
        case.plan(tmp_path)
        return child.programs(load_pair(tmp_path, SMALLEST, VerifyStages(lambda _: None)))

    assert digest(TINY[0]) == digest(TINY[0])
    assert digest(TINY[0]) != digest(Case.of("itx tiny 2x4 greedy"))


def test_no_plan_is_wrong_and_the_page_says_so(tmp_path: Path) -> None:
    records = read_records(DATA)
    assert {record["key"] for record in records} <= {case.key for case in every_case()}
    assert len(list(every_case())) == 200
    assert all(record["verdict"] != "differs" for record in records)
    page = write_page(records, tmp_path)
    assert page.read_text() == (DOCS / "proof.md").read_text()


def test_a_wrong_plan_is_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = {"key": TINY[0].key, "verdict": "equal", "why": "", **checker.stamp(), "programs": ""}
    data = tmp_path / "cases.jsonl"
    write_records(data, [record])
    assert main(["report", "--data", str(data)]) == 0
    wrong = record | {"key": "t2b paper 2x4 beam", "verdict": "differs", "why": "w by far"}
    write_records(data, [record, wrong])
    assert main(["write", "--data", str(data), "--docs", str(tmp_path)]) == 1
    assert "- t2b paper 2x4 beam: **differs**, w by far" in (tmp_path / "proof.md").read_text()
    assert report([record, wrong]).startswith("2 cases: 1 equal, 1 **differs**, 0 cannot be told")
    assert "1 equal" in capsys.readouterr().out
