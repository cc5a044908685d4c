"""The forms `collectives` and `local` compute what models do, run device by device, scaled down."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.proof.cases import write_plan
from tests.libraries.corpus import kept
from tests.toast.verify.plans import module_of
from toast.analysis.forms import bytecode, decode
from toast.resize.resize import Resizer
from toast.verify.scaling import ALIKE, STEPS, shrinking
from toast.verify.verification import verify

MESH = "data=2,model=4"
FORMS = ("collectives", "local")
PART = 3
"""The memory that is there is this part of what the program takes on one device."""


def smallest(data: bytes) -> bytes:
    """A program at the smallest sizes that still divide by eight."""
    module = decode(data).module
    resizer = Resizer(module)
    resizer.write(resizer.solve(default=shrinking(ALIKE, STEPS[-1])))
    return bytecode(module)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["gns", "nnx_transformer", "t5", "diffusers_unet"])
def test_a_split_model_computes_what_it_computes_whole(
    name: str, form: str, tmp_path: Path
) -> None:
    data = smallest(module_of("gns") if name == "gns" else kept(name))
    settings = {"device": "cpu", "rollouts": 100, "form": form}
    whole = write_plan(data, tmp_path, MESH, **settings).plan.unsharded.peak_bytes
    plan = write_plan(data, tmp_path, MESH, **settings, memory=whole // PART).plan
    assert any(axes for tensor in plan.arguments for axes in tensor.spec)
    found = verify(tmp_path, deadline_s=None)
    assert found.collectives
    assert found.verdict == "equal"
