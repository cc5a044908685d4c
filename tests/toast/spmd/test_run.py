"""A pipeline in one module computes what the step does, and each device holds its layers alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.toast.spmd.run_child import CASES, LAID_OUT, MORE
from toast.costmodel.network.mesh import Mesh
from toast.process.runner import package_environment

FLAGS = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
HALF_PRECISION = {"bf16 and a mask": 2e-3}
"""Sums of bf16 in another order."""


def run_cases(*arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.toast.spmd.run_child", *arguments],
        env={**package_environment(), **FLAGS, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(case: str, mesh: str, found: dict[str, Any]) -> None:
    """Equal results, permutes between stages, and on each device the layers of its stage alone."""
    stages = next(axis.size for axis in Mesh.parse(mesh).axes if axis.name == "pipe")
    assert found["deviation"] < HALF_PRECISION.get(case, 5e-6)
    assert found["permutes"] >= found["loops"]
    assert found["bytes_of_stacks"] > 0
    assert found["bytes_of_parts"] <= found["bytes_of_stacks"] / stages + 64


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    found: dict[str, Any] = run_cases()
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_pipeline_makes_what_the_step_makes(outcomes: dict[str, Any], case: str) -> None:
    check(case, CASES[case][1], outcomes[case])


@pytest.mark.parametrize("case", LAID_OUT)
def test_each_device_holds_what_the_layouts_say(outcomes: dict[str, Any], case: str) -> None:
    found = outcomes[case]
    assert found["bytes_of_arguments"] <= found["bytes_by_layouts"] + 64


def test_weights_lie_over_stages_and_another_axis(outcomes: dict[str, Any]) -> None:
    weights, x = outcomes["weights over an axis"]["arguments"]
    assert (weights, x) == ([["pipe"], [], ["model"]], [["data"], []])
    assert outcomes["axes that a microbatch cannot have"]["arguments"][1] == [["data"], []]


def test_an_export_becomes_one_that_jax_calls_on_the_mesh() -> None:
    assert run_cases("export") < 5e-6


@pytest.mark.nightly
def test_models_in_more_ways_make_the_same() -> None:
    found = run_cases("more")
    for case, (_, mesh, *_) in MORE.items():
        check(case, mesh, found[case])
