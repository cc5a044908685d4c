"""Sums that compilers all-reduce though what reads them wants shards, as compiled programs show."""

from __future__ import annotations

import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.reduce_scatter_creator import LAYOUTS
from tests.costmodel.texts import GPU, TPU, Priced

PROBE = "reduce_scatter_creator"
TPUS = ("tpu-v3", TPU, "tpu-v5p")


def predicted(case: str, device: str) -> dict[str, float]:
    """MB on the wire by kind; scalars are left out."""
    layout = LAYOUTS[case]
    priced = Priced(layout.program(), layout.mesh, device)
    found: dict[str, float] = {}
    for (kind, _), size in priced.sent(*layout.choices).items():
        found[kind.lower()] = found.get(kind.lower(), 0.0) + size / 1e6
    return {kind: round(size, 2) for kind, size in found.items() if size > 0.01}


@pytest.mark.parametrize("device", [TPU, GPU])
@pytest.mark.parametrize("case", LAYOUTS)
def test_as_much_is_sent_as_in_the_compiled_program(case: str, device: str) -> None:
    assert predicted(case, device) == golden(PROBE, case, device)


@pytest.mark.parametrize("device", TPUS)
@pytest.mark.parametrize("case", ["in_quarters over one axis", "elementwise over one axis"])
def test_over_one_axis_every_tpu_does_the_same(case: str, device: str) -> None:
    assert predicted(case, device) == golden(PROBE, case, device)


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        ("in_quarters", {TPU: "all_reduce", GPU: "reduce_scatter"}),
        ("behind_arithmetic", {TPU: "reduce_scatter", GPU: "reduce_scatter"}),
        ("scatter in quarters", {TPU: "all_reduce", GPU: "reduce_scatter"}),
        ("scatter, nodes over one axis", {TPU: "all_reduce", GPU: "all_reduce"}),
    ],
)
def test_slices_keep_sums_whole_on_a_tpu_and_scatters_over_some_axes_everywhere(
    case: str, kinds: dict[str, str]
) -> None:
    assert {device: "".join(golden(PROBE, case, device)) for device in kinds} == kinds
