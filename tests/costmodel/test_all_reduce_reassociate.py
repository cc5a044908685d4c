"""Partial sums that are added to others, as compiled programs show."""

from __future__ import annotations

import pytest

from benchmarks.probes.all_reduce_reassociate import LAYOUTS
from benchmarks.probes.figures import golden
from tests.costmodel.texts import GPU, TPU, Priced

PROBE = "all_reduce_reassociate"


@pytest.mark.parametrize("device", [TPU, GPU])
@pytest.mark.parametrize("case", LAYOUTS)
def test_sums_take_what_they_take_in_the_compiled_program(case: str, device: str) -> None:
    layout, sent = LAYOUTS[case], dict[str, float]()
    for (kind, _), size in (
        Priced(layout.program(), layout.mesh, device).sent(*layout.choices).items()
    ):
        sent[kind.lower()] = sent.get(kind.lower(), 0.0) + size / 1e6
    compiled = golden(PROBE, case, device)
    sums = {kind: size for kind, size in sent.items() if "reduce" in kind and size > 0.01}
    assert sums == pytest.approx(
        {kind: size for kind, size in compiled.items() if "reduce" in kind}, abs=0.01
    )
