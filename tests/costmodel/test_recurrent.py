"""Recurrent nets, against what libtpu estimates for a v5e."""

from __future__ import annotations

import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.recurrent import PROBE
from tests.modules import analysed
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh

V5E = "tpu-v5e"
RATE = 1.503e9
"""Cycles a second of a v5e."""


def ratio(name: str) -> float:
    """Of the price to what libtpu estimates, with all texts on each device."""
    evaluator = Evaluator(analysed(PROBE.cases[name].module(V5E)), Mesh.parse("all=8"), find(V5E))
    return evaluator.cost(()).compute * RATE / golden("recurrent", name, V5E)


@pytest.mark.parametrize("name", [name for name in PROBE.cases if "forward" in name])
def test_a_recurrent_net_takes_about_as_long_as_libtpu_estimates(name: str) -> None:
    """It was priced at three to four times that, as if each product were launched by itself."""
    assert ratio(name) == pytest.approx(1.0, rel=0.3)


@pytest.mark.parametrize("name", [name for name in PROBE.cases if "gradients" in name])
def test_gradients_of_a_recurrent_net_take_at_most_twice_as_long(name: str) -> None:
    """The model launches each stack of a loop by itself; it had them at up to 3.6 times."""
    assert 1.0 < ratio(name) < 2.0
