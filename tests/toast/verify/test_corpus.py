"""Plans of the models at their published sizes compute what the models do, scaled down.

The cases are those of `benchmarks.proof`: every planner plans every model for every mesh of eight
devices.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.accuracy.records import read_records
from benchmarks.proof.__main__ import DATA
from benchmarks.proof.cases import MESHES, every_case, write_plan
from benchmarks.proof.running import prove_cases
from examples.models import MODELS
from tests.toast.verify.plans import module_of
from toast.verify.verification import verify

FEW = [("mlp", "small", "2x4", "mcts"), ("itx", "tiny", "2x2x2", "greedy")]


@pytest.mark.parametrize("case", FEW, ids="-".join)
def test_a_plan_computes_the_same(case: tuple[str, str, str, str], tmp_path: Path) -> None:
    name, preset, mesh, planner = case
    result = write_plan(module_of(name, preset), tmp_path, MESHES[mesh], planner=planner)
    found = verify(tmp_path, scale=True, deadline_s=None)
    assert found.verdict == "equal"
    assert found.devices == 8
    if preset != "tiny":
        assert any(size.new < size.old for size in found.scaled)
    sharded = any(axes for tensor in result.plan.arguments for axes in tensor.spec)
    assert sharded or not found.collectives


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("model", MODELS)
def test_every_plan_computes_the_same(model: str, tmp_path: Path) -> None:
    """What is kept of equal programs counts; all others are run."""
    data = tmp_path / "cases.jsonl"
    shutil.copy(DATA, data)
    cases = [case for case in every_case() if case.model == model]
    prove_cases(cases, data)
    found = {record["key"]: record for record in read_records(data)}
    assert [found[case.key]["verdict"] for case in cases] == ["equal"] * len(cases)
    for record in (found[case.key] for case in cases):
        assert any(new < old for old, new, _ in record["sizes"])
        assert record["sharded"] or not record["collectives"]
