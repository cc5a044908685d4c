"""`toast ci` as a pipeline runs it: exit codes, files, a service."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.service.harness import Server, fake_engine
from tests.toast.ci.budgets import PLAIN, budget_file
from tests.toast.terminal import assert_refused, toast
from toast.ci.budget import read_budget
from toast.process.runner import package_environment

ROOT = Path(__file__).parents[3]
FAKE = (
    '[models.one]\nmodule = "one"\nmesh = "data=2"\n[models.two]\nmodule = "two"\nmesh = "data=2"\n'
)


@pytest.fixture(autouse=True)
def _no_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """As outside of GitHub, wherever these tests run."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "TOAST_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def ci(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return toast("ci", *arguments, cwd=folder)


def test_from_the_first_baseline_to_a_regression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget_file(tmp_path)
    done = ci(tmp_path, "--update-baseline", "-o", "plans")
    assert done.returncode == 0, done.stderr
    assert "commit it" in done.stdout
    assert (tmp_path / "plans/mlp/plan.json").exists()
    baseline = tmp_path / "toast.baseline.json"
    document = json.loads(baseline.read_text())
    document["models"]["mlp"]["memory"] //= 2
    baseline.write_text(json.dumps(document))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    (tmp_path / "step.md").write_text("of an earlier step\n")
    done = ci(tmp_path, "--json", "--junit", "r/junit.xml", "--sarif", "r/toast.sarif")
    assert done.returncode == 1, done.stderr
    assert "::error file=toast.budget.toml,line=2" in done.stderr
    found = json.loads(done.stdout)
    assert found["exit_code"] == 1
    assert [one["rule"] for one in found["models"][0]["findings"]] == ["regressed"]
    assert (tmp_path / "step.md").read_text().startswith("of an earlier step\n## Sharding")
    assert ET.parse(tmp_path / "r/junit.xml").getroot().get("failures") == "1"
    assert json.loads((tmp_path / "r/toast.sarif").read_text())["runs"][0]["results"]


def test_a_module_that_is_none_is_3_and_leaves_the_baseline(tmp_path: Path) -> None:
    budget_file(tmp_path, '[models.bad]\nmodule = "bad.mlir"\nmesh = "data=2"\n')
    done = ci(tmp_path, "--update-baseline", "--summary", "s.md")
    assert done.returncode == 3, done.stderr
    assert "could not be planned" in done.stdout
    assert "left as it was" in done.stderr
    assert not (tmp_path / "toast.baseline.json").exists()
    assert "not planned" in (tmp_path / "s.md").read_text()


def test_bad_input_is_2_before_anything_is_planned(tmp_path: Path) -> None:
    assert_refused(ci(tmp_path), "toast.budget.toml cannot be read", "--budget")
    budget_file(tmp_path, PLAIN + "mesch = 1\n")
    assert_refused(ci(tmp_path), "line 6", "did you mean 'mesh'")
    budget_file(tmp_path)
    assert_refused(ci(tmp_path, "--only", "other"), "no model 'other'", "mlp")
    (tmp_path / "toast.baseline.json").write_text("{")
    assert_refused(ci(tmp_path), "is no baseline", "--update-baseline")


def test_nothing_at_the_url_is_3(tmp_path: Path) -> None:
    budget_file(tmp_path)
    done = ci(tmp_path, "--server", "http://127.0.0.1:9")
    assert done.returncode == 3
    assert "no TOAST service" in done.stdout


def fake_budget(folder: Path, one: str, two: str) -> None:
    """Modules that tell the fake engine what to do."""
    (folder / "one").write_text(one)
    (folder / "two").write_text(two)
    (folder / "toast.budget.toml").write_text(FAKE)


def test_a_service_plans_them_all(tmp_path: Path) -> None:
    fake_budget(tmp_path, "success", "error")
    engine = fake_engine(tmp_path / "engine")
    key = "a-key-that-is-long-enough"
    environment = {"TOAST_API_KEYS": key}
    with Server(tmp_path / "data", engine_command=engine, environment=environment) as server:
        done = ci(tmp_path, "--server", server.url, "--key", key, "--json")
        assert done.returncode == 3, done.stderr
        one, two = json.loads(done.stdout)["models"]
        assert one["figures"] == {"memory": 1 << 30, "step": 0.25, "communication": 0}
        assert "Line 3, column 7" in two["findings"][0]["message"]
        refused = ci(tmp_path, "--server", server.url)
        assert refused.returncode == 3
        assert "API key" in refused.stdout


def test_an_interrupt_cancels_what_the_service_still_has(tmp_path: Path) -> None:
    fake_budget(tmp_path, "slow 60", "slow 50")
    with Server(tmp_path / "data", engine_command=fake_engine(tmp_path / "engine")) as server:
        command = [sys.executable, "-m", "toast", "ci", "--server", server.url]
        with subprocess.Popen(
            command, cwd=tmp_path, env=package_environment(), stderr=subprocess.PIPE
        ) as process:
            end = time.monotonic() + 30
            while len(jobs(server)) < 2 and time.monotonic() < end:
                time.sleep(0.05)
            server.until_progress(jobs(server)[-1]["id"])
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 130
        assert {job["state"] for job in jobs(server)} <= {"cancelling", "cancelled"}


def jobs(server: Server) -> list[dict[str, str]]:
    found: list[dict[str, str]] = server.client.get("/v1/jobs").json()["jobs"]
    return found


def test_the_example_is_within_its_budget() -> None:
    path = ROOT / "examples/ci/toast.budget.toml"
    assert len(read_budget(path).models) == 2
    done = ci(path.parent)
    assert done.returncode == 0, done.stdout
    assert not read_budget(path).baseline.exists(), "prices change; the example has no baseline"


def test_every_exit_code_and_flag_is_documented() -> None:
    page = (ROOT / "docs/ci.md").read_text()
    for code in (0, 1, 2, 3, 130):
        assert f"\n| {code} |" in page
    shown = toast("ci", "--help").stdout
    flags = {word for word in shown.replace(",", " ").split() if word.startswith("--")}
    assert {flag for flag in flags if f"`{flag}" not in page} <= {"--help"}
