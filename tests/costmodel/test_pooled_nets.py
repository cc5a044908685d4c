"""Nets of few images that end in a mean over all pixels: it is no norm, and they cost none."""

from __future__ import annotations

import pytest

from benchmarks.probes.figures import TARGETS, golden
from benchmarks.probes.pooled_nets import LAYOUTS, NETS
from toast.aot.target import CHIPS
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.hardware.devices import find
from toast.costmodel.passes.space_to_batch import images, normalising

DEVICES = ["tpu-v5e", "tpu-v5p"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NETS)
def test_a_step_takes_the_cycles_of_the_compiler(name: str, device: str) -> None:
    layout = LAYOUTS[name]
    bench = layout.bench(TARGETS[device])
    priced = bench.evaluator.cost(layout.state(bench)).compute
    cycles = priced * (CHIPS[device].clock or 0.0)
    assert cycles == pytest.approx(golden("pooled_nets", name, device), rel=0.4)


@pytest.mark.parametrize("name", NETS)
def test_only_what_is_spread_over_an_image_again_normalises_it(name: str) -> None:
    program = LAYOUTS[name].bench(TARGETS["tpu-v5e"]).evaluator.analysis.program
    found = images(program, profile_of(find("tpu-v5e")).layout_assignment)
    assert bool(normalising(program, found)) == ("by example" in name)
