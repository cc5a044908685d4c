"""`toast plan`, `submit`, `serve` and `verify` on real steps, through real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from examples import forms, gemma, mlp
from toast.demo import running_service
from toast.plans.plan import Plan
from toast.process.runner import package_environment

TINY = gemma.make_step(gemma.PRESETS["tiny"])
SMALL = mlp.make_step(mlp.Config(batch=512, inputs=512, hidden=2048, outputs=512))
# A slow chip, so that sharding a small step pays.
FLAGS = [
    "--device",
    "cpu",
    "--mesh",
    "data=2,model=2",
    "--rollouts",
    "60",
    "--threads",
    "1",
    "--memory",
    "1GiB",
]


def toast(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toast", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, env=package_environment()
    )


@pytest.mark.parametrize("form", forms.FORMS)
def test_plan_then_verify_in_every_form(tmp_path: Path, form: str) -> None:
    module, out = tmp_path / "step", tmp_path / "out"
    module.write_bytes(forms.serialize(TINY if form == "text" else SMALL, form))
    planned = toast("plan", module, *FLAGS, "-o", out)
    assert planned.returncode == 0, planned.stderr
    assert "Layout of the arguments" in planned.stdout
    assert planned.stderr == "", "progress is for terminals"
    suffix = forms.SUFFIXES[form]
    assert {path.name for path in out.iterdir()} == {
        "plan.json",
        f"sharded{suffix}",
        f"original{suffix}",
    }
    assert (out / f"original{suffix}").read_bytes() == module.read_bytes()
    assert Plan.from_json((out / "plan.json").read_bytes()).decisions
    verified = toast("verify", out, "--rows", "3")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "Equal on 4 virtual devices" in verified.stdout


def test_nothing_fits_is_3_and_the_plan_is_there(tmp_path: Path) -> None:
    module, out = tmp_path / "step", tmp_path / "out"
    module.write_bytes(forms.serialize(mlp.make_step(mlp.PRESETS["small"]), "bytecode"))
    done = toast("plan", module, "--mesh", "data=2", "--memory", "1MiB", "-o", out)
    assert done.returncode == 3, done.stderr
    assert "DOES NOT FIT" in done.stdout
    assert not Plan.from_json((out / "plan.json").read_bytes()).predicted.fits
    assert (out / "sharded.mlirbc").is_file()


@pytest.mark.nightly
def test_a_mesh_is_chosen_and_another_choice_taken_and_verified(tmp_path: Path) -> None:
    module, out = tmp_path / "step", tmp_path / "out"
    module.write_bytes(forms.serialize(TINY, "bytecode"))
    flags = [flag if flag != "data=2,model=2" else "auto:4" for flag in FLAGS]
    planned = toast("plan", module, *flags, "-o", out)
    assert planned.returncode == 0, planned.stderr
    assert "Meshes, each with its best plan" in planned.stdout
    assert "Choices of time against memory" in planned.stdout
    plan = Plan.from_json((out / "plan.json").read_bytes())
    assert [row.mesh for row in plan.meshes] == ["d0=4", "d0=2,d1=2"]
    number = next(n for n, row in enumerate(plan.choices, 1) if not row.chosen)
    chosen = toast("choose", out, str(number))
    assert chosen.returncode == 0, chosen.stderr
    other = tmp_path / f"out-{number}"
    again = Plan.from_json((other / "plan.json").read_bytes())
    assert again.predicted.step_seconds == plan.choices[number - 1].step_seconds
    assert again.choices[number - 1].chosen
    verified = toast("verify", other)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_plan_is_bounded_on_request(tmp_path: Path) -> None:
    module, out = tmp_path / "step", tmp_path / "out"
    module.write_bytes(forms.serialize(mlp.make_step(mlp.PRESETS["tiny"]), "text"))
    done = toast("plan", module, *FLAGS, "--prove", "--budget", "20s", "-o", out)
    assert done.returncode == 0, done.stderr
    assert "Proof: no state of this search costs less than" in done.stdout
    plan = Plan.from_json((out / "plan.json").read_bytes())
    assert plan.lower_bound is not None
    assert plan.search.planner == "mcts"


def test_a_plan_is_refined_on_request(tmp_path: Path) -> None:
    module, out = tmp_path / "step", tmp_path / "out"
    module.write_bytes(forms.serialize(mlp.make_step(mlp.PRESETS["tiny"]), "text"))
    done = toast("plan", module, *FLAGS, "--refine", "-o", out)
    assert done.returncode == 0, done.stderr
    plan = Plan.from_json((out / "plan.json").read_bytes())
    assert plan.request is not None
    assert plan.request.refine
    assert "refine" in plan.stages
    verified = toast("verify", out)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    both = toast("plan", module, *FLAGS, "--refine", "--prove", "-o", out)
    assert both.returncode == 2
    assert "do not go together" in both.stderr


def test_another_form_leaves_no_stale_files(tmp_path: Path) -> None:
    step = mlp.make_step(mlp.PRESETS["tiny"])
    for form in ("text", "export"):
        (tmp_path / "step").write_bytes(forms.serialize(step, form))
        done = toast("plan", tmp_path / "step", "--mesh", "data=2", "-o", tmp_path / "out")
        assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"plan.json", "sharded.jax_export", "original.jax_export"}


def test_inspect_prints_its_tables(tmp_path: Path) -> None:
    (tmp_path / "step").write_bytes(forms.serialize(TINY, "text"))
    done = toast("inspect", tmp_path / "step")
    assert done.returncode == 0, done.stderr
    for title in ("Colours", "Conflicts", "Compatibility sets", "Groups", "Ops without a rule"):
        assert title in done.stdout
    as_json = json.loads(toast("inspect", tmp_path / "step", "--json").stdout)
    assert as_json["colours"]
    assert as_json["conflicts"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_service(tmp_path_factory.mktemp("service")) as address:
        yield address


def test_submit_gives_what_plan_gives(tmp_path: Path, url: str) -> None:
    module = tmp_path / "step"
    module.write_bytes(forms.serialize(TINY, "bytecode"))
    here, there = tmp_path / "here", tmp_path / "there"
    assert toast("plan", module, *FLAGS, "-o", here).returncode == 0
    done = toast("submit", module, "--url", url, *FLAGS, "-o", there)
    assert done.returncode == 0, done.stderr
    assert "Layout of the arguments" in done.stdout
    for name in ("sharded.mlirbc", "original.mlirbc"):
        assert (here / name).read_bytes() == (there / name).read_bytes()


def test_submit_takes_the_plan_of_an_earlier_job_where_it_may(tmp_path: Path, url: str) -> None:
    module, flags = tmp_path / "step", (*FLAGS, "--penalty", "13")
    module.write_bytes(forms.serialize(TINY, "bytecode"))
    for cache, jobs in (("any", 1), ("any", 1), ("off", 2)):
        done = toast("submit", module, "--url", url, *flags, "--cache", cache, "-o", tmp_path / "o")
        assert done.returncode == 0, done.stderr
        with urllib.request.urlopen(f"{url}/v1/jobs?limit=50") as answer:
            listed = json.load(answer)["jobs"]
        ours = [job for job in listed if job["request"]["penalty"] == 13]
        assert len([job for job in ours if not job["cached_from"]]) == jobs


def test_submit_of_what_is_no_module(tmp_path: Path, url: str) -> None:
    (tmp_path / "poem").write_text("poem")
    done = toast("submit", tmp_path / "poem", "--url", url, "--mesh", "data=2")
    assert done.returncode == 2
    assert "does not parse" in done.stderr
    assert "Traceback" not in done.stderr


def test_interrupted_the_best_plan_is_kept(tmp_path: Path) -> None:
    module, out = tmp_path / "step", tmp_path / "out"
    module.write_bytes(forms.serialize(TINY, "bytecode"))
    command = [sys.executable, "-m", "toast", "plan", str(module), "--mesh", "data=2,model=2"]
    process = subprocess.Popen(
        [*command, "--memory", "1GiB", "-o", str(out)],
        env=package_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while not psutil.Process(process.pid).children() and time.monotonic() < end:
        time.sleep(0.05)  # before it has its engine, it may not listen yet
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert "Traceback" not in stderr
    # Early enough, there is no plan yet; late enough, it was done.
    assert process.returncode in (0, 130), stderr
    assert (out / "plan.json").is_file() == (process.returncode == 0)
    assert ("Layout of the arguments" in stdout) == (process.returncode == 0)


def test_serve_listens_until_it_is_told_to_stop(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "toast", "serve", "--port", "0", "--data", str(tmp_path)]
    process = subprocess.Popen(
        [*command, "--workers", "1"],
        env=package_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert "TOAST service listening on http://127.0.0.1:" in process.stdout.readline()
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGTERM)
