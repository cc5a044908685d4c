"""How one run of the engine ended, and the errors that are not the module's fault."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from toast.analysis.errors import ToastError

Status = Literal[
    "done",
    "cancelled",
    "deadline",
    "error",
    "crashed",
    "out_of_memory",
    "stalled",
    "failed",
    "away",
]


class EngineFailed(ToastError):
    """The engine ended for a reason that the module did not cause: killed, or a bug of ours."""

    code: ClassVar[str] = "engine_failed"
    status: ClassVar[int] = 500


class EngineOutOfMemory(ToastError):
    """The engine needed more memory than the job may use."""

    code: ClassVar[str] = "engine_out_of_memory"
    status: ClassVar[int] = 422


class EngineTimeout(ToastError):
    """The deadline passed before the engine had any plan."""

    code: ClassVar[str] = "engine_timeout"
    status: ClassVar[int] = 422


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one run of the engine ended.

    `status` is `done`, or why it stopped: `cancelled` and `deadline` still have a plan when
    `suffix` is set; `error` is the user's, `crashed` an abort in XLA or MLIR, `out_of_memory`
    the limit of the caller, `stalled` a process that was stopped or hung, `away` a cluster that
    could not run it, `failed` everything else. `stderr` is the last 4 KiB.
    """

    status: Status
    directory: Path
    suffix: str | None = None
    error: ToastError | None = None
    exit_code: int | None = None
    stderr: str = ""
    seconds: float = 0.0
    peak_rss_bytes: int = 0

    @property
    def has_plan(self) -> bool:
        """Whether `plan_path` and `module_path` exist."""
        return self.suffix is not None

    @property
    def plan_path(self) -> Path:
        """Where `plan.json` is."""
        return self.directory / "plan.json"

    @property
    def summary_path(self) -> Path:
        """Where the few figures of the plan are; a reader bounds them (`toast.plans.summary`)."""
        return self.directory / "summary.json"

    @property
    def module_path(self) -> Path:
        """Where the sharded module is; only when there is a plan."""
        if self.suffix is None:
            raise ValueError("this run of the engine ended without a plan")
        return self.directory / f"sharded{self.suffix}"

    def raise_for_error(self) -> None:
        """Raise `error` when the run ended without what it was asked for."""
        if self.error is not None:
            raise self.error
