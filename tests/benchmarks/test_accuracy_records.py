"""Files of cases: torn lines, what is left out, and the held-out models apart."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.accuracy.records import (
    append_record,
    compiled,
    held_out,
    read_records,
    tuning,
    write_records,
)
from tests.benchmarks.accuracy_samples import record


def of(plan: str) -> str:
    return f"m data=8 {plan} tpu-v5e:2x4"


def test_a_torn_line_is_no_case_and_a_later_line_counts(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    write_records(path, [record(of("a")), record(of("b")), record(of("a"), state=[[1, 0, 0]])])
    with path.open("a") as file:
        file.write('{"key": "c", "mod')
    found = {row["plan"]: row["state"] for row in read_records(path)}
    assert found == {"a": [[1, 0, 0]], "b": []}


def test_a_line_after_a_torn_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(record(of("a"))) + '\n{"key": "b", "mod')
    append_record(path, record(of("c")))
    append_record(path, record(of("d")))
    assert [row["plan"] for row in read_records(path)] == ["a", "c", "d"]


def test_a_file_that_is_not_there_or_empty_has_no_cases(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    assert read_records(path) == []
    path.write_text("")
    append_record(path, record(of("a")))
    assert path.read_text().count("\n") == 1
    assert len(read_records(path)) == 1


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    write_records(path, [record(of("a")), record(of("b"))])
    write_records(path, [record(of("c"))])
    assert [row["plan"] for row in read_records(path)] == ["c"]
    assert list(tmp_path.iterdir()) == [path]


def test_held_out_cases_are_never_among_those_for_tuning(tmp_path: Path) -> None:
    write_records(tmp_path / "tpu-v5e-2x4.jsonl", [record(of("a"))])
    write_records(tmp_path / "a100-8.jsonl", [record(of("b"))])
    write_records(tmp_path / "heldout-tpu-v5e-2x4.jsonl", [record(of("c"))])
    assert [row["plan"] for row in tuning(tmp_path)] == ["b", "a"]
    assert [row["plan"] for row in held_out(tmp_path)] == ["c"]


def test_only_fresh_compiled_cases_count() -> None:
    rows = [record(of("a")), record(of("b"), stale=True), {"key": of("c"), "error": "boom"}]
    assert [row["plan"] for row in compiled(rows)] == ["a"]
