"""How long launches and sums take on every TPU, against what its compiler estimates for them."""

from __future__ import annotations

import pytest

from benchmarks.probes.figures import read_figures
from benchmarks.probes.fusion_rates import PROBE as RATES
from benchmarks.probes.smallest_fusions import PROBE as SMALLEST
from tests.modules import evaluator_of
from toast.aot.target import CHIPS, Target
from toast.costmodel.hardware.devices import find

SQUARES = "squares of 64 Mi over rows"


def device_of(target: str) -> str:
    """The chip of the catalogue that a target is made of."""
    return Target.parse(target).chip.device


@pytest.mark.parametrize("target", SMALLEST.targets)
def test_a_launch_takes_what_libtpu_estimates_for_the_smallest_fusion(target: str) -> None:
    device = device_of(target)
    least = min(read_figures(SMALLEST.name, target).values())
    assert find(device).op_overhead * (CHIPS[device].clock or 0.0) == pytest.approx(least, rel=0.02)


def test_all_tpus_that_can_be_compiled_for_are_asked() -> None:
    asked = {device_of(target) for target in SMALLEST.targets}
    assert asked == {name for name, chip in CHIPS.items() if chip.clock}


@pytest.mark.parametrize("target", [one for one in RATES.targets if "v7x" not in one])
def test_large_sums_take_what_libtpu_estimates(target: str) -> None:
    """By the rate of the chip's vector unit; whole programs say less of that of a v7x."""
    device = device_of(target)
    module = RATES.cases[SQUARES].module(target)
    cycles = sum(read_figures(RATES.name, target)[SQUARES].values())
    priced = evaluator_of(module, "all=8", device).cost(()).compute * (CHIPS[device].clock or 0.0)
    assert priced == pytest.approx(cycles, rel=0.05)
