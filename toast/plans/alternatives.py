"""What was decided about each colour, and what it would cost otherwise, as `plan.json` has it."""

from __future__ import annotations

from pydantic import Field

from toast.plans.record import Record


class MovedTensors(Record):
    """Arguments of one pattern of names that an alternative lays out otherwise: how many, and how.

    `spec` is their PartitionSpec then, as that of a `Tensor`.
    """

    name: str
    count: int
    spec: list[list[str]]


class Alternative(Record):
    """The plan with one colour decided otherwise; all other decisions stay, no search follows.

    The colour is then over `axes`, in this order, with the `resolution` of its conflicts ('' where
    it has none, or no axis). With `first` it takes them before all other decisions, which lose
    them where both meet. Figures are those of a step on one device; `cost` is C(s) of the
    search. `moved` are the arguments that change with it, the largest first; `others_moved` counts
    those that the list leaves out.
    """

    axes: list[str]
    resolution: str
    first: bool = False
    step_seconds: float
    compute_seconds: float
    communication_seconds: float
    peak_bytes: int
    fits: bool
    cost: float
    moved: list[MovedTensors] = Field(default_factory=list)
    others_moved: int = 0


class PlanColour(Record):
    """A named dimension of the program: a colour, with those of repeated layers as one.

    Tensors and values refer to it by `id`. `axes` are those that decisions give it, `decisions`
    their numbers in `decisions` of the plan, from 1. `alternatives` come cheapest first;
    `unpriced` counts those that there was no room to price.
    """

    id: int
    name: str
    axes: list[str]
    decisions: list[int]
    alternatives: list[Alternative] = Field(default_factory=list)
    unpriced: int = 0
