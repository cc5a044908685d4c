"""Modules of every op, and inputs on which they are well conditioned."""

from __future__ import annotations

import numpy as np

from tests.analysis.op_modules_special import CONTROL
from tests.analysis.op_modules_structured import STRUCTURED
from tests.laws.layout import Array
from toast.analysis.load import Source

MODULES = STRUCTURED | CONTROL
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
