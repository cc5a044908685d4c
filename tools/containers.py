"""Two ways to build an image and run it: Docker, and buildah where no engine runs.

Buildah needs no daemon and, with `chroot` isolation, no kernel features either. It builds the same
Dockerfile; the container shares the host's network, so it is given a free port to listen on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import psutil

from tools.pip_settings import build_options

BASE = "docker.io/library/python:3.11-slim"
SERVED_PORT = "8080"
READ_ONLY = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL")
"""How the image is meant to run; buildah's chroot has no such thing."""
_STOP_SECONDS = 30.0


class MissingTool(Exception):
    """Nothing on this host can build an image; the message says what to install."""


class ImageFailed(Exception):
    """The image did not do what it promises; the message says which promise."""


class Engine(ABC):
    """Something that builds and runs images.

    Callers may assume that `started` leaves nothing running behind it, however its body ends.
    """

    @abstractmethod
    def build(self, context: Path, tag: str, extras: str = "") -> None:
        """Build the Dockerfile in `context`, with `extras` of pyproject.toml.

        Raises `CalledProcessError` where that fails.
        """

    @abstractmethod
    def started(self, tag: str, environment: dict[str, str], log: Path) -> _Started:
        """Run the image's own command; gives the base URL, and stops the container at the end.

        What the service prints is in `log` afterwards. Raises `ImageFailed` where it does not stop
        by itself, with exit code 0, when asked.
        """


_Started = contextlib.AbstractContextManager[str]


class Docker(Engine):
    """The Docker command line, with an engine that answers."""

    def build(self, context: Path, tag: str, extras: str = "") -> None:
        """See `Engine.build`."""
        with tempfile.TemporaryDirectory() as secrets:
            options = [*build_options(Path(secrets)), *_arguments(extras)]
            _run(
                ["docker", "build", "--tag", tag, *options, str(context)], {"DOCKER_BUILDKIT": "1"}
            )

    @contextlib.contextmanager
    def started(self, tag: str, environment: dict[str, str], log: Path) -> Iterator[str]:
        """See `Engine.started`."""
        variables = [part for name in environment for part in ("--env", name)]
        publish = ["--publish", f"127.0.0.1::{SERVED_PORT}"]
        command = ["docker", "run", "--detach", *READ_ONLY, *publish, *variables, tag]
        name = _output(command, environment).strip()
        try:
            address = _output(["docker", "port", name, SERVED_PORT], {}).split()[0]
            yield f"http://{address}"
            _run(["docker", "stop", "--time", str(int(_STOP_SECONDS)), name], {}, quiet=True)
            expect_clean_end(int(_output(["docker", "wait", name], {})))
        finally:
            with log.open("w") as stream:
                subprocess.run(["docker", "logs", name], stdout=stream, stderr=stream, check=False)
            subprocess.run(
                ["docker", "rm", "--force", name], check=False, stdout=subprocess.DEVNULL
            )


class Buildah(Engine):
    """Buildah with `chroot` isolation, which needs root and neither a daemon nor namespaces."""

    environment: ClassVar[dict[str, str]] = {
        "BUILDAH_ISOLATION": "chroot",
        "STORAGE_DRIVER": "vfs",
    }

    def build(self, context: Path, tag: str, extras: str = "") -> None:
        """See `Engine.build`."""
        self._ensure_base()
        with tempfile.TemporaryDirectory() as secrets:
            options = [*build_options(Path(secrets)), *_arguments(extras)]
            command = ["buildah", "bud", "--pull-never", "--layers", "--format", "docker"]
            _run([*command, "--tag", tag, *options, str(context)], self.environment)

    @contextlib.contextmanager
    def started(self, tag: str, environment: dict[str, str], log: Path) -> Iterator[str]:
        """See `Engine.started`."""
        name = _output(["buildah", "from", "--pull-never", tag], self.environment).strip()
        port = str(_free_port())
        variables = [part for pair in environment.items() for part in ("--env", "=".join(pair))]
        command = [port if word == SERVED_PORT else word for word in self._command(tag)]
        try:
            with log.open("w") as stream:
                process = subprocess.Popen(
                    ["buildah", "run", *variables, name, "--", *command],
                    env=os.environ | self.environment,
                    stdout=stream,
                    stderr=stream,
                    start_new_session=True,
                )
                try:
                    yield f"http://127.0.0.1:{port}"
                finally:
                    code = stop_served(process)
                expect_clean_end(code)
        finally:
            _output(["buildah", "rm", name], self.environment)

    def _command(self, tag: str) -> list[str]:
        found = _output(["buildah", "inspect", "--type", "image", tag], self.environment)
        words: list[str] = json.loads(found)["Docker"]["config"]["Cmd"]
        return words

    def _ensure_base(self) -> None:
        """Have the base image in the store: there already, pulled, or made by debootstrap."""
        settings = os.environ | self.environment
        have = ["buildah", "inspect", "--type", "image", BASE]
        pull = ["timeout", "120", "buildah", "pull", "--quiet", BASE]
        for command in (have, pull):
            if (
                subprocess.run(command, env=settings, capture_output=True, check=False).returncode
                == 0
            ):
                return
        print(f"No registry has {BASE}; making a stand-in for it with debootstrap.", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory) / "rootfs"
            _make_root(root)
            name = _output(["buildah", "from", "scratch"], self.environment).strip()
            _run(["buildah", "add", "--quiet", name, str(root), "/"], self.environment)
            _run(["buildah", "commit", "--quiet", "--rm", name, BASE], self.environment)


def find_engine() -> Engine:
    """Docker where its engine answers, else buildah; raises `MissingTool` with what to install."""
    if shutil.which("docker"):
        answer = subprocess.run(["docker", "info"], capture_output=True, check=False)
        if answer.returncode == 0:
            return Docker()
    missing = [tool for tool in ("buildah", "debootstrap") if shutil.which(tool) is None]
    if missing:
        raise MissingTool(
            "No Docker engine answers here, and buildah cannot stand in for it. Start Docker, or"
            f" on Debian or Ubuntu: apt-get update && apt-get install {' '.join(missing)}"
        )
    if os.geteuid() != 0:
        raise MissingTool("Building with buildah in a chroot needs root: run this with sudo.")
    return Buildah()


def _arguments(extras: str) -> list[str]:
    return ["--build-arg", f"EXTRAS={extras}"] if extras else []


def _make_root(root: Path) -> None:
    packages = "ca-certificates,python3,python3-pip,python3-venv"
    command = ["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(root)]
    _run(command, {}, quiet=True)
    # The official image has its interpreter under these names.
    for name in ("python", "python3"):
        (root / "usr/local/bin" / name).symlink_to("/usr/bin/python3")


def _run(command: Sequence[str], environment: dict[str, str], *, quiet: bool = False) -> None:
    stdout = subprocess.DEVNULL if quiet else None
    subprocess.run(command, check=True, env=os.environ | environment, stdout=stdout)


def _output(command: Sequence[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, check=True, env=os.environ | environment, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def expect_clean_end(code: int) -> None:
    """Raise `ImageFailed` unless `code` is the exit code of a service that stopped in order."""
    if code != 0:
        raise ImageFailed(f"the service ended with {code} when it was asked to stop")


def stop_served(process: subprocess.Popen[bytes]) -> int:
    """Ask what buildah runs to end, and end what does not; the exit code of it all.

    Buildah's own processes are left alone until then: asked to end, they kill what they run.
    """
    outermost = psutil.Process(process.pid)
    members = [outermost, *outermost.children(recursive=True)]
    with contextlib.suppress(psutil.NoSuchProcess, StopIteration):
        next(p for p in members if "buildah" not in p.name()).terminate()
    try:
        return process.wait(timeout=_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        print("The service did not stop when asked and was killed.")
        for member in reversed(members):
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        return process.wait(timeout=_STOP_SECONDS)
