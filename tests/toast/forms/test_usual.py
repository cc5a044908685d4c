"""The form of a module where none is asked for."""

from __future__ import annotations

import pytest

from examples import block_sparse
from tests.toast.planned import request
from toast.emit.forms import write
from toast.pipeline.plan_module import make_plan


def test_the_calls_of_a_large_program_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    step = block_sparse.make_step(block_sparse.PRESETS["tiny"])
    data = step.lower().as_text(debug_info=True).encode()
    plain = make_plan(data, request(rollouts=20))
    assert plain.plan.request is not None
    assert plain.plan.request.form is None
    assert b"call @" in data
    assert b"call @" not in plain.module
    monkeypatch.setattr(write, "MAX_INLINED_OPS", 100)
    assert make_plan(data, request(rollouts=20)).module.count(b"call @") == data.count(b"call @")
