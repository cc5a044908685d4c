"""Which layouts are compiled for a curve, and what is made of them."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tests.toast.samples import make_plan
from toast.aot import Memory, Refusal, Target, Verdict, pressed
from toast.aot.pressed import PressedCurve, press
from toast.aot.pressed_report import render_curve
from toast.costmodel.network.mesh import Mesh

GIB = 2**30
TPU, GPU = Target.parse("tpu-v5e:2x4"), Target.parse("a100:8")


class Compiler:
    """Lays out what it is given room for, between a least and a most; slower when pressed."""

    def __init__(self, least: float, most: float, *, refuses: bool = False) -> None:
        self.least, self.most, self.refuses = least * GIB, most * GIB, refuses
        self.asked: list[tuple[int, bool]] = []

    def __call__(self, _module: bytes, target: Target, _mesh: Mesh, **asked: Any) -> Verdict:
        reserved, memory_only = asked["reserved_bytes"], asked["memory_only"]
        self.asked.append((reserved, memory_only))
        size = int(max(self.least, min(self.most, 15.75 * GIB - reserved)))
        memory = Memory(argument=1, output=0, temp=0, alias=0, main=size)
        refusal = Refusal(message="no", needed=size, available=1) if self.refuses else None
        slow = 1 + (self.most - size) / self.most
        return Verdict(
            target=str(target),
            devices=8,
            memory=None if refusal else memory,
            refusal=refusal,
            memory_only=memory_only,
            compute_seconds=None if memory_only or refusal else slow,
            communication_seconds=0.5,
            reserved_bytes=reserved,
        )


def curve(
    monkeypatch: pytest.MonkeyPatch,
    compiler: Compiler,
    target: Target = TPU,
    memory_only: bool = False,
) -> PressedCurve:
    monkeypatch.setattr(pressed, "judge", compiler)
    return press(b"", target, Mesh.parse("x=8"), memory_only=memory_only)


def test_only_layouts_that_differ_are_compiled_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(3, 4)
    found = curve(monkeypatch, compiler)
    assert [early for _, early in compiler.asked] == [True] * 5 + [False] * 3
    sizes = [(point.laid_out or 0) / GIB for point in found.points]
    assert sizes == pytest.approx([4, 3.4, 3])
    assert [point.slower for point in found.points] == pytest.approx([0, 0.1, 1 / 6])
    assert found.least is found.points[-1]


def test_memory_alone_compiles_nothing_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(3, 4)
    found = curve(monkeypatch, compiler, memory_only=True)
    assert all(early for _, early in compiler.asked)
    assert len(found.points) == 5
    assert {point.slower for point in found.points} == {None}


def test_a_small_program_is_pressed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    found = curve(monkeypatch, Compiler(0.001, 0.1), memory_only=True)
    sizes = [(point.laid_out or 0) / GIB for point in found.points]
    assert sizes == pytest.approx([0.1, 0.085, 0.07, 0.05, 0.025])


def test_a_gpu_s_compiler_is_asked_for_whole_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(3, 4)
    found = curve(monkeypatch, compiler, GPU)
    assert not any(early for _, early in compiler.asked)
    reserved = [size for size, _ in compiler.asked]
    assert reserved[0] == 0
    assert sorted(reserved) == reserved
    assert len(found.points) == 5


def test_a_refused_program_is_pressed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    found = curve(monkeypatch, Compiler(18, 20, refuses=True))
    assert all(point.verdict.refusal for point in found.points)
    assert found.least.laid_out == 18 * GIB


def shown(found: PressedCurve) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(render_curve(make_plan(), found))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_has_times_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shown(curve(monkeypatch, Compiler(3, 4)))
    early = shown(curve(monkeypatch, Compiler(3, 4), memory_only=True))
    assert "+16.7%" in whole
    assert "With room the compiler lays out 4.00 GiB, pressed 3.00 GiB, +16.7%" in whole
    assert "slower" not in early
    assert "pressed 3.00 GiB." in early
    flat = shown(curve(monkeypatch, Compiler(4, 4), memory_only=True))
    assert "no less when it is pressed" in flat


def test_a_curve_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    point = curve(monkeypatch, Compiler(3, 4)).to_dict()["points"][1]
    assert point["verdict"]["needed_bytes"] == pytest.approx(3.4 * GIB)
    assert point["verdict"]["step_seconds"] == pytest.approx(1.65)
