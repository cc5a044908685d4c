"""Sums that a TPU keeps whole for their shape, as compiled programs show."""

from __future__ import annotations

import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.scatter_pieces import LAYOUTS
from tests.costmodel.texts import GPU, TPU, Priced

PROBE = "scatter_pieces"


def kinds(case: str, device: str) -> set[str]:
    """The kinds of the collectives of a case."""
    layout = LAYOUTS[case]
    priced = Priced(layout.program(), layout.mesh, device)
    return {kind.lower() for kind, _ in priced.sent(*layout.choices)}


@pytest.mark.parametrize("device", [TPU, GPU])
@pytest.mark.parametrize("case", LAYOUTS)
def test_sums_are_scattered_where_the_compiler_scatters_them(case: str, device: str) -> None:
    padding = {"collective_permute"}  # of parts that are not even
    assert kinds(case, device) == set(golden(PROBE, case, device)) - padding


def test_a_v5p_scatters_over_some_axes_as_a_v5e() -> None:
    for case in LAYOUTS:
        if "over a=2,b=4" in case:
            assert kinds(case, "tpu-v5p") == set(golden(PROBE, case, "tpu-v5p"))
