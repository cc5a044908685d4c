"""What a job leaves in its directory: the sharded module, the summary and the plan."""

from __future__ import annotations

import os
from pathlib import Path

from toast.analysis.errors import ModuleTooLarge
from toast.analysis.gc_pause import collector_paused
from toast.costmodel.hardware.quantities import format_bytes
from toast.plans.plan import Plan
from toast.plans.result import PlanResult
from toast.plans.summary import PlanSummary


def write_result(directory: Path, result: PlanResult, plan_bytes: int | None = None) -> None:
    """Write `plan.json`, what it sums up to, and the sharded module.

    The plan is read again first: who takes these files from here trusts that it fits its schema.
    Raises `ModuleTooLarge` for a plan above `plan_bytes`.
    """
    text = result.plan.to_json().encode()
    if plan_bytes is not None and len(text) > plan_bytes:
        raise ModuleTooLarge(
            f"The plan has {format_bytes(len(text))}, where the limit is "
            f"{format_bytes(plan_bytes)}.",
            "Stack what repeats into fewer arguments, or ask the operator for a higher limit.",
        )
    with collector_paused():  # of 300,000 arguments that is 3 s in place of 20
        read = Plan.from_json(text)
    summary = PlanSummary.of(read).model_dump_json(exclude_none=True)
    write_atomically(directory / f"sharded{result.suffix}", result.module)
    write_atomically(directory / "summary.json", summary.encode())
    write_atomically(directory / "plan.json", text)


def write_atomically(path: Path, data: bytes) -> None:
    """Temporary file, fsync, rename: a reader sees all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
