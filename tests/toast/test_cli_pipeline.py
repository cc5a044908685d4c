"""`toast pipeline` as people call it, and `toast.plan_pipeline`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import toast
from tests.toast.stages.steps import text_of
from tests.toast.terminal import assert_refused
from tests.toast.terminal import toast as command
from toast.stages.files import read_pipeline


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("module") / "step.mlir"
    path.write_bytes(text_of("training"))
    return path


def test_a_pipeline_is_written_and_told_of(module: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = command("pipeline", module, "--stages", "2", "--microbatches", "4", "-o", out)
    assert done.returncode == 0, done.stderr
    assert "2 stages, 4 microbatches, 1f1b" in done.stdout
    assert "gpipe" in done.stdout
    program, schedule = read_pipeline(out)
    assert (program.stages, schedule.name) == (2, "1f1b")
    assert "a step" in (out / "timeline.html").read_text()
    assert "traceEvents" in json.loads((out / "trace.json").read_text())
    assert json.loads((out / "answer.json").read_text())["planned"] <= len(program.modules)


def test_each_stage_is_planned_on_its_mesh(module: Path, tmp_path: Path) -> None:
    answer = toast.plan_pipeline(
        module, tmp_path, stages=2, microbatches=2, mesh="data=2", schedule="interleaved",
        chunks=2, rollouts=50,
    )  # fmt: skip
    assert answer.schedule.name == "interleaved"
    assert [len(stage.layers) for stage in answer.stages] == [2, 2]
    program, _ = read_pipeline(tmp_path)
    assert program.mesh == (("data", 2),)
    laid_out = [spec for one in program.modules for spec in one.input_specs]
    assert any(("data",) in spec for spec in laid_out)


def test_too_little_memory_has_an_exit_code(module: Path, tmp_path: Path) -> None:
    flags = ["--stages", "2", "--microbatches", "4", "--memory", "1KiB", "--json"]
    done = command("pipeline", module, *flags, "-o", tmp_path)
    assert done.returncode == 3, done.stderr
    assert not json.loads(done.stdout)["schedule"]["fits"]


def test_microbatches_are_searched_where_none_are_given(module: Path, tmp_path: Path) -> None:
    done = command("pipeline", module, "--stages", "2", "--json", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["microbatches"] == answer["tried"][0]["microbatches"]
    assert read_pipeline(tmp_path)[0].microbatches == answer["microbatches"]
    assert len({one["microbatches"] for one in answer["tried"]}) > 1


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--stages", "9", "--microbatches", "2"], "4 layers cannot be cut into 9 parts"),
        (["--stages", "2", "--microbatches", "3"], "cannot be cut into 3 microbatches"),
        (["--stages", "2", "--microbatches", "2", "--schedule", "zigzag"], "schedule"),
        (["--stages", "2", "--microbatches", "some"], "'microbatches' is out of range"),
        (["--stages", "9"], "4 layers cannot be cut into 9 parts"),
        (["--stages", "2", "--microbatches", "2", "--cuts", "one"], "no numbers of layers"),
        (["--stages", "2", "--microbatches", "2", "--schedule", "interleaved"], "several chunks"),
    ],
)
def test_what_cannot_be_is_refused(
    module: Path, tmp_path: Path, flags: list[str], says: str
) -> None:
    assert_refused(command("pipeline", module, *flags, "-o", tmp_path / "out"), says)
