"""The law with the compiler for TPUs itself: no control is faster than the confirmed plan."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import replace
from pathlib import Path

import pytest

from examples import forms, gemma, mlp
from examples.forms import Step
from examples.models import gns, itx
from toast import plan
from toast.plans.plan import Plan

HAS_LIBTPU = bool(os.environ.get("TPU_LIBRARY_PATH") or importlib.util.find_spec("libtpu"))
STEPS: dict[str, Step] = {
    "mlp": mlp.make_step(mlp.PRESETS["small"]),
    "gemma": gemma.make_step(replace(gemma.PRESETS["demo"], layers=1)),
    "decode": itx.make_step(itx.PRESETS["tiny"]),
    "graph": gns.make_step(gns.PRESETS["tiny"]),
}

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not HAS_LIBTPU, reason="libtpu, from the `aot` extra, is not installed"),
]


def confirmed(step: Step, folder: Path, **settings: object) -> Plan:
    module = forms.serialize(step, "bytecode")
    found = plan(module, mesh="data=2,model=4", device="tpu-v5e", rollouts=400, **settings)  # type: ignore[arg-type]
    return found.plan


@pytest.mark.parametrize("name", STEPS)
def test_no_control_is_faster_and_none_fits_where_the_plan_does_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = confirmed(STEPS[name], tmp_path, confirm=2, confirm_time=1800).confirmed
    assert found is not None
    assert found.fits
    assert found.chosen is not None
    taken = found.chosen.compiled
    assert taken is not None
    assert taken.step_seconds is not None
    controls = [row.compiled for row in found.plans if row.control and row.compiled is not None]
    assert controls
    for control in controls:
        assert control.step_seconds is None or taken.step_seconds <= control.step_seconds * (
            1 + 1e-6
        )
    assert (taken.makespan_seconds or 0) <= taken.step_seconds * (1 + 1e-6)


def test_where_memory_is_short_the_plan_fits_if_a_control_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit lies between what FSDP and data parallelism need."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = confirmed(STEPS["gemma"], tmp_path, confirm=2, memory="12MiB").confirmed
    assert found is not None
    fitting = [row for row in found.plans if row.control and row.compiled and row.compiled.fits]
    assert found.fits or not fitting
