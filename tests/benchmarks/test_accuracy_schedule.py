"""Which cases there are, in which order, and the states that their plans stand for."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.accuracy import heldout
from benchmarks.accuracy.cases import Bench, plain, state_of
from benchmarks.accuracy.models import HELD_OUT, KEPT, REWRITTEN, SIZES, makers, module_of
from benchmarks.accuracy.plans import NEAR, near_state, near_states, state_for
from benchmarks.accuracy.schedule import PLANS, TARGETS, Case, all_cases
from toast.aot import Target
from toast.costmodel.evaluator import Action
from toast.costmodel.network.mesh import Mesh

CASES = list(all_cases())
TUNING = [case for case in CASES if case.model not in HELD_OUT]


def test_no_case_comes_twice() -> None:
    assert len({case.key for case in CASES}) == len(CASES)
    assert len(set(PLANS)) == len(PLANS)


def test_held_out_cases_come_last_and_have_files_of_their_own() -> None:
    assert CASES[: len(TUNING)] == TUNING
    apart = {case.file for case in CASES[len(TUNING) :]}
    assert all(name.startswith("heldout-") for name in apart)
    assert apart.isdisjoint(case.file for case in TUNING)
    assert not set(HELD_OUT) & set(SIZES)


def test_there_are_at_least_a_hundred_cases_and_twenty_plans_of_four_models() -> None:
    assert len(TUNING) >= 100
    v5e = [case.model for case in TUNING if case.target == "tpu-v5e:2x4"]
    assert sum(v5e.count(model) >= 20 for model in SIZES) >= 4


@pytest.mark.parametrize("target", TARGETS)
def test_half_a_run_has_half_of_every_model(target: str) -> None:
    models = [case.model for case in TUNING if case.target == target]
    half = models[: len(models) // 2]
    for model in set(models):
        assert abs(half.count(model) - models.count(model) / 2) <= 1
    assert models[0] == next(iter(SIZES))


def test_targets_take_turns() -> None:
    assert {case.target for case in TUNING[:12]} == set(TARGETS)


def test_targets_and_models_can_be_chosen() -> None:
    some = list(all_cases(("a100:8",), ("gat", "bert_cut")))
    assert {case.target for case in some} == {"a100:8"}
    assert [case.model for case in some[:1] + some[-1:]] == ["gat", "bert_cut"]
    assert len(some) == SIZES["gat"].gpu + sum(c.model == "bert_cut" for c in some)


@pytest.mark.parametrize("case", CASES[:: len(CASES) // 9], ids=lambda case: str(case.key))
def test_a_mesh_has_as_many_devices_as_its_target(case: Case) -> None:
    assert Mesh.parse(case.mesh).devices == Target.parse(case.target).devices == 8


def test_every_scheduled_model_can_be_made_and_every_held_out_one_is_kept() -> None:
    assert set(SIZES) <= set(makers()) | set(REWRITTEN)
    assert set(heldout.MAKERS) == set(HELD_OUT)
    assert {path.name for path in KEPT.iterdir()} == {f"{name}.mlirbc.xz" for name in HELD_OUT}
    assert module_of("vit_cut").startswith(b"ML\xefR")


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench.make("gat_tiny", "data=2,model=4", "tpu-v5e:2x4")


def test_plans_without_a_search(bench: Bench) -> None:
    assert state_for(bench.problem, "unsharded") == ()
    whole = bench.evaluator.cost(())
    assert bench.evaluator.cost(state_for(bench.problem, "data_parallel")).key != whole.key
    with pytest.raises(KeyError):
        state_for(bench.problem, "nonsense")


def test_random_plans_are_drawn_by_their_number(bench: Bench) -> None:
    states = [state_for(bench.problem, f"random-{n}") for n in range(6)]
    assert states == [state_for(bench.problem, f"random-{n}") for n in range(6)]
    assert len(set(states)) > 3
    for state in states:
        keys = [bench.evaluator.cost(state[:n]).key for n in range(len(state) + 1)]
        assert all(one != other for one, other in pairwise(keys))


def test_states_near_the_best_are_within_the_bound_and_differ(bench: Bench) -> None:
    best = state_for(bench.problem, "greedy")
    pool = near_states(bench.problem, best)
    fastest = min(pool)
    assert fastest <= bench.evaluator.cost(best).seconds
    for seconds, state in pool.items():
        assert bench.evaluator.cost(state).seconds == seconds
        assert seconds <= fastest * (1.0 + NEAR)
    assert len({bench.evaluator.cost(state).key for state in pool.values()}) == len(pool)


def test_numbers_near_the_best_spread_over_the_bound(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = {1.0 + 0.3 * n / 99: (Action(group=n, axis=0),) for n in range(100)}
    monkeypatch.setattr("benchmarks.accuracy.plans.near_states", lambda *_: pool)
    monkeypatch.setattr("benchmarks.accuracy.plans.state_for", lambda *_: ())
    drawn = [near_state(bench.problem, n)[0].group for n in range(12)]
    assert len(set(drawn)) == 12
    assert (min(drawn), max(drawn)) == (4, 95)


def test_states_are_json_and_back() -> None:
    state = (Action(group=3, axis=1, bits=5), Action(group=0, axis=0))
    assert state_of(json.loads(json.dumps(plain(state)))) == state


def test_kept_modules_are_small_enough_to_keep() -> None:
    assert sum(path.stat().st_size for path in Path(KEPT).iterdir()) < 2**20
