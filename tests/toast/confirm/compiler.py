"""A stand-in for the compiler, which says of the plans of a job what a test wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from examples import gemma
from tests.toast.planned import request
from toast.aot import CompiledCollective, Memory, Refusal, Target, Verdict
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.confirm import compilations, confirm
from toast.pipeline.plan_module import make_plan
from toast.plans.confirmation import Confirmation
from toast.plans.plan import Plan
from toast.plans.result import PlanResult

MIB = 2**20
Says = tuple[float, float]
"""MiB and milliseconds of a program."""


@dataclass
class Compiler:
    """Says `says(n)` of the n-th module that it sees; no more than `available` MiB fit."""

    says: Callable[[int], Says]
    available: float = 1e6
    fails: Callable[[int], Exception | None] = lambda _: None
    modules: list[bytes] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    reserved: set[int] = field(default_factory=set)
    calls: int = 0

    def __call__(self, module: bytes, target: Target, mesh: Mesh, **asked: object) -> Verdict:
        self.calls += 1
        if module not in self.modules:
            self.modules.append(module)
        number = self.modules.index(module)
        self.reserved.add(int(str(asked["reserved_bytes"])))
        if (error := self.fails(number)) is not None:
            raise error
        size, milliseconds = self.says(number)
        early = bool(asked["memory_only"])
        if not early:
            self.whole.append(number)
        common: dict[str, Any] = {
            "target": str(target),
            "devices": mesh.devices,
            "compile_seconds": 1.0,
        }
        if size > self.available:
            message = "RESOURCE_EXHAUSTED: Ran out of memory"
            refused = Refusal(message=message, needed=int(size * MIB), available=None)
            return Verdict(**common, refusal=refused, memory_only=early)
        return Verdict(
            **common,
            memory=Memory(argument=1, output=1, temp=1, alias=1, main=int(size * MIB)),
            collectives=(SENT,),
            memory_only=early,
            communication_seconds=1e-6,
            compute_seconds=None if early else milliseconds * 1e-3 - 1e-6,
            makespan_seconds=None if early else milliseconds * 1e-3 - 1e-6,
        )


SENT = CompiledCollective(
    kind="all_gather", axes=("model",), group_size=4, count=1, result_bytes=1e3, wire_bytes=750.0
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, empty, and compilers that count as installed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("toast.aot.installed.check_installed", lambda _: None)
    monkeypatch.setattr(confirm, "compiler_version", lambda _: "libtpu 1")
    return tmp_path


@cache
def small_text() -> bytes:
    """A training step of a Gemma whose best plan is none of the controls."""
    config = replace(gemma.PRESETS["demo"], layers=2, batch=8, seq=32)
    return gemma.lower(config).as_text(debug_info=True).encode()


def confirmed(
    compiler: Compiler,
    monkeypatch: pytest.MonkeyPatch,
    module: bytes | None = None,
    **changes: object,
) -> tuple[Plan, Confirmation]:
    """The plan of a model, else the small one, on eight v5e, and what was confirmed of it."""
    plan = planned(compiler, monkeypatch, module, **changes).plan
    assert plan.confirmed is not None
    return plan, plan.confirmed


def planned(
    compiler: Compiler,
    monkeypatch: pytest.MonkeyPatch,
    module: bytes | None = None,
    **changes: object,
) -> PlanResult:
    """The plan and the module."""
    monkeypatch.setattr(compilations, "judge", compiler)
    settings = {"device": "tpu-v5e", "rollouts": 200, "advice": False, "confirm": 3, **changes}
    return make_plan(module or small_text(), request(**settings))
