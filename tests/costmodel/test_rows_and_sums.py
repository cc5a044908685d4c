"""What is sent for lookups of one element of each row, and for sums of sums, as compiled."""

from __future__ import annotations

import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.rows_and_sums import LAYOUTS
from tests.costmodel.texts import GPU, TPU, Priced

PROBE = "rows_and_sums"


@pytest.mark.parametrize("device", [TPU, GPU])
@pytest.mark.parametrize("case", LAYOUTS)
def test_as_much_is_sent_as_in_the_compiled_program(case: str, device: str) -> None:
    layout = LAYOUTS[case]
    priced = Priced(layout.program(), layout.mesh, device)
    found: dict[str, float] = {}
    for (kind, _), size in priced.sent(*layout.choices).items():
        found[kind.lower()] = found.get(kind.lower(), 0.0) + size / 1e6
    found = {kind: size for kind, size in found.items() if size > 0.01}
    assert found == pytest.approx(golden(PROBE, case, device), abs=0.01)
