"""Plans over several slices compute what the module does; virtual devices know no slices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.variants import module_of
from toast.pipeline.plan_module import make_plan
from toast.pipeline.write_result import write_result
from toast.request.settings import make_request
from toast.verify.verification import verify


@pytest.mark.parametrize(
    "mesh",
    ["data=2@dcn,model=4", pytest.param("model=4,data=2@dcn", marks=pytest.mark.nightly)],
)
def test_a_plan_over_slices_agrees_with_the_step(mesh: str, tmp_path: Path) -> None:
    module = module_of(("gpt", "tiny", True))
    request = make_request(
        mesh=mesh,
        device="tpu-v5e",
        rollouts=300,
        threads=1,
        pins=("batch/**=data,None,None", "state/params/layers/up/kernel=None,None,model"),
    )
    result = make_plan(module, request)
    write_result(tmp_path, result)
    (tmp_path / "original.mlirbc").write_bytes(module)
    found = verify(tmp_path)
    assert found.verdict == "equal"
    assert found.devices == 8
    assert found.collectives, "pinned as they are, both axes take communication"
