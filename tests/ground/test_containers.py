"""Choosing what builds the image, and stopping what was started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import containers
from tools.containers import (
    Buildah,
    Docker,
    ImageFailed,
    MissingTool,
    expect_clean_end,
    find_engine,
    stop_served,
)

POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
time.sleep(60)
"""
STUBBORN = POLITE.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")


def program(folder: Path, name: str, text: str) -> None:
    """An executable shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all of PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_docker_is_used_where_its_engine_answers(path: Path) -> None:
    program(path, "docker", "exit 0")
    assert isinstance(find_engine(), Docker)


def test_buildah_is_used_where_no_engine_answers(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(path, "docker", "exit 1")
    program(path, "buildah", "exit 0")
    program(path, "debootstrap", "exit 0")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert isinstance(find_engine(), Buildah)


def test_what_is_missing_is_named(path: Path) -> None:
    program(path, "buildah", "exit 0")
    with pytest.raises(MissingTool, match=r"apt-get install debootstrap$"):
        find_engine()


def test_buildah_without_root_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(path, "buildah", "exit 0")
    program(path, "debootstrap", "exit 0")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MissingTool, match="sudo"):
        find_engine()


def serve(folder: Path, service: str) -> subprocess.Popen[bytes]:
    """A stand-in named buildah, which dies when asked to end, with a service under it."""
    program(folder, "buildah", '"$@" &\nwait $!')
    command = [str(folder / "buildah"), sys.executable, "-c", service]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_the_service_is_asked_to_stop_and_its_own_exit_code_comes_back(tmp_path: Path) -> None:
    with serve(tmp_path, POLITE) as process:
        assert stop_served(process) == 0


def test_a_service_that_does_not_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(containers, "_STOP_SECONDS", 0.3)
    with serve(tmp_path, STUBBORN) as process:
        assert stop_served(process) != 0
    assert "killed" in capsys.readouterr().out


def test_a_service_that_ended_by_itself_is_no_error_to_stop(tmp_path: Path) -> None:
    program(tmp_path, "buildah", "exit 3")
    with subprocess.Popen([str(tmp_path / "buildah")]) as process:
        assert stop_served(process) == 3


def test_only_an_exit_in_order_is_accepted() -> None:
    expect_clean_end(0)
    with pytest.raises(ImageFailed, match="ended with 137"):
        expect_clean_end(137)
