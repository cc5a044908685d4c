"""Cases in order, planned and compiled once; the peer in a process that may hang or fail."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks import command as shared
from benchmarks.accuracy import running as compiling
from benchmarks.accuracy.records import Record, read_records
from benchmarks.accuracy.schedule import Case
from benchmarks.planners import __main__ as program
from benchmarks.planners import peer, running
from benchmarks.planners.cases import MESHES, OTHERS, PEERS, Choose
from benchmarks.planners.models import Model
from benchmarks.planners.running import PLAN_SECONDS, Limits, by_planner, run_cases
from examples import mlp
from toast.analysis.errors import EngineCrashed
from toast.aot import Memory, Target, Verdict
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.plan_module import make_plan
from toast.plans.result import PlanResult
from toast.request.request import PlanRequest

KNOWN = {
    "small": Model(family="mlp", make=partial(mlp.make_step, mlp.PRESETS["small"]), peer=True),
    "large": Model(
        family="mlp", make=partial(mlp.make_step, mlp.PRESETS["small"]), full=True, peer=True
    ),
}
WIDE = MESHES[0]


def case(plan: str, mesh: str = WIDE, target: str = "tpu-v5e:2x4") -> Case:
    return Case(model="small", mesh=mesh, plan=plan, target=target)


@dataclass
class Compiler:
    """Stands in for the compiler and counts."""

    compiled: list[bytes] = field(default_factory=list)
    refuses: bool = False
    deadlines: set[float] = field(default_factory=set)
    memory_only: list[bool] = field(default_factory=list)

    def judge(self, module: bytes, target: Target, mesh: Mesh, **options: Any) -> Verdict:
        self.compiled.append(module)
        self.deadlines.add(options["deadline_s"])
        alone = options["memory_only"]
        self.memory_only.append(alone)
        if self.refuses:
            raise EngineCrashed("a failed check")
        memory = Memory(argument=1, output=2, temp=3, alias=0, peak=4)
        return Verdict(
            target=str(target),
            devices=mesh.devices,
            memory=memory,
            compute_seconds=None if alone else 0.1,
            memory_only=alone,
        )


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    stand_in = Compiler()
    monkeypatch.setattr(compiling, "judge", stand_in.judge)
    monkeypatch.setattr(running, "models", lambda: KNOWN)
    return stand_in


def rows(folder: Path) -> list[Record]:
    return read_records(folder / "tpu-v5e-2x4.jsonl")


LIMITS = Limits(compile=7.0, peer=8.0)


def test_ours_and_layouts_by_hand_come_first_then_the_peer_then_the_others() -> None:
    cases = list(Choose(known=KNOWN, meshes=[WIDE]).cases())
    plans = [one.plan for one in cases if one.model == "small"]
    assert plans[0] == "mcts"
    assert all(plan.startswith("manual:") for plan in plans[1:6])
    assert plans[6:] == [*PEERS, *OTHERS]
    models = [one.model for one in cases]
    assert models == sorted(models, reverse=True)  # the full ones last


def test_the_peer_is_asked_on_its_own_target_alone() -> None:
    chosen = Choose(known=KNOWN, targets=["a100:8"])
    assert not {one.plan for one in chosen.cases()} & set(PEERS)


def test_a_choice_bounds_what_is_run_and_names_what_it_does_not_know() -> None:
    chosen = Choose(known=KNOWN, models=["small"], meshes=MESHES[1:2], plans=["manual:", "ilp"])
    cases = list(chosen.cases())
    assert {one.mesh for one in cases} == {MESHES[1]}
    assert len(cases) == 6
    one = Choose(known=KNOWN, models=["small"], plans=["manual:fsdp"])
    assert [(found.mesh, found.plan) for found in one.cases()] == [
        (mesh, "manual:fsdp") for mesh in MESHES
    ]
    assert one.unknown() == []
    assert chosen.unknown() == []
    wrong = Choose(known=KNOWN, models=["huge"], plans=["luck"], targets=["abacus:8"])
    assert wrong.unknown() == ["abacus:8", "huge", "luck"]


def test_a_case_is_planned_priced_and_compiled_once(compiler: Compiler, tmp_path: Path) -> None:
    cases = [case("mcts"), case("manual:data")]
    assert run_cases(cases, tmp_path, limits=LIMITS) == 2
    ours, hand = rows(tmp_path)
    assert ours["plan_seconds"] > 0
    assert hand["plan_seconds"] is None
    assert len(hand["state"]) == 2
    assert {axis for _, axis in ours["decisions"]} == {"data", "model"}
    assert ours["predicted"]["peak_bytes"] > 0
    assert compiler.deadlines == {7.0}
    assert run_cases(cases, tmp_path, limits=LIMITS) == 0
    assert len(compiler.compiled) == 2


def test_a_refined_plan_is_ours_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[PlanRequest] = []

    def plan(module: bytes, request: PlanRequest) -> PlanResult:
        asked.append(request)
        return make_plan(module, request)

    monkeypatch.setattr(running, "make_plan", plan)
    for name in ("mcts", "refined", "greedy"):
        by_planner(KNOWN["small"].module(), case(name))
    assert [(one.planner, one.refine) for one in asked] == [
        ("mcts", False),
        ("mcts", True),
        ("greedy", False),
    ]
    assert [one.budget for one in asked] == [None, None, PLAN_SECONDS]


def test_a_module_that_another_plan_had_is_not_compiled_again(
    compiler: Compiler, tmp_path: Path
) -> None:
    run_cases([case("mcts")], tmp_path, limits=LIMITS)
    assert run_cases([case("mcts")], tmp_path, limits=LIMITS, again=["mcts"]) == 0
    (row,) = rows(tmp_path)
    assert row["same_as"] == row["key"]
    assert row["compiled"]["compute_seconds"] == 0.1
    assert len(compiler.compiled) == 1


def test_a_compile_that_fails_is_a_record_that_is_tried_again_when_asked(
    compiler: Compiler, tmp_path: Path
) -> None:
    compiler.refuses = True
    run_cases([case("mcts")], tmp_path, limits=LIMITS)
    assert rows(tmp_path)[0]["error"] == "engine_crashed: a failed check"
    compiler.refuses = False
    assert run_cases([case("mcts")], tmp_path, limits=LIMITS) == 0
    assert run_cases([case("mcts")], tmp_path, limits=LIMITS, failed=True) == 1
    assert "error" not in rows(tmp_path)[0]
    assert run_cases([case("mcts")], tmp_path, limits=LIMITS, failed=True) == 0


HLO = """\
HloModule m, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %r = f32[8]{0} all-reduce(%p), replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=%add, \
backend_config={"estimated_cycles":"1503"}
}
"""


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """A program in the place of the peer's python: `body` runs with DIR as `directory`."""
    script = tmp_path / "peer"
    head = f"#!{sys.executable}\nimport sys, json, time, pathlib\n"
    script.write_text(f"{head}directory = pathlib.Path(sys.argv[-1])\n{body}")
    script.chmod(0o755)
    monkeypatch.setattr(peer, "made", lambda *_: script)


ANSWER = f"""
job = json.loads((directory / "job.json").read_text())
assert job["mesh"] == [["data", 2], ["model", 4]], job
assert job["budget_gb"] == 14 and job["topology"] == "v5e:2x4" and job["model"] == "small", job
(directory / "compiled.hlo").write_text({HLO!r})
memory = dict(argument=1, output=2, temp=3, alias=0, peak=0, code=0, main=None, on_chip=None)
answer = dict(seconds=2.5, memory=memory, layout=["P('data')"])
(directory / "answer.json").write_text(json.dumps(answer))
"""


def test_what_the_peer_compiled_is_read_like_any_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, ANSWER)
    record = peer.compiled(case("xla-auto"), 30.0, tmp_path / "hlo")
    verdict = Verdict.from_dict(record["compiled"])
    assert [row.axes for row in verdict.collectives] == [("data", "model")]
    assert verdict.compute_seconds == pytest.approx(1503 / (197e12 / (4 * 32768)))
    assert verdict.compile_seconds == 2.5
    assert verdict.needed_bytes == 6
    assert record["layout"] == ["P('data')"]
    assert (tmp_path / "hlo").exists()


def test_a_peer_that_does_not_finish_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "time.sleep(60)")
    record = peer.compiled(case("xla-auto"), 0.3)
    assert record["error"] == "did not finish in 0 s"
    assert "compiled" not in record
    assert record["plan_seconds"] < 30


def test_a_peer_that_fails_has_its_last_words_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "print('RESOURCE_EXHAUSTED: too much')\nsys.exit('bye')")
    record = peer.compiled(case("xla-auto-unbounded"), 30.0)
    assert record["error"] == "ended with 1: RESOURCE_EXHAUSTED: too much"


def test_all_is_every_step_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[list[str]] = []

    def rerun(arguments: list[str], program: str) -> int:
        assert program == "benchmarks.planners"
        steps.append(arguments)
        return 0

    monkeypatch.setattr(shared, "rerun", rerun)
    assert program.main(["all", "--limit", "2"]) == 0
    assert steps == [[name, "--limit", "2"] for name in ("run", "report", "write")]


def test_unknown_names_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["run", "--models", "nonsense"]) == 2
    assert "unknown: nonsense" in capsys.readouterr().err


def test_what_was_compiled_for_its_memory_alone_is_compiled_for_its_time_later(
    compiler: Compiler, tmp_path: Path
) -> None:
    one = [case("manual:data")]
    alone = Limits(compile=7.0, peer=8.0, memory_only=True)
    assert run_cases(one, tmp_path, limits=alone) == 1
    assert run_cases(one, tmp_path, limits=alone) == 0
    assert run_cases(one, tmp_path, limits=LIMITS) == 1
    assert run_cases(one, tmp_path, limits=alone) == 0
    assert compiler.memory_only == [True, False]
    (row,) = rows(tmp_path)
    assert row["compiled"]["compute_seconds"] == 0.1


def test_a_gpu_compiler_is_not_ended_early(compiler: Compiler, tmp_path: Path) -> None:
    run_cases([case("manual:data", target="a100:8")], tmp_path, limits=Limits(memory_only=True))
    assert compiler.memory_only == [False]
