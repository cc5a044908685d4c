"""Several searches of one job: here one after another, elsewhere at once; the best plan wins."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests import ray_cluster
from tests.modules import text
from tests.ray_cluster import RayCluster
from toast.pipeline import plan_module
from toast.pipeline.helpers import HelperAnswer, Helpers, start_helpers
from toast.pipeline.plan_module import make_plan
from toast.plans.plan import Plan
from toast.request.request import PlanRequest

MODULE = text("mlp")


def request(**changes: Any) -> PlanRequest:
    settings = {"mesh": "data=2,model=2", "rollouts": 60, "threads": 1, "advice": False}
    return PlanRequest(**settings | changes)


def plan(**changes: Any) -> Plan:
    return make_plan(MODULE, request(**changes)).plan


def test_the_best_of_several_seeds_is_taken() -> None:
    # So few rollouts that seeds differ, and that the last is the best.
    alone = [plan(seed=seed, planner="random", rollouts=3) for seed in (5, 6, 7)]
    costs = [one.search.cost for one in alone]
    assert costs[2] < min(costs[:2])
    together = plan(seed=5, searches=3, planner="random", rollouts=3)
    assert together.search.cost <= min(costs)
    assert together.search.searches == 3
    assert together.search.rollouts == sum(one.search.rollouts for one in alone)


@dataclass
class Found(Helpers):
    """Searches elsewhere that are over."""

    found: list[HelperAnswer]

    def answers(self, cancelled: Callable[[], bool]) -> list[HelperAnswer]:
        return [] if cancelled() else self.found


def answer_of(found: Plan) -> HelperAnswer:
    return HelperAnswer.of(found.model_dump(mode="json"))


def helped(monkeypatch: pytest.MonkeyPatch, *found: HelperAnswer, **changes: Any) -> Plan:
    helpers = Found(ray=None, hosts=[], runs=[], found=list(found))
    monkeypatch.setattr(plan_module, "start_helpers", lambda *_: helpers)
    return plan(**changes)


def test_a_better_plan_from_elsewhere_is_taken_and_a_worse_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    poor = plan(planner="random", rollouts=1)
    good = plan()
    assert good.search.cost < poor.search.cost
    taken = helped(monkeypatch, answer_of(good), planner="random", rollouts=1)
    assert taken.search.cost == pytest.approx(good.search.cost)
    assert [one.colour for one in taken.decisions] == [one.colour for one in good.decisions]
    kept = helped(monkeypatch, answer_of(poor), answer_of(poor))
    assert kept.search.cost == pytest.approx(good.search.cost)
    assert kept.search.searches == 3


def test_another_search_may_take_another_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    best = plan(mesh="auto:4")
    poor = plan(mesh="auto:4", planner="random", rollouts=1)
    taken = helped(monkeypatch, answer_of(best), mesh="auto:4", planner="random", rollouts=1)
    assert best.predicted.step_seconds < poor.predicted.step_seconds
    assert taken.predicted.step_seconds == pytest.approx(best.predicted.step_seconds)
    assert taken.mesh == best.mesh


def test_without_a_cluster_nothing_runs_elsewhere() -> None:
    assert start_helpers(MODULE, request(searches=3), None) is None


needs_ray = pytest.mark.skipif(
    ray_cluster.missing() is not None, reason=ray_cluster.missing() or ""
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """A cluster of two nodes."""
    with ray_cluster.ray_cluster(1, 1) as running:
        yield running


@needs_ray
@pytest.mark.parametrize("lost", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_searches_run_on_nodes_and_a_lost_node_costs_one_at_most(
    cluster: RayCluster, lost: bool
) -> None:
    script = SPREAD.format(address=cluster.address)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ray_cluster.ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        if lost:
            cluster.kill(0)
        said = [line for line in process.stdout if line.startswith("searches")]
        assert process.wait() == 0
    assert said in ([["searches 2\n"], ["searches 3\n"]] if lost else [["searches 3\n"]])


SPREAD = """
import toast.pipeline.plan_module as pipeline
from tests.modules import text
from toast.process.limits import ClusterShare
from toast.request.request import PlanRequest

begin = pipeline.start_helpers

def started(*given):
    found = begin(*given)
    print("started", flush=True)
    return found

pipeline.start_helpers = started
cluster = ClusterShare(address="{address}")
request = PlanRequest(mesh="data=2,model=2", rollouts=60, threads=1, searches=3, advice=False)
plan = pipeline.make_plan(text("mlp"), request, cluster=cluster).plan
print("searches", plan.search.searches)
"""
