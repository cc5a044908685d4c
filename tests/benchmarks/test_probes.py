"""Probes: what is asked of a compiler, how the answers are kept, and that all are there."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.probes import __main__ as program
from benchmarks.probes import running
from benchmarks.probes.figures import TARGETS, golden, keep_figures, read_figures
from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.registry import PROBES
from toast.analysis.errors import InvalidModule, InvalidRequest
from toast.aot import Target, Verdict
from toast.costmodel.compilers.profile import compiler
from toast.costmodel.hardware.devices import find

V5E = "tpu-v5e:2x4"
HLO = """HloModule m
ENTRY %main (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %s = f32[4]{0} sine(%p)
}
"""


def opcodes(compiled: Compiled) -> list[str]:
    return [one.opcode for one in compiled.instructions()]


def asked(name: str, target: str) -> bytes:
    return f"{name} {target}".encode()


PROBE = Probe(
    name="sines",
    figures="opcodes",
    targets=(V5E,),
    cases={name: Case(module=partial(asked, name), read=opcodes) for name in ("one", "other")},
)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The modules that a compiler in the place of the real one was given."""
    found: list[bytes] = []

    def judge(module: bytes, target: Target, mesh: Any, *, keep_hlo: Path, **_: Any) -> Verdict:
        found.append(module)
        if module.startswith(b"other"):
            raise InvalidModule("The compiler refuses the module: no.", "Please report this.")
        keep_hlo.write_text(HLO)
        return Verdict(target=str(target), devices=mesh.devices)

    monkeypatch.setattr(running, "judge", judge)
    monkeypatch.setattr(running, "compiler_of", lambda _: "libtpu 1.2")
    return found


def test_each_case_is_compiled_for_the_target_and_its_figure_kept(
    given: list[bytes], tmp_path: Path
) -> None:
    found = running.run_probe(PROBE, V5E, tmp_path, hlo=tmp_path / "hlo")
    assert given == [b"one tpu-v5e:2x4", b"other tpu-v5e:2x4"]
    assert found["one"] == ["parameter", "sine"]
    assert found["other"] == "refused: The compiler refuses the module: no."
    assert read_figures("sines", V5E, tmp_path) == found
    kept = json.loads((tmp_path / "sines.json").read_text())
    assert kept[V5E]["compiler"] == "libtpu 1.2"
    assert [path.read_text() for path in (tmp_path / "hlo").iterdir()] == [HLO]


def test_what_differs_from_what_was_kept_is_reported(
    given: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_figures("sines", V5E, "libtpu 1.1", {"one": ["cosine"], "gone": 1}, tmp_path)
    keep_figures("sines", "a100:8", "xla 3", {"one": []}, tmp_path)
    running.run_probe(PROBE, V5E, tmp_path, ["one"])
    assert "one: ['parameter', 'sine'], was ['cosine']\n" in capsys.readouterr().err
    assert read_figures("sines", V5E, tmp_path) == {"one": ["parameter", "sine"]}
    assert read_figures("sines", "a100:8", tmp_path) == {"one": []}


def test_other_errors_end_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def judge(*_: Any, **__: Any) -> Verdict:
        raise InvalidRequest("No compiler.", "Install it.")

    monkeypatch.setattr(running, "judge", judge)
    with pytest.raises(InvalidRequest):
        running.run_probe(PROBE, V5E, tmp_path)
    assert not list(tmp_path.iterdir())


def test_unknown_probes_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["run", "cse", "nonsense"]) == 2
    assert "unknown: nonsense; known: algebraic_simplifier, " in capsys.readouterr().err


def test_probes_are_listed_with_the_targets_they_are_kept_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert program.main(["list", "layout_assignment"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("layout_assignment: bytes of an argument")
    assert f"{len(PROBES['layout_assignment'].cases)} cases" in line
    assert V5E in line


@pytest.mark.parametrize("name", PROBES)
def test_every_case_of_a_probe_has_its_figure_for_every_target(name: str) -> None:
    probe = PROBES[name]
    assert probe.name == name
    assert probe.targets[0] == V5E
    for target in probe.targets:
        assert read_figures(name, target).keys() == probe.cases.keys(), target


@pytest.mark.parametrize("name", ["libtpu", "xla_gpu"])
def test_every_probe_that_a_compilers_profile_names_is_there(name: str) -> None:
    named = {evidence.probe for evidence in compiler(name).evidence.values()} - {"accuracy", "none"}
    assert named
    assert named <= PROBES.keys()


@pytest.mark.parametrize("target", PROBES["buffer_assignment"].targets)
def test_programs_may_have_of_the_memory_what_the_catalogue_says(target: str) -> None:
    available = read_figures("buffer_assignment", target)["256 GiB and a copy"]
    device = find(Target.parse(target).chip.device)
    assert device.usable_bytes / 2**30 == pytest.approx(available, abs=0.01)


def test_golden_figures_are_those_of_the_device_of_the_catalogue() -> None:
    for device, target in TARGETS.items():
        assert Target.parse(target).chip.device == device
        assert Target.parse(target).devices == 8
    assert golden("layout_assignment", "f32") == 512
