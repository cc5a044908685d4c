"""Plans of the models at their published sizes compute what the models do, scaled down.

Every planner plans every model for every mesh of eight devices. XLA partitions each plan for eight
virtual CPU devices, and its results are compared with the unsharded ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.models import MODELS
from tests.toast.verify.plans import module_of, planned
from toast.search.planners import PLANNERS
from toast.verify.verification import verify

MESHES = {
    "2x4": "data=2,model=4",
    "4x2": "data=4,model=2",
    "2x2x2": "pod=2,data=2,model=2",
    "8x1": "data=8,model=1",
    "1x8": "data=1,model=8",
}
FEW = [("mlp", "small", "2x4", "mcts"), ("itx", "tiny", "2x2x2", "greedy")]


def every_case() -> Iterator[tuple[str, str, str, str]]:
    """Model, preset, mesh, planner."""
    for name in MODELS:
        for mesh in MESHES:
            for planner in sorted(PLANNERS):
                yield name, "paper", mesh, planner


def check(case: tuple[str, str, str, str], directory: Path) -> None:
    name, preset, mesh, planner = case
    result = planned(module_of(name, preset), directory, MESHES[mesh], planner=planner)
    found = verify(directory, scale=True, deadline_s=None)
    assert found.verdict == "equal"
    assert found.devices == 8
    if preset != "tiny":
        assert any(size.new < size.old for size in found.scaled)
    sharded = any(axes for tensor in result.plan.arguments for axes in tensor.spec)
    assert sharded or not found.collectives


@pytest.mark.parametrize("case", FEW, ids="-".join)
def test_a_plan_computes_the_same(case: tuple[str, str, str, str], tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", list(every_case()), ids="-".join)
def test_every_plan_computes_the_same(case: tuple[str, str, str, str], tmp_path: Path) -> None:
    check(case, tmp_path)
