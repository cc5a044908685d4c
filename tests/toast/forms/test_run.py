"""Each form as its user runs it: through `jax.export`, and by the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples import forms, mlp
from tests.toast.planned import request
from tests.toast.terminal import assert_refused, toast
from toast.analysis.errors import InvalidRequest
from toast.analysis.forms import Form, decode, detect
from toast.pipeline.plan_module import make_plan
from toast.request.request import FormName
from toast.request.settings import make_request
from toast.sharding import autoshard
from toast.verify.verification import executor_for

SMALL = mlp.make_step(mlp.PRESETS["tiny"])
FLAGS = ("--device", "cpu", "--mesh", "data=2,model=4", "--rollouts", "60", "--threads", "1")


def test_jax_export_artifacts_run_through_jax(tmp_path: Path) -> None:
    original = forms.serialize(SMALL, "export", "cpu")
    (tmp_path / "original").write_bytes(original)
    run = ("annotated", "closed", "local")
    for form in run:
        made = make_plan(original, request(form=form, rollouts=100, memory=12_000))
        assert made.plan.decisions
        (tmp_path / form).write_bytes(made.module)
    paths = [str(tmp_path / name) for name in ("original", *run)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.toast.forms.exported", *paths],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        },
    )
    assert done.returncode == 0, done.stderr
    apart = [float(line) for line in done.stdout.split()]
    assert len(apart) == len(run)
    assert max(apart) < 1e-4


@pytest.mark.parametrize("container", forms.FORMS)
@pytest.mark.parametrize("form", ["annotated", "closed", "collectives", "local"])
def test_every_form_comes_in_the_container_that_came_in(container: str, form: str) -> None:
    data = forms.serialize(SMALL, container)
    made = make_plan(data, request(form=form, rollouts=40))
    assert made.suffix == forms.SUFFIXES[container]
    assert detect(made.module) is detect(data)
    assert decode(made.module).module.operation.verify()


def test_the_command_line_plans_and_verifies(tmp_path: Path) -> None:
    module, out = tmp_path / "step.mlir", tmp_path / "out"
    module.write_bytes(forms.serialize(SMALL, "text"))
    planned = toast("plan", module, *FLAGS, "--form", "local", "-o", out)
    assert planned.returncode == 0, planned.stderr
    verified = toast("verify", out)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "Equal on 8 virtual devices" in verified.stdout


@pytest.mark.parametrize(
    ("form", "executor", "said"),
    [
        ("local", "xla", ("XLA's partitioner", "--executor reference")),
        ("collectives", "mpi", ("'mpi'", "xla, reference")),
        ("flat", "reference", ("the form flat", "--form collectives")),
    ],
)
def test_an_executor_that_does_not_run_a_form_is_refused(
    form: FormName, executor: str, said: tuple[str, str]
) -> None:
    plan = make_plan(forms.serialize(SMALL, "text"), request(form=form, rollouts=40)).plan
    with pytest.raises(InvalidRequest) as refused:
        executor_for(plan, executor)
    assert said[0] in str(refused.value.message)
    assert said[1] in refused.value.hint


def test_autoshard_takes_no_form_that_xla_does_not_run() -> None:
    with pytest.raises(InvalidRequest, match="collectives"):
        autoshard(lambda x: x, form="collectives")


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    module = tmp_path / "step.mlir"
    module.write_bytes(forms.serialize(SMALL, "text"))
    assert_refused(toast("plan", module, *FLAGS, "--form", "global"), "'form'", "'annotated'")


@pytest.mark.parametrize("container", ["portable", "export"])
def test_a_portable_artifact_is_of_the_version_that_is_asked_for(container: str) -> None:
    data = forms.serialize(SMALL, container, "cpu" if container == "export" else None)
    for version in ("1.0.0", "1.9.0"):
        made = make_plan(data, request(rollouts=40, target_version=version))
        assert f"StableHLO_v{version}".encode() in made.module
        assert detect(made.module) in (Form.PORTABLE, Form.EXPORT)


def test_versions_that_are_none_are_refused() -> None:
    data = forms.serialize(SMALL, "portable")
    for version in ("0.1.0", "99.0.0"):
        with pytest.raises(InvalidRequest, match=version):
            make_plan(data, request(rollouts=40, target_version=version))
    with pytest.raises(InvalidRequest, match="target_version"):
        make_request(mesh="a=2", target_version="new")
    with pytest.raises(InvalidRequest, match="came as text"):
        make_plan(forms.serialize(SMALL, "text"), request(rollouts=40, target_version="1.0.0"))
