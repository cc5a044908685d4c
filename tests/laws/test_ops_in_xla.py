"""Every op that XLA runs on the CPU gives the unsharded result under each action, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.laws.op_inputs import MODULES, inputs_of
from tests.laws.states import prepared, single_states
from tests.laws.xla import Xla, request_of

NOT_ON_CPU = frozenset({"chlo.ragged_dot"})


def check(xla: Xla, name: str, mesh: str, most: int) -> None:
    module = MODULES[name]
    inputs = inputs_of(name, prepared(module, mesh)[0])
    for state in single_states(prepared(module, mesh)[1])[:most]:
        source, evaluator = prepared(module, mesh)
        reply = xla.run(request_of(module, source, evaluator, state, inputs))
        assert isinstance(reply, tuple), (state, reply)
        for expected, actual in zip(*reply, strict=True):
            assert np.allclose(expected, actual, rtol=1e-5, atol=1e-5), state


@pytest.mark.parametrize("name", sorted(MODULES.keys() - NOT_ON_CPU))
def test_an_op_in_xla(xla: Xla, name: str) -> None:
    check(xla, name, "x=2,y=4", 2)


@pytest.mark.nightly
@pytest.mark.parametrize("mesh", ["x=2,y=4", "x=8"])
@pytest.mark.parametrize("name", sorted(MODULES.keys() - NOT_ON_CPU))
def test_an_op_in_xla_under_many_states(xla: Xla, name: str, mesh: str) -> None:
    check(xla, name, mesh, 40)
