"""A pipeline's results are those of the step, whatever its stages and schedule."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from tests.toast.stages.run_child import CASES
from tests.toast.stages.steps import cut
from toast.analysis.errors import InvalidRequest
from toast.process.runner import package_environment
from toast.schedules.orders import make_schedule
from toast.stages.cut import Cutting
from toast.stages.files import read_pipeline, write_pipeline
from toast.stages.run import PipelineRunner, run_pipeline

FLAGS = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}


@pytest.fixture(scope="module")
def deviations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    folder = tmp_path_factory.mktemp("pipelines")
    command = [sys.executable, "-W", "error", "-m", "tests.toast.stages.run_child", str(folder)]
    done = subprocess.run(
        command,
        env={**package_environment(), **FLAGS, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_results_are_those_of_the_step(deviations: dict[str, float], case: str) -> None:
    assert deviations[case] < 1e-5


def written(folder: Path, stages: int = 2) -> Path:
    made = cut("training", Cutting(stages=stages, microbatches=2))
    write_pipeline(folder, made.program, made.texts(), make_schedule("1f1b", stages, 2))
    return folder


def test_a_folder_gives_back_what_was_written(tmp_path: Path) -> None:
    made = cut("training", Cutting(stages=2, microbatches=2))
    schedule = make_schedule("gpipe", 2, 2)
    write_pipeline(tmp_path, made.program, made.texts(), schedule)
    assert read_pipeline(tmp_path) == (made.program, schedule)


def test_too_few_devices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="2 stages of 1 need 2 devices; there are 1"):
        PipelineRunner(written(tmp_path), jax.devices()[:1])


def test_another_number_of_arguments_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, stages=1)
    with pytest.raises(InvalidRequest, match="3 arguments were given"):
        run_pipeline(folder, [1, 2, 3])


def test_an_empty_folder_is_no_pipeline(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="holds no pipeline"):
        run_pipeline(tmp_path, [])


def test_a_lost_module_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path, stages=1)
    (folder / "stage0-before.mlir").unlink()
    with pytest.raises(InvalidRequest, match=r"lacks stage0-before\.mlir"):
        run_pipeline(folder, [])


def test_a_schedule_of_another_program_is_refused(tmp_path: Path) -> None:
    made = cut("training", Cutting(stages=2, microbatches=2))
    with pytest.raises(InvalidRequest, match="schedule says microbatches 4, the program 2"):
        write_pipeline(tmp_path, made.program, made.texts(), make_schedule("1f1b", 2, 4))
