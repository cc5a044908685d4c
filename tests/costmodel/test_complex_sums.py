"""Partial sums of complex numbers: a TPU gathers them, and a GPU sums them as any others."""

from __future__ import annotations

import pytest

from benchmarks.probes.complex_sums import LAYOUTS, WIDTH
from benchmarks.probes.figures import golden
from tests.costmodel.texts import GPU, TPU, Priced

PROBE = "complex_sums"
PRODUCT = "a product"


@pytest.mark.parametrize("device", [TPU, "tpu-v5p", "tpu-v3", GPU])
@pytest.mark.parametrize("case", sorted({*LAYOUTS} - {PRODUCT}))
def test_sums_take_what_they_take_in_the_compiled_program(case: str, device: str) -> None:
    layout, sent = LAYOUTS[case], dict[str, float]()
    priced = Priced(layout.program(), layout.mesh, device)
    for (kind, _), size in priced.sent(*layout.choices).items():
        sent[kind.lower()] = sent.get(kind.lower(), 0.0) + size / 1e6
    compiled = golden(PROBE, case, device)
    assert {kind: size for kind, size in sent.items() if size > 0.01} == pytest.approx(
        compiled, abs=0.01
    )


@pytest.mark.parametrize("case", ["a sum", "two sums", "over two axes"])
def test_what_is_gathered_is_there_whole_until_it_is_added_up(case: str) -> None:
    """On a TPU the sums of eight devices, one after another, beside all that a GPU holds."""
    layout, sums = LAYOUTS[case], 8 * WIDTH
    tpu, gpu = (
        Priced(layout.program(), layout.mesh, device).made(*layout.choices) for device in (TPU, GPU)
    )
    assert tpu - gpu == 8 * sums
