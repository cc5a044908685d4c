"""What the front page tells a newcomer to type exists, under the names that it gives."""

from __future__ import annotations

import inspect
import re

import pytest
import typer

import toast
from tests.ground.repository import ROOT
from toast.cli import app
from toast.costmodel.hardware.devices import catalogue
from toast.costmodel.network.mesh import Mesh

README = (ROOT / "README.md").read_text()
COMMANDS = typer.main.get_group(app).commands
FIXED_FLAGS = "--mesh --device --memory --seed --rollouts --budget --threads --planner -o"


def flags(command: str) -> set[str]:
    """The flags that a command of `toast` takes."""
    return {flag for parameter in COMMANDS[command].params for flag in parameter.opts}


def test_the_two_commands_come_before_any_heading_of_use() -> None:
    start = README.partition("\n## ")[0]
    assert re.findall(r"^make (\w+)", start, re.MULTILINE) == ["demo", "test"]


def test_every_command_is_shown_and_every_shown_command_exists() -> None:
    shown = set(re.findall(r"(?:^|`)toast ([a-z]+)", README, re.MULTILINE))
    assert shown == {name for name, command in COMMANDS.items() if not command.hidden}


@pytest.mark.parametrize("command", ["plan", "submit"])
def test_the_flags_of_planning_are_those_that_are_fixed(command: str) -> None:
    assert set(FIXED_FLAGS.split()) <= flags(command)
    assert set(re.findall(r"(?<![\w-])--[a-z]+", FIXED_FLAGS)) <= set(
        re.findall(r"--[a-z]+", README)
    )


def test_flags_shown_beside_a_command_are_its_own() -> None:
    lines = re.findall(r"(?:^|`)toast ([a-z]+) ([^`\n]*)", README, re.MULTILINE)
    wrong = [
        (command, flag)
        for command, rest in lines
        for flag in re.findall(r"(?<!\S)--?[a-z]+", rest)
        if flag not in flags(command)
    ]
    assert lines
    assert wrong == []


def test_examples_name_a_mesh_and_devices_that_exist() -> None:
    meshes = set(re.findall(r"mesh[= \"]+([a-z]+=\d[a-z0-9=,]*)", README))
    devices = set(re.findall(r"device[= \"]+([a-z][a-z0-9-]+)", README))
    assert [len(Mesh.parse(mesh).axes) for mesh in meshes] == [2]
    assert devices == {"tpu-v5e"}
    assert devices <= set(catalogue())


def test_the_python_example_uses_what_is_public() -> None:
    names = set(re.findall(r"toast\.([A-Za-z_]+)\(", README))
    assert names == {"plan", "autoshard"}
    assert names <= set(toast.__all__)
    arguments = inspect.signature(toast.plan).parameters
    assert {"module", "mesh", "device"} <= set(arguments)


def test_the_front_page_is_a_page() -> None:
    assert len(README.splitlines()) < 100
