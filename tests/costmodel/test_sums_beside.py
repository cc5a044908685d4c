"""Devices write what they add up over their parts, but not over rows that were added in place."""

from __future__ import annotations

import pytest

from benchmarks.probes.buffer_assignment import SUMMED
from benchmarks.probes.figures import golden
from tests.costmodel.texts import GPU, TPU
from toast.costmodel.explain import PriceBreakdown, explain
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.journal import Entry

MIB = 2**20
TARGETS = {TPU: "tpu-v5e:2x4", "tpu-v3": "tpu-v3:2x2", GPU: "a100:8"}
TABLE = 49408 * 1280 * 4 / MIB


def breakdown(case: str, target: str) -> PriceBreakdown:
    """What the price of a case of the probe is made of: its updates by rows over all devices."""
    layout = SUMMED[case]
    bench = layout.bench(target)
    return explain(resolve(bench.evaluator, layout.state(bench)))


@pytest.mark.parametrize("device", list(TARGETS))
@pytest.mark.parametrize("case", list(SUMMED))
def test_a_gradient_of_a_table_takes_what_its_compiler_lays_out(case: str, device: str) -> None:
    found = breakdown(case, TARGETS[device])
    given = sum(one.bytes for one in found.held if one.why is Entry.BASE)
    assert (found.cost.room - given) / MIB == pytest.approx(
        golden("buffer_assignment", case, device), rel=0.02
    )


def test_only_few_rows_are_added_in_place_and_summed_beside_that() -> None:
    few, many = (breakdown(case, TARGETS[TPU]) for case in SUMMED)
    sums = [
        sum(one.bytes for one in found.held if one.why is Entry.SUM) / MIB for found in (few, many)
    ]
    assert sums == [TABLE, 0.0]
