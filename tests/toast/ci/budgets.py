"""Budgets of small modules, and plans for them, that the tests of the gate share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.modules import text
from tests.service.harness import sample_plan
from toast.plans.plan import Plan

PLAIN = """
[models.mlp]
module = "mlp.mlir"
mesh = "data=2"
rollouts = 20
"""


def budget_file(folder: Path, content: str = PLAIN) -> Path:
    """A budget in a folder that has `mlp.mlir`, a real module, and `bad.mlir`, which is none."""
    (folder / "mlp.mlir").write_bytes(text("mlp"))
    (folder / "bad.mlir").write_text("a poem")
    path = folder / "toast.budget.toml"
    path.write_text(content)
    return path


def planned(*, sent: int = 1 << 20, **cost: Any) -> Plan:
    """The sample plan with other predictions, and one collective that sends so many bytes."""
    document = sample_plan().model_dump(mode="json", by_alias=True)
    document["predicted"] |= cost
    row = {"kind": "all_reduce", "axes": ["data"], "count": 2, "bytes": sent, "seconds": 0.05}
    document["collectives"] = [row]
    return Plan.model_validate(document)
