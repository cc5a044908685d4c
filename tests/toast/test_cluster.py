"""What travels between a service and the nodes of a cluster; the cluster itself needs Ray."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from toast.analysis.errors import EngineCrashed, InvalidModule, ToastError
from toast.cluster.connection import ClusterMissing, check_installed
from toast.cluster.outcome_file import read_outcome, write_outcome
from toast.cluster.parcel import pack, unpack
from toast.cluster.settings import RelaySettings
from toast.process.limits import ClusterShare
from toast.process.outcome import EngineFailed, EngineOutOfMemory, EngineTimeout, Outcome, Status
from toast.process.runner import Limits


def test_files_arrive_as_they_were(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "module").write_bytes(bytes(range(256)) * 9)
    (here / "empty").touch()
    (here / "left").write_text("out")
    unpack(pack(here, without=["left"]), there)
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {
        "module": bytes(range(256)) * 9,
        "empty": b"",
    }


def test_links_pipes_and_folders_stay_on_the_node(tmp_path: Path) -> None:
    (tmp_path / "plan.json").symlink_to("/etc/passwd")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "summary.json").write_text("{}")
    assert list(pack(tmp_path)) == ["summary.json"]


@pytest.mark.parametrize("name", ["../plan.json", "/etc/passwd", "a/b", ".."])
def test_no_name_leads_out_of_the_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no name of a file"):
        unpack({name: np.zeros(1, np.uint8)}, tmp_path / "here")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("done", None),
        ("error", InvalidModule("No.", "Mend it.")),
        ("crashed", EngineCrashed("Check failed.", "Report it.")),
        ("out_of_memory", EngineOutOfMemory("Too much.", "Less.")),
        ("deadline", EngineTimeout("Late.", "Wait.")),
        ("failed", EngineFailed("A bug.", "Report it.")),
    ],
)
def test_an_outcome_is_read_as_it_was_written(
    tmp_path: Path, status: Status, error: ToastError | None
) -> None:
    sent = Outcome(
        status=status,
        directory=tmp_path,
        suffix=None if error else ".mlir",
        error=error,
        exit_code=-6,
        stderr="said",
        seconds=1.5,
        peak_rss_bytes=7,
    )
    write_outcome(sent, tmp_path)
    found = read_outcome(tmp_path)
    assert found is not None
    assert (type(found.error), str(found.error)) == (type(error), str(error))
    for name in ("status", "suffix", "exit_code", "stderr", "seconds", "peak_rss_bytes"):
        assert getattr(found, name) == getattr(sent, name)


def test_no_outcome_is_none(tmp_path: Path) -> None:
    assert read_outcome(tmp_path) is None


def test_settings_reach_the_relay() -> None:
    settings = RelaySettings(
        cluster=ClusterShare(address="10.0.0.1:6379", cpus=2.5),
        limits=Limits(stall_s=3.0),
        command=("a", "b c"),
    )
    *_, text, argument = settings.child_command("/somewhere")
    assert argument == "/somewhere"
    assert RelaySettings.of(text) == settings


def test_without_ray_somebody_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ClusterMissing, match=r"pip install 'toast-planner\[ray\]'"):
        check_installed()


def test_from_outside_rays_client_is_needed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    json = importlib.util.find_spec("json")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "grpc" else json)
    check_installed("10.0.0.1:6379")
    with pytest.raises(ClusterMissing, match="client is not installed"):
        check_installed("ray://10.0.0.1:10001")
