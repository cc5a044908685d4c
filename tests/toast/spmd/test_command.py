"""`toast pipeline --form spmd` and `toast.plan_spmd`: what they write and say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import toast
from tests.toast.spmd.steps import module_of
from tests.toast.terminal import toast as command


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scanned") / "step.mlirbc"
    path.write_bytes(module_of("gpt"))
    return path


def test_one_module_is_written_and_told_of(module: Path, tmp_path: Path) -> None:
    flags = ["--mesh", "pipe=2,data=2", "--microbatches", "4", "--form", "spmd"]
    done = command("pipeline", module, *flags, "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 stages, 4 microbatches, one module" in done.stdout
    assert (tmp_path / "sharded.mlirbc").read_bytes()[:4] == b"ML\xefR"
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert [loop["ascending"] for loop in answer["loops"]] == [True, False]
    assert answer["mesh"] == "pipe=2,data=2"
    assert answer["idle"] == pytest.approx(1 / 5)


def test_more_microbatches_leave_less_idle(module: Path, tmp_path: Path) -> None:
    few, many = (
        toast.plan_spmd(module, tmp_path, mesh="pipe=4", microbatches=count) for count in (1, 8)
    )
    assert (few.idle, many.idle) == (3 / 4, 3 / 11)
    assert many.argument_bytes == few.argument_bytes
    assert few.loops[0].sent_bytes == 8 * many.loops[0].sent_bytes


def test_too_little_memory_has_an_exit_code(module: Path, tmp_path: Path) -> None:
    flags = ["--mesh", "pipe=2", "--microbatches", "4", "--form", "spmd", "--memory", "1KiB"]
    done = command("pipeline", module, *flags, "--json", "-o", tmp_path)
    assert done.returncode == 3, done.stderr
    assert not json.loads(done.stdout)["fits"]
