"""`--fit` and `--confirm`: a rewriting that the compiler refuses gives way to another one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from examples import gemma
from examples.forms import serialize
from tests.toast.confirm.compiler import MIB, Compiler, confirmed, folder
from tests.toast.planned import request
from toast.pipeline.plan_module import make_plan
from toast.plans.plan import Plan
from toast.plans.report import as_text

__all__ = ["folder"]
pytestmark = pytest.mark.usefixtures("folder")

BATCH, LENGTH = 2048, 136
"""Of which no weight has a side."""


@cache
def step() -> bytes:
    """A step whose activations are much larger than its state."""
    config = replace(gemma.PRESETS["tiny"], batch=BATCH, seq=LENGTH)
    return serialize(gemma.make_step(config), "text")


@cache
def settings() -> dict[str, Any]:
    """A mesh with a quarter of the memory that the step takes as it is."""
    asked = {"mesh": "data=2", "device": "tpu-v5e", "rollouts": 200, "advice": False}
    least = make_plan(step(), request(**asked, memory=MIB)).plan.predicted.peak_bytes
    return {**asked, "memory": int(least * 0.25), "fit": True}


@cache
def fitted() -> Plan:
    """What is predicted to fit."""
    return make_plan(step(), request(**settings())).plan


def flags(plan: Plan) -> str:
    """The rewriting of a plan."""
    rewritten = plan.time or plan.recompute
    assert rewritten is not None
    (row,) = [row for row in rewritten.tried if row.chosen]
    return row.flags


def part_of(plan: Plan) -> bytes:
    """A type that only values of that many microbatches have."""
    assert plan.time is not None
    return b"tensor<%dx%dx" % (BATCH // plan.time.microbatches, LENGTH)


class Picky(Compiler):
    """Takes what fits, but nothing that has a type in it."""

    def __init__(self, refused: bytes) -> None:
        limit = settings()["memory"] / MIB
        super().__init__(self._says, available=limit)
        self._refused = refused

    def _says(self, number: int) -> tuple[float, float]:
        refused = self._refused in self.modules[number]
        return self.available * (1.1 if refused else 0.5), 5.0


def test_a_rewriting_that_the_compiler_takes_is_all_that_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, found = confirmed(Picky(b"nothing"), monkeypatch, step(), **settings())
    assert found.fits
    assert {row.rewriting for row in found.plans} == {flags(plan)} == {flags(fitted())}


def test_another_rewriting_follows_one_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, found = confirmed(Picky(part_of(fitted())), monkeypatch, step(), **settings())
    assert found.fits
    assert plan.fits
    assert plan.memory_bytes == settings()["memory"]
    chosen = found.chosen
    assert chosen is not None
    assert chosen.rewriting == flags(plan) != flags(fitted())
    rewritings = list(dict.fromkeys(row.rewriting for row in found.plans))
    assert rewritings == [flags(fitted()), flags(plan)]
    assert not any(row.chosen for row in found.plans if row.rewriting == flags(fitted()))
    searches = [row.search for row in found.plans]
    assert searches == sorted(searches)
    assert found.corrections[0].memory_bytes < settings()["memory"]
    assert flags(plan) in as_text(plan)


def test_without_fit_the_rewriting_that_was_asked_for_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time = fitted().time
    assert time is not None
    parts = time.microbatches
    asked = {**settings(), "fit": False, "microbatches": parts}
    plan, found = confirmed(Picky(part_of(fitted())), monkeypatch, step(), **asked)
    assert found.fits is False
    assert not plan.fits
    assert {row.rewriting for row in found.plans} == {f"--microbatches {parts}"}
