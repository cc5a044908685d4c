"""What the compiler of the chips said of the most promising plans, as `plan.json` has it."""

from __future__ import annotations

from typing import Literal, TypeVar

from pydantic import Field

from toast.plans.costs import PredictedCost
from toast.plans.record import Record

Kind = Literal["answer", "refined", "choice", "data_parallel", "fully_sharded"]


class CompiledCost(Record):
    """A plan's program as compiled: figures of one step on one device.

    `peak_bytes` is what it needs, None where the compiler refused and did not say. `whole` programs
    have times where the compiler estimates any; of others memory and collectives are known:
    `communication_seconds` by the formulas of predictions. `step_seconds` is one after the other,
    `makespan_seconds` with the asynchronous collectives beside computation. `estimate_seconds` is
    the time that plans are compared by: where the compiler gives none, predicted computation and
    compiled collectives. `rematerialized` counts what is computed again to save memory. `refusal`
    is the compiler's reason, '' where it has none.
    """

    peak_bytes: int | None
    fits: bool
    whole: bool
    estimate_seconds: float
    compute_seconds: float | None = None
    communication_seconds: float | None = None
    step_seconds: float | None = None
    makespan_seconds: float | None = None
    rematerialized: int = 0
    compile_seconds: float = 0.0
    cached: bool = False
    refusal: str = ""


class ConfirmedPlan(Record):
    """A plan that was put before the compiler, in search number `search` (from 1).

    `control` ones are layouts that any plan should beat. `decisions` make it again, as those of a
    request, but for its `refinements`, which are counted. `rewriting` are the flags of `toast plan`
    that make the program that was compiled, "" for the step as it came. `compiled` is None where
    there is no answer, and `note` says why, or that something was left out. `chosen` is this very
    plan.
    """

    kind: Kind
    search: int
    control: bool
    rewriting: str = ""
    decisions: list[str]
    refinements: int = 0
    predicted: PredictedCost
    compiled: CompiledCost | None = None
    note: str = ""
    chosen: bool = False


class Correction(Record):
    """What the compiled programs taught, with which search number `search` was made.

    Compiled over predicted: `memory` of bytes, `compute` of the seconds of fusions with a
    `contraction` and of `other` ones, `collectives` of each kind's seconds.
    `memory_bytes` is the limit of that search.
    """

    search: int
    reason: Literal["refused", "control"]
    memory: float
    compute: dict[str, float] = Field(default_factory=dict)
    collectives: dict[str, float] = Field(default_factory=dict)
    memory_bytes: int


Row = TypeVar("Row", ConfirmedPlan, Correction)


class Confirmation(Record):
    """Which plans were compiled, for what, and what came out.

    `fits` says it of the plan that was taken; None where no compiler answered for it. `time` is
    what plans were compared by: the `sum` of computation and collectives, or the `makespan` where
    the request has an overlap; `estimate` where the compiler gives no times, and predicted
    computation stands beside the compiled collectives. `memory_bytes` is what a plan may need.
    `reserved_bytes` were taken from the memory of the chip for that (`LIBTPU_INIT_ARGS` with
    `--xla_tpu_user_reserved_hbm_bytes` does it where the plan runs).
    """

    target: str
    compiler: str
    memory_bytes: int
    reserved_bytes: int = 0
    fits: bool | None
    time: Literal["sum", "makespan", "estimate"]
    plans: list[ConfirmedPlan]
    corrections: list[Correction] = Field(default_factory=list)
    seconds: float

    def before(self, other: Confirmation) -> Confirmation:
        """This and then the other one, whose plan was taken."""
        searches = [*(row.search for row in self.plans), *(row.search for row in self.corrections)]
        last = max(searches, default=0)
        mine = [row.model_copy(update={"chosen": False}) for row in self.plans]
        return other.model_copy(
            update={
                "plans": [*mine, *(_later(row, last) for row in other.plans)],
                "corrections": [
                    *self.corrections,
                    *(_later(row, last) for row in other.corrections),
                ],
                "seconds": round(self.seconds + other.seconds, 3),
            }
        )

    @property
    def chosen(self) -> ConfirmedPlan | None:
        """The row of the plan that was taken."""
        return next((row for row in self.plans if row.chosen), None)


def _later(row: Row, searches: int) -> Row:
    """A row of a search that so many others went before."""
    return row.model_copy(update={"search": row.search + searches})
