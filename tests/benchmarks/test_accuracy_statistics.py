"""The accuracy benchmark: its cases resume, and its figures are what they say."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy.cases import Case, all_cases, plain, state_of
from benchmarks.accuracy.report import report
from benchmarks.accuracy.running import read_records, run_cases, write_records
from benchmarks.accuracy.statistics import (
    memory_error,
    quantile,
    spearman,
    step_seconds,
    wire_error,
    within,
)
from costmodel.evaluator import Action
from toast.judge import Collective, Memory, Verdict

MIB = 2**20


def record(key: str = "m data=8 mcts tpu-v5e:2x4", **changes: Any) -> dict[str, Any]:
    verdict = Verdict(
        target="tpu-v5e:2x4",
        devices=8,
        memory=Memory(argument=60 * MIB, output=50 * MIB, temp=40 * MIB, alias=50 * MIB, peak=0),
        collectives=(
            Collective(
                kind="all_gather",
                axes=("data",),
                group_size=8,
                count=2,
                result_bytes=9e8,
                wire_bytes=9e8,
            ),
        ),
        compute_seconds=0.5,
    )
    row = {"kind": "all_gather", "axes": ["data"], "count": 2, "bytes": 9.9e8, "seconds": 0.011}
    predicted = {
        "compute_seconds": 0.4,
        "communication_seconds": 0.011,
        "peak_bytes": 110 * MIB,
        "fits": True,
        "collectives": [row],
    }
    fields = {
        "key": key,
        "model": "m",
        "mesh": "data=8",
        "plan": "mcts",
        "target": "tpu-v5e:2x4",
        "state": [],
        "predicted": predicted,
        "compiled": json.loads(json.dumps(verdict.to_dict())),
    }
    return fields | changes


def test_errors_of_one_case() -> None:
    assert memory_error(record()) == pytest.approx(0.1)
    assert wire_error(record()) == pytest.approx(0.1)
    times = step_seconds(record())
    assert times is not None
    assert times[0] == pytest.approx(0.411)
    assert times[1] == pytest.approx(0.5 + 9e8 / 9e10, rel=1e-2)


def test_traffic_that_is_next_to_nothing_has_no_error() -> None:
    quiet = record()
    quiet["predicted"]["collectives"] = []
    quiet["compiled"]["collectives"] = []
    assert wire_error(quiet) is None


def test_rank_correlation() -> None:
    assert spearman([1.0, 2.0, 3.0], [10.0, 20.0, 30.0]) == pytest.approx(1.0)
    assert spearman([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == pytest.approx(-1.0)
    assert spearman([1.0, 1.0, 2.0, 3.0], [5.0, 5.0, 6.0, 7.0]) == pytest.approx(1.0)
    assert math.isnan(spearman([1.0, 2.0], [1.0, 2.0]))
    assert math.isnan(spearman([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]))


def test_quantiles_are_of_absolute_values() -> None:
    assert quantile([-0.2, 0.1, 0.0], 0.5) == pytest.approx(0.1)
    assert within([-0.2, 0.1, 0.0], 0.15) == pytest.approx(2 / 3)
    assert math.isnan(quantile([], 0.5))
    assert math.isnan(within([], 0.5))


def test_a_torn_line_is_no_case_and_a_later_line_counts(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    write_records(path, [record("a"), record("b"), record("a", plan="greedy")])
    with path.open("a") as file:
        file.write('{"key": "c", "mod')
    found = {row["key"]: row["plan"] for row in read_records(path)}
    assert found == {"a": "greedy", "b": "mcts"}


def test_cases_that_are_done_are_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    case = Case(model="nothing", mesh="data=8", plan="mcts", target="tpu-v5e:2x4")
    write_records(path, [record(case.key)])
    assert run_cases([case], path, limit=None, seconds=None, hlo=None) == 0


def test_a_limit_of_nothing_runs_nothing(tmp_path: Path) -> None:
    cases = all_cases(["nothing"], 2, "tpu-v5e:2x4")
    assert run_cases(cases, tmp_path / "cases.jsonl", limit=0, seconds=None, hlo=None) == 0


def test_every_model_is_met_on_every_mesh_and_unsharded_once() -> None:
    cases = list(all_cases(["a", "b"], 3, "tpu-v5e:2x4"))
    assert len({case.key for case in cases}) == len(cases) == 2 * (4 * 6 + 1)
    assert [case.plan for case in cases if case.mesh == "data=8"].count("unsharded") == 2


def test_states_are_json_and_back() -> None:
    state = (Action(group=3, axis=1, bits=5), Action(group=0, axis=0))
    assert state_of(json.loads(json.dumps(plain(state)))) == state


def test_the_report_leaves_out_what_is_stale_and_names_what_failed() -> None:
    rows = [
        record("first"),
        record("second", stale=True),
        {"key": "third", "model": "m", "error": "engine_crashed: boom"},
    ]
    text = report(rows, verbose=True)
    assert "| m | 1 | 10.0% | 10.0% | 100%" in text
    assert "second" not in text
    assert "- third: engine_crashed: boom" in text
    assert "0 of 1 cases refused" in text
    assert report([]) == "No case has been compiled yet."


def test_a_refused_case_that_was_said_to_fit_is_named() -> None:
    row = record()
    row["compiled"] |= {
        "memory": None,
        "refusal": {"message": "no", "needed": 200 * MIB, "available": 100 * MIB},
    }
    text = report([row])
    assert "1 of 1 cases refused by the compiler, 1 of them predicted to fit" in text
    assert "- m data=8 mcts" in text
