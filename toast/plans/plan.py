"""`plan.json`: what was decided, what it is predicted to cost, and how it was found."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from toast.plans.alternatives import PlanColour
from toast.plans.confirmation import Confirmation
from toast.plans.conflicts import ResolvedConflicts
from toast.plans.costs import BandSource, FitVerdict, PredictedCost
from toast.plans.explanation import Explanation, Shortfall
from toast.plans.migration import migrated
from toast.plans.recomputation import RecomputedPlan
from toast.plans.record import Record
from toast.plans.time import TimeAxes
from toast.request.request import PlanRequest
from toast.search.pairwise.proofs import Proof

if TYPE_CHECKING:
    from toast.plans.reasons import Reasons

Kind = Literal["train", "prefill", "decode", "infer", "unknown"]
_DIMENSION = re.compile(r"[.:]")
"""Where the name of a network ends in a place."""
Spec = list[list[str]]
"""A PartitionSpec: for each dimension the mesh axes that shard it, major first; [] is whole."""


class MeshAxis(Record):
    """One axis of the device mesh.

    `places` are the networks that it was priced over, the fastest first: `nvlink:8`, `ici.x:4`.
    `across` parts of it, the major ones, lie in different slices of TPUs or nodes of GPUs.
    """

    name: str
    size: int = Field(ge=1)
    places: list[str] = Field(default_factory=list)
    across: int = Field(default=1, ge=1)

    @property
    def inside(self) -> int:
        """How many devices along the axis are in one slice."""
        return self.size // self.across


class MeshSpec(Record):
    """The logical device mesh, major axis first."""

    axes: list[MeshAxis]

    @property
    def slices(self) -> int:
        """In how many slices of TPUs or nodes of GPUs the devices are."""
        return math.prod(axis.across for axis in self.axes)

    def networks(self, names: Iterable[str]) -> list[str]:
        """The networks that a collective over these axes crosses, as the axes have them."""
        wanted = set(names)
        over = (place for axis in self.axes if axis.name in wanted for place in axis.places)
        return list(dict.fromkeys(_DIMENSION.split(place)[0] for place in over))


class ModuleInfo(Record):
    """Which module was planned."""

    sha256: str
    ops: int
    arguments: int


class Tensor(Record):
    """An argument or a result of `main` and its layout.

    `colours` has for each dimension the `id` of its colour among `colours` of the plan, -1 for a
    dimension that has none; it is empty in plans of older versions.
    """

    index: int
    name: str
    shape: list[int]
    dtype: str
    spec: Spec
    colours: list[int] = Field(default_factory=list)


class Group(Record):
    """Arguments that share shape, dtype and layout; the rows of the layout table."""

    name: str
    shape: list[int]
    dtype: str
    spec: Spec
    arguments: list[int]


class Constraint(Record):
    """A value inside the module pinned to a layout; `value` is `op_index:op_name#result`."""

    value: str
    spec: Spec


class Pin(Record):
    """A layout that the caller or the module asked for.

    `required` ones are always kept; a hint may be overruled, and then `kept` is False.
    """

    target: str
    spec: Spec
    source: Literal["request", "module"]
    required: bool
    kept: bool


class Baseline(PredictedCost):
    """The cost of a reference layout, by name."""

    name: str


class Collective(Record):
    """All collectives of one kind over one set of mesh axes; bytes are per device and step."""

    kind: Literal[
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "collective_permute",
    ]
    axes: list[str]
    count: int
    bytes: int
    seconds: float


class Decision(Record):
    """One decision of the plan, in order.

    Without `places` an action on a colour. With them a refinement below the colour level: the
    parameters, values and ops at which the axis is elsewhere than the colour has it. A refinement
    is none of the `decisions` of a request, which asks for it by `refine`.

    `cost_after` is C(s) of the plan up to here; `step_seconds_after` and `peak_bytes_after` are
    what a step takes then (None in plans of older versions). `resolved` says in words what each
    bit of the resolution takes.
    """

    colour: str
    axis: str
    resolution: str
    places: list[str] = Field(default_factory=list)
    cost_after: float
    step_seconds_after: float | None = None
    peak_bytes_after: int | None = None
    resolved: list[str] = Field(default_factory=list)


class Choice(PredictedCost):
    """A plan to choose from: none that was seen is faster and smaller at once.

    `decisions` make it again, as `decisions` of a request; `chosen` is this very plan.
    Costs and decisions are those before refinements.
    """

    decisions: list[str]
    chosen: bool


class MeshTried(Record):
    """A mesh that was tried, and what its best plan costs.

    `reason` says why it was not planned, or not searched to the end; `chosen` is this plan's mesh.
    """

    mesh: str
    predicted: PredictedCost | None = None
    reason: str = ""
    chosen: bool


class SearchInfo(Record):
    """How the plan was found, in how many `searches`, with seeds from `seed` on."""

    planner: str
    seed: int
    searches: int = 1
    threads: int
    rollouts: int
    evaluations: int
    seconds: float
    penalty: float | None = None
    overlap: float = 0.0
    termination: Literal["converged", "rollouts", "budget", "cancelled", "exhausted", "given"]
    cost: float


class Unpriced(Record):
    """Ops that have no sharding rule or no price of their own."""

    op: str
    count: int
    reason: Literal["no_rule", "no_price", "unknown_trip_count"]


class Plan(Record):
    """The whole of `plan.json`.

    `lower_bound`, where one is known: no state of this search has a lower cost (as `search.cost`,
    relative to the unsharded module). `gap` is how far the plan may be from it, as a part of the
    plan's cost; `relaxation` how the bound was found.

    `choices` are up to ten plans on the front of time against memory, by rising peak; `meshes`
    those that were tried where the mesh was to be chosen; `request` is what was asked. `colours`
    are the named dimensions, with what each would cost otherwise. `confirmed` is what the compiler
    said, where it was asked. `time` says what was rewritten, where the batch runs in microbatches,
    and `recompute` which layers the backward pass makes again.
    `program_kind` is what the module seems to be for, and `band_sources`
    are the held-out programs by which the bands around predictions were made.
    """

    schema_: Literal[2] = Field(default=2, alias="schema")
    mesh: MeshSpec
    device: str
    memory_bytes: int
    module: ModuleInfo
    arguments: list[Tensor]
    results: list[Tensor]
    groups: list[Group]
    constraints: list[Constraint]
    pins: list[Pin] = Field(default_factory=list)
    program_kind: Kind | None = None
    band_sources: list[BandSource] = Field(default_factory=list)
    predicted: PredictedCost
    unsharded: PredictedCost
    baselines: list[Baseline]
    collectives: list[Collective]
    decisions: list[Decision]
    colours: list[PlanColour] = Field(default_factory=list)
    choices: list[Choice] = Field(default_factory=list)
    meshes: list[MeshTried] = Field(default_factory=list)
    request: PlanRequest | None = None
    search: SearchInfo
    lower_bound: float | None = Field(default=None, ge=0)
    gap: float | None = Field(default=None, ge=0, le=1)
    relaxation: Proof | None = None
    stages: dict[str, float]
    unpriced: list[Unpriced]
    warnings: list[str]
    versions: dict[str, str]
    conflicts: ResolvedConflicts | None = None
    explanation: Explanation | None = None
    shortfall: Shortfall | None = None
    confirmed: Confirmation | None = None
    time: TimeAxes | None = None
    recompute: RecomputedPlan | None = None

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _take_older_schemas(cls, fields: Any) -> Any:
        return migrated(fields) if isinstance(fields, dict) else fields

    @property
    def fits(self) -> bool:
        """Whether it fits the memory: by the compiler where it was asked, else as predicted."""
        said = None if self.confirmed is None else self.confirmed.fits
        return self.predicted.fits if said is None else said

    @property
    def verdict(self) -> FitVerdict:
        """The same, or `tight` where the prediction is too near the memory to tell."""
        said = None if self.confirmed is None else self.confirmed.fits
        return self.predicted.said if said is None else "fits" if said else "does not fit"

    def __str__(self) -> str:
        """The tables that `toast plan` prints."""
        from toast.plans.report import as_text

        return as_text(self)

    def to_json(self) -> str:
        """The text of `plan.json`."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"

    def partition_specs(self, tree: Any, argument: str | None = None) -> Any:
        """A tree of `jax.sharding.PartitionSpec`s, one for each leaf of `tree`.

        `tree` is an argument of the planned function. Its paths and shapes say which one, or
        `argument` does, the name of a parameter. Leaves that the program leaves out are whole.
        """
        from toast.plans.partition_specs import partition_specs

        return partition_specs(self, tree, argument)

    def report(self, path: str | Path = "report.html", title: str = "Sharding plan") -> Path:
        """Write one HTML page that shows all of the plan; it needs no other file and no network."""
        from toast.plans.page import report_html

        written = Path(path)
        written.write_text(report_html(self, title), encoding="utf-8")
        return written

    def _repr_html_(self) -> str:
        """What a notebook shows: the head of the report."""
        from toast.plans.page import head_html

        return head_html(self)

    def explain(self, pattern: str) -> Reasons:
        """Why what `pattern` matches is laid out as it is, and what else it would cost.

        The pattern is a path as `params/layers/*/wq` of arguments, results or explained values
        (docs/cli.md has the patterns), or a colour; printed, the answer is tables. Raises
        `InvalidRequest` where nothing matches.
        """
        from toast.plans.reasons import reasons

        return reasons(self, pattern)

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Read `plan.json`, of this schema or an older one.

        Raises `pydantic.ValidationError` where it does not fit the schema.
        """
        return cls.model_validate_json(text)
