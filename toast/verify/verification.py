"""Run the sharded module against the original on virtual devices and compare every result.

`verify` reads what `toast plan -o DIR` left: `plan.json`, `original<suffix>` and
`sharded<suffix>`. The work is done in a child process (`toast.verify.child`), because XLA may
abort and because the number of virtual CPU devices is fixed when a process starts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

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
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
CGROUP_USED = Path("/sys/fs/cgroup/memory.current")


class Difference(BaseModel):
    """How far one result of the sharded module is from the original's.

    `largest` is the largest absolute difference, `scale` the largest magnitude of the original,
    `relative` their quotient, which is what `tolerance` bounds. Values that are not finite have
    to be so in the same places; `mismatched` counts those that are not.
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
    mismatched: int
    finite: bool
    ok: bool


class Verification(BaseModel):
    """The comparison of all results; `seconds` by stage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    devices: int
    seed: int
    differences: list[Difference]
    collectives: dict[str, int]
    seconds: dict[str, float]

    @property
    def ok(self) -> bool:
        """Whether every result is within its tolerance."""
        return all(difference.ok for difference in self.differences)

    @property
    def worst(self) -> Difference | None:
        """The result that is furthest from the original, relative to its tolerance."""
        by_excess = sorted(
            self.differences, key=lambda d: (d.ok, -(d.relative / max(d.tolerance, 1e-30)))
        )
        return by_excess[0] if by_excess else None


def verify(
    directory: Path,
    *,
    seed: int = 0,
    executor: str | None = None,
    deadline_s: float | None = 600.0,
    on_stage: Callable[[str], None] | None = None,
) -> Verification:
    """Compare the two modules in `directory` on as many virtual devices as the plan's mesh has.

    `executor` is `xla`, or `reference` for the forms that have their collectives in them; the one
    that runs the form when None. Raises ToastError when the files are not there, when the host has
    too little memory for the run, and when XLA refuses or aborts.
    """
    plan = read_plan(directory)
    find_module(directory, "original")
    find_module(directory, "sharded")
    chosen = executor_for(plan, executor)
    devices = math.prod(axis.size for axis in plan.mesh.axes)
    check_host(plan, devices)
    found: list[Verification] = []

    def on_event(event: Event) -> None:
        if event.get("event") == "verification":
            found.append(Verification.model_validate(event["verification"]))
        elif event.get("event") == "stage" and on_stage is not None:
            on_stage(str(event.get("stage")))

    outcome = run(
        directory,
        command=[*python_module("toast.verify.child"), str(directory), str(seed), chosen],
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
    return "flat" if plan.request is None else plan.request.form


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
    """Host memory of the comparison: every device's peak, the original's, and both results."""
    results = sum(_tensor_bytes(tensor.shape, tensor.dtype) for tensor in plan.results)
    arguments = sum(_tensor_bytes(tensor.shape, tensor.dtype) for tensor in plan.arguments)
    sharded = devices * plan.predicted.peak_bytes
    return arguments + 2 * results + max(sharded, plan.unsharded.peak_bytes)


def check_host(plan: Plan, devices: int) -> None:
    """Refuse a comparison that this host cannot hold."""
    if devices > MAX_DEVICES:
        raise InvalidRequest(
            f"The plan is for {devices} devices and one host plays at most {MAX_DEVICES}.",
            "Plan the same module for a smaller mesh with the same axes and verify that.",
        )
    needed, there = host_bytes_needed(plan, devices), available_bytes()
    if needed > there:
        raise InvalidRequest(
            f"Verifying needs about {format_bytes(needed)} of host memory and "
            f"{format_bytes(there)} are available.",
            "Verify a smaller preset of the same step (fewer layers, smaller sizes).",
        )


def available_bytes() -> int:
    """Memory that a new process may use here, by the machine and by its control group."""
    available = int(psutil.virtual_memory().available)
    try:
        limit = int(CGROUP_LIMIT.read_text())
        return min(available, limit - int(CGROUP_USED.read_text()))
    except (OSError, ValueError):
        return available


def _tensor_bytes(shape: list[int], dtype: str) -> int:
    bits = re.search(r"\d+", dtype)
    return math.prod(shape) * max(int(bits[0]) if bits else 8, 8) // 8
