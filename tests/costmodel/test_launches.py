"""How long it takes to launch anything, against the estimate of the smallest fusion."""

from __future__ import annotations

import pytest

from benchmarks.probes.figures import read_figures
from benchmarks.probes.smallest_fusions import PROBE
from toast.aot.target import CHIPS, Target
from toast.costmodel.hardware.devices import find

TARGETS = {Target.parse(target).chip.device: target for target in PROBE.targets}


@pytest.mark.parametrize("device", TARGETS)
def test_a_launch_takes_what_libtpu_estimates_for_the_smallest_fusion(device: str) -> None:
    clock = CHIPS[device].clock or 0.0
    least = min(read_figures(PROBE.name, TARGETS[device]).values())
    assert find(device).op_overhead * clock == pytest.approx(least, rel=0.02)


def test_all_tpus_that_can_be_compiled_for_are_asked() -> None:
    assert set(TARGETS) == {name for name, chip in CHIPS.items() if chip.clock}
