"""Lookups of one element of each row, with the rows over all devices, compute what they should.

What is sent for them is XLA's matter: the compilers of TPUs and GPUs send nothing
(`benchmarks/probes/rows_and_sums.py`), the one of processors does not see the iota.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.probes.rows_and_sums import STEPS, module
from toast.pipeline.plan_module import make_plan
from toast.pipeline.write_result import write_result
from toast.request.settings import make_request
from toast.verify.verification import verify


@pytest.mark.parametrize("step", ["an element of each row", "its gradient"])
def test_rows_over_all_devices_agree_with_the_step(step: str, tmp_path: Path) -> None:
    text = module(STEPS[step])
    request = make_request(
        mesh="data=8", device="tpu-v5e", rollouts=100, threads=1, pins=("arg0=data,None,None",)
    )
    write_result(tmp_path, make_plan(text, request))
    (tmp_path / "original.mlirbc").write_bytes(text)
    found = verify(tmp_path)
    assert (found.verdict, found.devices) == ("equal", 8)
