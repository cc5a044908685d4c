"""Prices of single operations beside libtpu's cycles: what is off is named."""

from __future__ import annotations

import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.programs import lowered
from benchmarks.probes.single_operations import OPERATIONS
from tests.modules import evaluator_of

CYCLES = 1.5e9
"""A v5e's in a second."""
PADDED = "a dimension of less than 128 is padded in memory, and so in what is read"
STEPS = "a reduction over windows of all that came before runs in several passes"
SHIFTED = "elements that move by less than a tile take longer"
OFF = {
    "gradient of pooling": "libtpu has no estimate for the first pooling, which takes as long",
    "products of 16": PADDED,
    "products of 64": PADDED,
    "products of 512 x 64": PADDED,
    "variance of rows": "a reduction that is all of a fusion takes half as long again",
    "sums so far": STEPS,
    "padding": SHIFTED,
    "odd join": "what is concatenated is stored before, and the model joins it as it computes",
    "softmax of rows": "of a large argument a part is taken to wait on the chip",
    "nearest images": "rows are gathered and written in loops",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.xfail(reason=OFF[name], strict=True) if name in OFF else (),
        )
        for name in OPERATIONS
    ],
)
def test_the_price_is_within_a_quarter_of_what_libtpu_estimates(name: str) -> None:
    step, shapes = OPERATIONS[name]
    compute = evaluator_of(lowered(step, *shapes), "a=8", "tpu-v5e").cost(()).compute
    assert compute * CYCLES == pytest.approx(golden("single_operations", name), rel=1 / 4)
