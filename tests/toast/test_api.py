"""`toast.plan` and `toast.autoshard`, with the real engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jsonschema
import pytest

import toast
from examples import forms, mlp
from toast.analysis.forms import decode, detect
from toast.api import module_bytes
from toast.process.runner import Event

ROOT = Path(__file__).parents[2]
STEP = mlp.make_step(mlp.PRESETS["tiny"])
QUICK: dict[str, Any] = {"mesh": "data=2,model=2", "rollouts": 20, "threads": 1}


@pytest.fixture(scope="module")
def result() -> Any:
    return toast.plan(forms.serialize(STEP, "text"), **QUICK)


def test_a_plan_fits_its_schema(result: Any) -> None:
    schema = json.loads((ROOT / "docs" / "plan.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(json.loads(result.plan.to_json()))


def test_a_plan_speaks_of_the_module(result: Any) -> None:
    assert [tensor.name for tensor in result.plan.arguments][:2] == ["params['b1']", "params['b2']"]
    assert result.plan.device == "tpu-v5e"
    assert result.plan.predicted.step_seconds <= result.plan.unsharded.step_seconds
    assert b"sdy.sharding" in result.module


def test_one_thread_a_seed_and_a_number_of_rollouts_repeat(result: Any) -> None:
    again = toast.plan(forms.serialize(STEP, "text"), **QUICK)
    assert again.module == result.module
    assert again.plan.decisions == result.plan.decisions


@pytest.mark.parametrize("form", ["bytecode", "portable", "export"])
def test_the_form_that_came_in_goes_out(form: str) -> None:
    data = forms.serialize(STEP, form)
    result = toast.plan(data, **QUICK)
    assert detect(result.module) is detect(data)
    assert result.suffix == forms.SUFFIXES[form]
    decode(result.module)


def test_progress_is_reported() -> None:
    events: list[Event] = []
    toast.plan(forms.serialize(STEP, "bytecode"), on_progress=events.append, **QUICK)
    assert events
    assert events[-1]["fraction"] >= events[0]["fraction"]


def test_whatever_holds_a_module(tmp_path: Path) -> None:
    path = tmp_path / "step"
    path.write_bytes(forms.serialize(STEP, "export"))
    assert module_bytes(str(path)) == module_bytes(path) == path.read_bytes()
    for module in (STEP.lower(), STEP.export(), bytearray(path.read_bytes())):
        decode(module_bytes(module))
    with pytest.raises(toast.InvalidModule, match="A float is not a module"):
        module_bytes(1.5)


def test_the_mesh_is_chosen_and_a_choice_made_again() -> None:
    module = forms.serialize(STEP, "text")
    best = toast.plan(module, **QUICK | {"mesh": "auto:4", "device": "cpu"}, prove=True).plan
    assert len(best.meshes) == 2
    assert best.gap is not None
    (mesh,) = [row.mesh for row in best.meshes if row.chosen]
    for choice in best.choices:
        again = toast.plan(module, mesh=mesh, device="cpu", decisions=choice.decisions).plan
        assert again.predicted.peak_bytes == choice.peak_bytes
    with pytest.raises(toast.InvalidRequest, match="a colour that this module does not have"):
        toast.plan(module, mesh=mesh, decisions=["nobody=d0"])


def test_errors_of_the_engine_arrive_as_themselves() -> None:
    with pytest.raises(toast.InvalidModule):
        toast.plan(b"poem", **QUICK)
    with pytest.raises(toast.InvalidRequest, match="oracle"):
        toast.plan(forms.serialize(STEP, "text"), planner="oracle", **QUICK)


def test_what_libraries_lower_is_taken() -> None:
    lowered = jax.jit(jax.numpy.tanh).lower(jax.ShapeDtypeStruct((8,), "float32"))
    assert module_bytes(SimpleNamespace(lowered=lowered)) == module_bytes(lowered)


def test_autoshard_computes_the_same_on_four_devices() -> None:
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, str(Path(__file__).with_name("autoshard_program.py"))]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["difference"] < 1e-5
    assert report["devices"] == 4
    assert report["decisions"] > 0
    assert any("data" in spec or "model" in spec for spec in report["specs"])
