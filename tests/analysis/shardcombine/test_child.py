"""The child process: what it finds, and what it takes along when it dies."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.analysis.shardcombine.tools import files_in, one_op, ops_of, strategies
from toast.analysis.shardcombine import Discoverer
from toast.analysis.shardcombine.child import serve
from toast.analysis.shardcombine.discover import forget
from toast.analysis.shardcombine.extract import text_of
from toast.analysis.shardcombine.findings import Combine, Discovery, Finding, How
from toast.analysis.shardcombine.runner import Request
from toast.analysis.shardcombine.subprocesses import ChildRunner

TOP_K = one_op(
    "%v, %i = chlo.top_k(%0, k = 8) : tensor<64x500xf32> -> (tensor<64x8xf32>, tensor<64x8xi32>)",
    ["64x500xf32"],
)
EMPTY = Request(name="chlo.any", text="module {}")
ANSWER = json.dumps({"found": {"findings": [], "attempts": 3}})
LOOP = f"""
import json, os, sys, time
for line in sys.stdin:
    name = json.loads(line)["name"]
    if name == "abort":
        os.abort()
    if name == "hang":
        time.sleep(600)
    if name == "babble":
        print("this is no JSON", flush=True)
        continue
    print('{ANSWER}', flush=True)
"""


@pytest.fixture
def runner() -> ChildRunner:
    """A parent of a child that does as the name of the op says."""
    return ChildRunner(seconds=20, command=(sys.executable, "-c", LOOP))


def named(name: str) -> Request:
    return Request(name=name, text="")


def test_a_real_child_finds_the_rule_and_the_parent_never_starts_xla(tmp_path: Path) -> None:
    child = ChildRunner()
    with ops_of(TOP_K) as ops, Discoverer(folder=tmp_path, runner=child) as discoverer:
        found = discoverer.discovery(ops[0])
    assert found is not None
    assert strategies(found) == {(0,): ("gather 0", "gather 0")}
    assert child.started == 1


def test_one_child_serves_many_ops(runner: ChildRunner) -> None:
    for _ in range(3):
        assert runner.run(named("fine")) == Discovery(findings=(), attempts=3)
    runner.close()
    assert runner.started == 1


def test_an_abort_means_no_rule_and_a_new_child_for_the_next_op(runner: ChildRunner) -> None:
    assert runner.run(named("abort")) is None
    assert runner.run(named("fine")) is not None
    assert runner.run(named("abort")) is None
    runner.close()
    assert runner.started == 2


def test_a_child_that_is_late_is_killed() -> None:
    late = ChildRunner(seconds=0.5, start_seconds=20.0, command=(sys.executable, "-c", LOOP))
    assert late.run(named("fine")) is not None
    assert late.run(named("hang")) is None
    assert late.run(named("fine")) is not None
    late.close()
    assert late.started == 2


def test_an_answer_that_is_no_answer_means_no_rule(runner: ChildRunner) -> None:
    assert runner.run(named("babble")) is None
    assert runner.run(named("fine")) is not None
    runner.close()
    assert runner.started == 2


def test_a_command_that_does_not_start_means_no_rule() -> None:
    missing = ChildRunner(command=("/does/not/exist",))
    assert missing.run(EMPTY) is None
    missing.close()


def test_an_abort_is_remembered_on_disk(tmp_path: Path) -> None:
    aborting = ChildRunner(command=(sys.executable, "-c", "import os; os.abort()"))
    with ops_of(TOP_K) as ops:
        for _ in range(2):
            with Discoverer(folder=tmp_path, runner=aborting) as discoverer:
                assert discoverer.rule(ops[0]) is None
            forget()
    assert aborting.started == 1
    assert json.loads(files_in(tmp_path)[0].read_text()) == {"found": None}


def test_the_child_answers_line_by_line() -> None:
    hint = Finding(dims=(0,), combines=(Combine(how=How.GATHER, dim=0),) * 2)
    with ops_of(TOP_K) as ops:
        text = text_of(ops[0])
    lines = [
        {"name": "chlo.top_k", "text": text, "hints": [asdict(hint)]},
        {"name": "chlo.any", "text": "not a module", "hints": []},
    ]
    answers = io.StringIO()
    serve(io.StringIO("".join(json.dumps(line) + "\n" for line in lines)), answers)
    first, second = (json.loads(line)["found"] for line in answers.getvalue().splitlines())
    assert Discovery.from_json(first).findings == (hint,)
    assert second is None
