"""`toast calibrate` end to end on virtual CPU devices, and what it says when it cannot."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.modules import text
from toast.analysis.errors import InvalidRequest
from toast.calibrate.calibration import Calibration, calibrate, child_environment
from toast.cli.calibrate import document, summary, table
from toast.costmodel.calibration import Fit, Sample, fit_device, predict
from toast.costmodel.hardware.device_files import read_profile, write_profile
from toast.costmodel.hardware.devices import find
from toast.pipeline.plan_module import make_plan
from toast.plans.report import make_console
from toast.process.runner import package_environment
from toast.request.settings import make_request


@pytest.fixture(scope="module")
def measured() -> Fit:
    """A quick calibration of two virtual devices."""
    return calibrate(Calibration(platform="cpu", devices=2, quick=True, name="here"))


def test_every_microbenchmark_is_measured(measured: Fit) -> None:
    benches = {sample.bench for sample in measured.samples}
    assert benches == {"matmul", "copy", "elementwise", "ops", "buffers", "collective"}
    kinds = {sample.what for sample in measured.samples if sample.bench == "collective"}
    assert len(kinds) == 5
    dtypes = {sample.what for sample in measured.samples if sample.bench == "matmul"}
    assert dtypes == {"bf16", "f16", "f32", "f64", "i8"}
    assert all(sample.seconds > 0 for sample in measured.samples)


def test_the_fit_is_a_device_with_possible_figures(measured: Fit) -> None:
    device = measured.device
    assert (device.name, device.kind, device.platform) == ("here", "cpu", "cpu")
    rates = [device.bandwidth, device.element_rate, *device.flops.values()]
    assert all(1e6 < rate < 1e15 for rate in rates)
    assert 0 <= device.op_overhead < 0.1
    assert all(link.bandwidth > 0 and link.latency >= 0 for link in device.links)
    assert 0 < device.memory_bytes < 2**50
    assert "2 x cpu" in device.sources["bandwidth"]
    assert (device.shared_by, device.program_start > 0) == (2, True)
    assert 1.0 <= device.alone <= 2.0
    again = read_profile(write_profile(device), "file")
    assert (again.name, again.shared_by) == ("here", 2)
    assert again.alone == pytest.approx(device.alone, rel=1e-4)


def test_the_fit_is_near_what_was_measured(measured: Fit) -> None:
    # Loose: other processes share the machine. A unit that is wrong is off by thousands.
    assert np.median(np.abs(np.log(np.array(measured.predicted) / _seconds(measured)))) < np.log(5)


def _seconds(fit: Fit) -> list[float]:
    return [sample.seconds for sample in fit.samples]


def test_more_work_is_predicted_to_take_longer(measured: Fit) -> None:
    for small in measured.samples:
        large = dataclasses.replace(small, work=64 * small.work)
        assert predict(large, measured.device) >= predict(small, measured.device)


def test_the_table_has_each_microbenchmark_and_the_summary_the_error(measured: Fit) -> None:
    console = make_console()
    with console.capture() as capture:
        console.print(table(measured))
    lines = capture.get().splitlines()
    assert len(lines) == 2 + len(measured.samples)
    assert any("matmul f32, 5.24e+05" in line for line in lines)
    assert any("all_reduce over 2 of 2" in line and "%" in line for line in lines)
    assert summary(measured).startswith(f"{len(measured.samples)} microbenchmarks")


def test_as_json_each_microbenchmark_has_both_its_times(measured: Fit) -> None:
    found = json.loads(json.dumps(document(measured)))
    assert found["device"]["name"] == "here"
    assert len(found["samples"]) == len(measured.samples)
    for row, sample, fitted in zip(
        found["samples"], measured.samples, measured.predicted, strict=True
    ):
        assert (row["what"], row["measured_seconds"]) == (str(sample), sample.seconds)
        assert row["fitted_seconds"] == fitted


def test_the_file_can_be_planned_for(measured: Fit, tmp_path: Path) -> None:
    file = tmp_path / "here.toml"
    file.write_text(write_profile(measured.device))
    request = make_request(mesh="data=2", device=str(file), rollouts=64, threads=1)
    assert Path(request.device).is_absolute()
    plan = make_plan(text("mlp"), request).plan
    assert plan.device == "here"
    assert plan.memory_bytes == measured.device.plannable_bytes
    assert [axis.places for axis in plan.mesh.axes] == [["shm:2"]]


def toast(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toast", "calibrate", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=cwd,
        env=package_environment() | {"JAX_PLATFORMS": "cpu"},
    )


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["-o", "device.json"], "no name for a device file"),
        (["--base", "abacus"], "no device 'abacus'"),
        (["--platform", "abacus"], "The measurement failed"),
    ],
)
def test_what_cannot_be_calibrated_is_said(tmp_path: Path, flags: list[str], part: str) -> None:
    done = toast(*flags, cwd=tmp_path)
    assert (done.returncode, part in done.stderr) == (2, True), done.stderr
    assert len(done.stderr.splitlines()) == 2
    assert not list(tmp_path.iterdir())


SCRIPT = """
import json, sys
for event in json.load(open({path!r})):
    print(json.dumps(event))
"""


def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, events: list[dict[str, object]]) -> None:
    """Measurements read from a file instead of taken."""
    path = tmp_path / "events.json"
    path.write_text(json.dumps(events))
    command = [sys.executable, "-c", SCRIPT.format(path=str(path))]
    monkeypatch.setattr("toast.calibrate.calibration.child_command", lambda _: command)


def samples() -> list[dict[str, object]]:
    rows = [
        Sample(bench="matmul", what="f32", work=1e9, seconds=1e-3),
        Sample(bench="copy", what="f32", work=1e8, seconds=1e-3),
        Sample(bench="elementwise", what="i8", work=1e8, seconds=1e-3),
        Sample(bench="ops", what="f32", work=100.0, seconds=1e-4),
    ]
    return [{"event": "sample", **dataclasses.asdict(row)} for row in rows]


MACHINE = {"event": "machine", "devices": 1, "jax": "0.10.2", "memory_bytes": None}


def test_the_base_is_the_chip_that_jax_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = MACHINE | {"device_kind": "NVIDIA H200"}
    fake(monkeypatch, tmp_path, [machine, *samples(), {"event": "done"}])
    seen: list[Sample] = []
    fit = calibrate(Calibration(), on_sample=seen.append)
    h200 = find("h200")
    assert fit.device.name == "h200-calibrated"
    assert (fit.device.memory_bytes, fit.device.links) == (h200.memory_bytes, h200.links)
    assert len(seen) == 4
    assert fit.device == dataclasses.replace(
        fit_device(seen, h200, fit.device.sources["bandwidth"]).device,
        name=fit.device.name,
        description=fit.device.description,
    )


def test_a_chip_that_nobody_knows_needs_a_base(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = MACHINE | {"device_kind": "NVIDIA B9000"}
    fake(monkeypatch, tmp_path, [machine, *samples(), {"event": "done"}])
    with pytest.raises(InvalidRequest, match="'NVIDIA B9000'") as caught:
        calibrate(Calibration())
    assert "--base" in caught.value.hint
    assert calibrate(Calibration(base="h200")).device.name == "h200-calibrated"


def test_the_child_sees_the_platform_and_its_virtual_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=nowhere")
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    chosen = child_environment(Calibration(devices=4))
    assert chosen["JAX_PLATFORMS"] == os.environ["JAX_PLATFORMS"]
    assert chosen["XLA_FLAGS"].split() == [
        "--xla_dump_to=nowhere",
        "--xla_force_host_platform_device_count=4",
    ]
    assert child_environment(Calibration(platform="cpu"))["JAX_PLATFORMS"] == "cpu"
