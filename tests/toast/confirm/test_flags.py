"""How plans are asked to be confirmed: flags, settings, chips without a compiler."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.toast.planned import gemma_text, request
from toast.analysis.errors import InvalidRequest
from toast.aot import installed
from toast.aot.installed import compiler_version, installed_target
from toast.aot.target import Target
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.plan_module import make_plan
from toast.request.request import PlanRequest
from toast.request.settings import make_request

commands = importlib.import_module("toast.cli.app")  # the package has the command under that name


def asked(monkeypatch: pytest.MonkeyPatch, *flags: str) -> tuple[Result, list[PlanRequest]]:
    """What the command says, and the request that it makes of flags."""
    seen: list[PlanRequest] = []

    def plan(_module: bytes, made: PlanRequest, *_: Any) -> None:
        seen.append(made)
        raise InvalidRequest("Nothing is planned here.", "")

    monkeypatch.setattr(commands, "_plan_in_child", plan)
    monkeypatch.setattr(commands, "read_module", lambda _: b"")
    result = CliRunner().invoke(commands.app, ["plan", *flags])
    return result, seen


@pytest.mark.parametrize(
    ("flags", "confirm", "seconds"),
    [
        (["m", "--confirm"], 4, None),
        (["m", "--confirm", "7"], 7, None),
        (["m", "--confirm=7", "--confirm-time", "5min"], 7, 300.0),
        (["--confirm", "m"], 4, None),
        (["m"], None, None),
    ],
)
def test_the_number_of_plans_may_be_left_out(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], confirm: int | None, seconds: float | None
) -> None:
    _, [made] = asked(monkeypatch, *flags, "--mesh", "data=8")
    assert (made.confirm, made.confirm_time) == (confirm, seconds)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--confirm", "0"], "The setting 'confirm' is out of range"),
        (["--confirm", "-3"], "The setting 'confirm' is out of range"),
        (["--confirm", "1000"], "The setting 'confirm' is out of range"),
        (["--confirm-time", "5s"], "goes with 'confirm'"),
        (["--confirm", "--confirm-time", "0s"], "is not a duration above zero"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], said: str
) -> None:
    result, seen = asked(monkeypatch, "m", "--mesh", "data=8", *flags)
    assert result.exit_code == 2
    assert said in result.stderr
    assert seen == []


def test_true_and_false_are_numbers_too() -> None:
    assert make_request(mesh="data=8", confirm=True).confirm == 4
    assert make_request(mesh="data=8", confirm=False).confirm is None


def test_a_chip_without_a_compiler_is_said_before_anything_is_done() -> None:
    with pytest.raises(InvalidRequest, match="no compiler to ask about h200") as caught:
        make_plan(b"never read", request(device="h200", confirm=2))
    assert "tpu-v5e" in caught.value.hint


@pytest.mark.parametrize(
    ("device", "library", "extra"),
    [("tpu-v5e", "libtpu", "aot"), ("a100-40gb", "CUDA plugin", "aot-cuda")],
)
def test_a_compiler_that_is_not_installed_is_said_with_the_command(
    monkeypatch: pytest.MonkeyPatch, device: str, library: str, extra: str
) -> None:
    monkeypatch.delenv(installed.LIBRARY, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InvalidRequest, match=library) as caught:
        make_plan(gemma_text(), request(device=device, confirm=2))
    assert f"pip install 'toast-planner[{extra}]'" in caught.value.hint


@pytest.mark.parametrize(
    ("device", "count", "name"),
    [
        ("tpu-v5e", 1, "tpu-v5e:2x2"),
        ("tpu-v5e", 8, "tpu-v5e:2x4"),
        ("tpu-v5e", 12, "tpu-v5e:4x4"),
        ("tpu-v3", 8, "tpu-v3:2x2"),
        ("tpu-v5p", 4, "tpu-v5p:2x2x1"),
        ("tpu-v5p", 64, "tpu-v5p:4x4x4"),
        ("a100-40gb", 6, "a100:6"),
    ],
)
def test_the_smallest_topology_with_enough_devices_is_asked(
    device: str, count: int, name: str
) -> None:
    target = Target.for_device(find(device), count)
    assert str(target) == name
    assert target.devices >= count


def test_a_library_of_one_s_own_is_known_by_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    library = tmp_path / "libtpu.so"
    library.write_bytes(b"12345")
    monkeypatch.setenv(installed.LIBRARY, str(library))
    target = installed_target(find("tpu-v5e"), Mesh.parse("x=8"))
    assert compiler_version(target).startswith(f"libtpu at {library}, 5 bytes")
