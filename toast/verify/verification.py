"""Run the sharded module against the original on virtual devices and compare every result.

`verify` reads what `toast plan -o DIR` left: `plan.json`, `original<suffix>` and
`sharded<suffix>`. The work is done in a child process (`toast.verify.child`), because XLA may
abort and because the number of virtual CPU devices is fixed when a process starts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError, computed_field

from toast.analysis.errors import InvalidRequest
from toast.costmodel.hardware.quantities import format_bytes
from toast.plans.plan import Plan
from toast.process.outcome import EngineFailed
from toast.process.runner import Event, python_module, run

SUFFIXES = (".mlir", ".mlirbc", ".jax_export")
MAX_DEVICES = 256
XLA, REFERENCE = "xla", "reference"
EXECUTORS = (XLA, REFERENCE)
EXPLICIT = ("collectives", "local")
"""The forms that have their collectives in them, which XLA's partitioner does not take."""
SCALED_BYTES = 64 << 20
"""What a scaled-down program may take: it is to be quick, and its structure is what counts."""
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
CGROUP_USED = Path("/sys/fs/cgroup/memory.current")


Verdict = Literal["equal", "differs", "untold"]
"""Whether the sharded module computes the same; `untold` where the run cannot say."""


class Difference(BaseModel):
    """How far one result of the sharded module is from the original's.

    `largest` is the largest absolute difference, `scale` the largest magnitude of the original,
    `relative` their quotient, which `tolerance` bounds; `rms` is the root mean square of the
    difference over that of the result, which `rms_tolerance` bounds. Values that are not finite
    have to be so in the same places, and those that are no floats have to be equal: `mismatched`
    counts what is not. `why` says what speaks for a verdict that is not plain.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    name: str
    shape: list[int]
    dtype: str
    largest: float
    scale: float
    relative: float
    tolerance: float
    rms: float
    rms_tolerance: float
    mismatched: int
    finite: bool
    verdict: Verdict
    why: str = ""

    @property
    def excess(self) -> float:
        """How far it is beyond what is allowed; up to 1 is within."""
        pairs = (self.relative, self.tolerance), (self.rms, self.rms_tolerance)
        return max(found / max(allowed, 1e-30) for found, allowed in pairs)


class ScaledSize(BaseModel):
    """A size that arguments have, and that of the smaller program in its place.

    `of` names one of the `dimensions` that have it; `kept` says why it stayed, where it did.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    old: int
    new: int
    of: str
    dimensions: int
    kept: str = ""


class Verification(BaseModel):
    """The comparison of all results; `seconds` by stage.

    `input_scale` is what the inputs were multiplied by until the program was well conditioned.
    `wide` says that the pair was run in 64-bit floats: in its own it could not be told equal.
    `scaled` are the sizes of a smaller program that was run in place of the planned one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    devices: int
    seed: int
    input_scale: float
    wide: bool
    scaled: list[ScaledSize]
    differences: list[Difference]
    collectives: dict[str, int]
    seconds: dict[str, float]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Verdict:
        """`differs` where any result does, `untold` where most are, else `equal`.

        A program may have a result that is nothing but rounding (the gradient of a bias that a
        softmax takes no notice of), so a few that say nothing do not keep the others from it.
        """
        found = Counter(difference.verdict for difference in self.differences)
        if found["differs"]:
            return "differs"
        return "untold" if found["untold"] > found["equal"] else "equal"

    @property
    def worst(self) -> Difference | None:
        """The result that speaks most for the verdict."""
        rows = [row for row in self.ranked() if row.verdict == self.verdict]
        return next(iter(rows), None)

    def ranked(self) -> list[Difference]:
        """The results, those that speak most against being equal first."""
        order = ("differs", "untold", "equal")
        return sorted(self.differences, key=lambda d: (order.index(d.verdict), -d.excess))


def verify(
    directory: Path,
    *,
    seed: int = 0,
    executor: str | None = None,
    scale: bool = False,
    deadline_s: float | None = 600.0,
    on_stage: Callable[[str], None] | None = None,
) -> Verification:
    """Compare the two modules in `directory` on as many virtual devices as the plan's mesh has.

    `executor` is `xla`, or `reference` for the forms that have their collectives in them; the one
    that runs the form when None. Where this host has too little memory for them, or with `scale`,
    programs with the same ops and smaller dimensions are compared in their place. Raises ToastError
    when the files are not there, when nothing fits the memory, and when XLA refuses or aborts.
    """
    plan = read_plan(directory)
    find_module(directory, "original")
    find_module(directory, "sharded")
    chosen = executor_for(plan, executor)
    devices = math.prod(axis.size for axis in plan.mesh.axes)
    budget = scaled_budget(plan, devices, wanted=scale)
    found: list[Verification] = []

    def on_event(event: Event) -> None:
        if event.get("event") == "verification":
            found.append(_verification(event["verification"]))
        elif event.get("event") == "stage" and on_stage is not None:
            on_stage(str(event.get("stage")))

    outcome = run(
        directory,
        command=[
            *python_module("toast.verify.child"),
            str(directory),
            str(seed),
            chosen,
            str(budget),
        ],
        environment={
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices if chosen == XLA else 1}"
        },
        on_event=on_event,
        deadline_s=deadline_s,
    )
    outcome.raise_for_error()
    if not found:
        raise EngineFailed("The comparison ended without a result.", "Please report this.")
    return found[0]


def form_of(plan: Plan) -> str:
    """The form in which a plan's module is written."""
    return "flat" if plan.request is None else plan.request.form or "flat"


def executor_for(plan: Plan, executor: str | None) -> str:
    """The executor to run a plan's module with; raises InvalidRequest where it does not run it."""
    form = form_of(plan)
    wanted = REFERENCE if form in EXPLICIT else XLA
    if executor is None or executor == wanted:
        return wanted
    if executor not in EXECUTORS:
        raise InvalidRequest(
            f"There is no executor {executor!r}.", f"Known: {', '.join(EXECUTORS)}."
        )
    if executor == REFERENCE:
        raise InvalidRequest(
            f"The reference executor runs modules that have their collectives in them, and this "
            f"one has the form {form}.",
            "Plan with --form collectives or --form local.",
        )
    check_partitionable(plan)
    return wanted


def check_partitionable(plan: Plan) -> None:
    """Refuse a module that has its collectives in it; raises InvalidRequest."""
    form = form_of(plan)
    if form in EXPLICIT:
        raise InvalidRequest(
            f"XLA's partitioner does not take a module in the form {form}.",
            "Use --executor reference, or plan with another --form.",
        )


def read_plan(place: Path) -> Plan:
    """The plan at `place`, its file or the directory that holds it.

    Raises ToastError where there is none that can be read.
    """
    path = place if place.is_file() else place / "plan.json"
    try:
        return Plan.from_json(path.read_bytes())
    except OSError:
        raise InvalidRequest(
            f"There is no plan at {path}.", "Give the directory that `toast plan -o DIR` wrote."
        ) from None
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise InvalidRequest(
            f"{path} does not fit the schema of plans at {where or 'its start'}.",
            "It was written by another version, or is damaged; plan again.",
        ) from None


def find_module(directory: Path, name: str) -> Path:
    """The file `name` in `directory`, with whichever suffix it has."""
    for suffix in SUFFIXES:
        if (path := directory / f"{name}{suffix}").is_file():
            return path
    raise InvalidRequest(
        f"There is no {name}.mlir, {name}.mlirbc or {name}.jax_export in {directory}.",
        "Give the directory that `toast plan -o DIR` wrote.",
    )


def host_bytes_needed(plan: Plan, devices: int) -> int:
    """Host memory of the comparison: inputs, moved ones, three runs' results, and what runs."""
    results = sum(_tensor_bytes(tensor.shape, tensor.dtype) for tensor in plan.results)
    arguments = sum(_tensor_bytes(tensor.shape, tensor.dtype) for tensor in plan.arguments)
    sharded = devices * plan.predicted.peak_bytes
    return 2 * arguments + 3 * results + max(sharded, plan.unsharded.peak_bytes)


def scaled_budget(plan: Plan, devices: int, *, wanted: bool) -> int:
    """Bytes that a smaller program may take in place of the planned one; 0 to run that one.

    Raises `InvalidRequest` for more devices than one host plays.
    """
    if devices > MAX_DEVICES:
        raise InvalidRequest(
            f"The plan is for {devices} devices and one host plays at most {MAX_DEVICES}.",
            "Plan the same module for a smaller mesh with the same axes and verify that.",
        )
    there = available_bytes()
    needed = host_bytes_needed(plan, devices)
    if not wanted and needed <= there:
        return 0
    if form_of(plan) == "local":
        raise InvalidRequest(
            f"A module in the form local cannot be scaled down. It needs about "
            f"{format_bytes(needed)} of host memory, and {format_bytes(there)} are available.",
            "Plan with --form collectives, which is the same program before it is cut.",
        )
    return min(SCALED_BYTES, there // 2)


def available_bytes() -> int:
    """Memory that a new process may use here, by the machine and by its control group."""
    available = int(psutil.virtual_memory().available)
    try:
        limit = int(CGROUP_LIMIT.read_text())
        return min(available, limit - int(CGROUP_USED.read_text()))
    except (OSError, ValueError):
        return available


def _verification(event: dict[str, Any]) -> Verification:
    """What the child sent; the verdict follows from the rest."""
    return Verification.model_validate({k: v for k, v in event.items() if k != "verdict"})


def _tensor_bytes(shape: list[int], dtype: str) -> int:
    bits = re.search(r"\d+", dtype)
    return math.prod(shape) * max(int(bits[0]) if bits else 8, 8) // 8
