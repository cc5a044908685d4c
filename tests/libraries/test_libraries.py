"""Every step that `examples.libraries` builds goes through the analysis and gets a plan."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples import forms
from examples.forms import serialize
from examples.libraries import LIBRARIES
from examples.libraries.__main__ import main
from tests.libraries.corpus import SET_GROUPS, moments
from toast.analysis.analyse import analyse
from toast.analysis.forms import detect
from toast.analysis.load import load
from toast.pipeline.plan_module import make_plan
from toast.request.request import PlanRequest

# The libraries warn of their own deprecations.
pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]

REQUEST = PlanRequest(mesh="data=2,model=4", device="tpu-v5e", rollouts=500, threads=1)
ROOT = Path(forms.__file__).parent.parent
GIB = 2**30
DEEP = [("gpt2", "xl"), ("gpt2", "deep"), ("whisper", "large"), ("t5", "base")]
"""Over 50,000 ops."""
CASES = [
    (name, preset)
    for name, builder in LIBRARIES.items()
    for preset in builder.presets
    if preset != "deep"
]
CHOICES = {
    **SET_GROUPS,
    "equinox_transformer": 1,
    "gpt2": 1,
    "llama": 1,
    "whisper": 2,
}
"""Set groups; the other models have no conflicts. At full size the U-Net has two widths more."""


def lowered(name: str, preset: str) -> bytes:
    """The bytecode of a step; skips where its library is not installed."""
    builder = LIBRARIES[name]
    if builder.missing():
        pytest.skip(f"not installed: {', '.join(builder.missing())}; see `.[libraries]`")
    return serialize(builder.presets[preset](), "bytecode")


def child(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "preset"), CASES)
def test_a_step_is_analysed_and_planned(name: str, preset: str) -> None:
    module = lowered(name, preset)
    source = load(module)
    program = source.program
    assert program.no_rule == {}
    generates = name.endswith("_generate")
    assert len(program.warnings) == int(generates), "the trip count of a generation is unknown"
    analysis = analyse(program)
    choices = 4 if (name, preset) == ("diffusers_unet", "default") else CHOICES.get(name, 0)
    assert analysis.groups.sets == choices
    pairs = moments(program)
    result = make_plan(module, REQUEST)
    assert detect(result.module) is detect(module)
    plan = result.plan
    assert plan.unpriced == []
    assert plan.predicted.step_seconds <= plan.unsharded.step_seconds
    if preset != "tiny":
        assert plan.predicted.step_seconds < 0.6 * plan.unsharded.step_seconds
        assert plan.predicted.peak_bytes < plan.unsharded.peak_bytes
    specs = [tensor.spec for tensor in plan.arguments]
    assert all(specs[left] == specs[right] for left, right in pairs)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "preset"), DEEP)
def test_over_50_000_ops_fit_in_4_gib(name: str, preset: str, tmp_path: Path) -> None:
    path = tmp_path / "module.mlirbc"
    path.write_bytes(lowered(name, preset))
    record: dict[str, Any] = json.loads(child("benchmarks.analysis_child", "analyse", str(path)))
    assert record["ops"] > 50_000
    assert record["peak"] < 4 * GIB


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "memory"), [("gpt2", "3500KiB"), ("bert", "5MiB"), ("resnet", "3800KiB")]
)
def test_a_sharded_step_computes_the_same(name: str, memory: str, tmp_path: Path) -> None:
    path, out = tmp_path / "module.mlirbc", tmp_path / "out"
    path.write_bytes(lowered(name, "tiny"))
    settings = ("--mesh", "data=2,model=4", "--device", "tpu-v5e", "--memory", memory)
    child("toast", "plan", str(path), *settings, "-o", str(out))
    plan = json.loads((out / "plan.json").read_text())
    assert any(any(tensor["spec"]) for tensor in plan["arguments"]), "or there is nothing to check"
    assert "Equal on 8 virtual devices" in child("toast", "verify", str(out))


def test_a_step_is_written_from_the_command_line(tmp_path: Path) -> None:
    lowered("optax_adamw", "tiny")
    path = tmp_path / "new" / "step.mlirbc"
    assert main(["optax_adamw", "--preset", "tiny", "-o", str(path)]) == 0
    assert detect(path.read_bytes()).suffix == ".mlirbc"
