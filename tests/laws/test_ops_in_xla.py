"""Every op that XLA runs on the CPU gives the unsharded result under each action, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.op_modules_special import CONTROL
from tests.analysis.op_modules_structured import STRUCTURED
from tests.laws.layout import Array
from tests.laws.states import prepared, single_states
from tests.laws.xla import Xla, request_of
from toast.analysis.load import Source

MODULES = STRUCTURED | CONTROL
NOT_ON_CPU = frozenset({"chlo.ragged_dot"})
WELL_CONDITIONED = frozenset({"stablehlo.cholesky", "stablehlo.triangular_solve"})
DTYPES = {
    "f32": np.float32,
    "i1": np.bool_,
    "i32": np.int32,
    "i64": np.int64,
    "complex<f32>": np.complex64,
}


def inputs_of(name: str, source: Source) -> list[Array]:
    generator = np.random.default_rng(0)
    found: list[Array] = []
    for argument in source.program.arguments:
        shape = source.program.shape(argument.value)
        array = generator.random(shape) * 3
        if name in WELL_CONDITIONED:
            array = np.eye(shape[-1]) * 4 + np.full(shape, 0.1)
        found.append(np.asarray(array, DTYPES[source.program.dtype(argument.value)]))
    return found


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
