"""The main job: bytes and a request in, a plan and the sharded module out.

Runs in the calling process, which MLIR may abort; `toast.plan` and the service call it in a child.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from analysis.analyse import Analysis, analyse
from analysis.errors import InvalidMesh, InvalidRequest
from analysis.load import Source, load
from costmodel.devices import Device, find
from costmodel.evaluator import PENALTY, Evaluator
from costmodel.mesh import Mesh
from search.actions import action_space
from search.closest import closest_to_fitting
from search.planners import PLANNERS
from search.problem import Found, Problem, Settings
from search.progress import Control, Progress
from search.warm import warm_kernels
from toast.explaining import Explainer
from toast.obstacles import shortfall
from toast.pinning import Demands, demands
from toast.planfile import Plan
from toast.planmaking import Planned, describe
from toast.request import PlanRequest
from toast.settings import threads_of
from toast.specs import Specs
from toast.writer import write


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """A plan and the sharded module, in the form that the module came in."""

    plan: Plan
    module: bytes
    suffix: str


def make_plan(
    module: bytes,
    request: PlanRequest,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> PlanResult:
    """Plan `module` as `request` asks.

    Raises `ToastError` for a module, mesh, device or setting that cannot be planned.
    """
    mesh, device = Mesh.parse(request.mesh), find(request.device)
    if request.planner not in PLANNERS:
        names = ", ".join(sorted(PLANNERS))
        raise InvalidRequest(f"There is no planner {request.planner!r}.", f"Known: {names}.")
    stages = _Stages(on_progress)
    stages.enter("kernels", 0.01)
    warm_kernels()
    stages.enter("load", 0.05)
    source = load(module)
    stages.enter("analyse", 0.2)
    analysis = analyse(source.program)
    stages.enter("tables", 0.3)
    demanded = demands(source, mesh, request.pins, request.forbid)
    problem = _problem(analysis, mesh, device, request, demanded)
    _check_divisible(problem, mesh)
    stages.enter("search", 0.4)
    found = _search(problem, request, stages, cancelled)
    stages.enter("explain", 0.9)
    explainer = Explainer(source, problem.evaluator)
    terms = explainer.terms(found.state)
    explanation = explainer.explanation(terms)
    missing = shortfall(explainer, terms, problem, found.state, demanded)
    stages.enter("write", 0.92)
    specs = Specs(problem.evaluator, found.state, values=demanded.values, uses=demanded.uses)
    pins = specs.pins()
    written = write(source, mesh, specs, pins, frozenset(demanded.values))
    stages.enter("describe", 0.98)
    planned = Planned(
        module=module,
        source=source,
        problem=problem,
        found=found,
        specs=specs,
        pins=pins,
        demands=demanded,
        explanation=explanation,
        shortfall=missing,
    )
    plan = describe(planned, request, stages.finish(source))
    return PlanResult(plan=plan, module=written, suffix=source.loaded.form.suffix)


def _problem(
    analysis: Analysis, mesh: Mesh, device: Device, request: PlanRequest, demanded: Demands
) -> Problem:
    evaluator = Evaluator(analysis, mesh, device, demanded.pins(mesh), overlap=request.overlap)
    memory = request.memory or device.plannable_bytes
    return Problem(
        evaluator=evaluator,
        reward=evaluator.reward(float(memory), request.penalty or PENALTY),
        actions=action_space(evaluator),
    )


def _check_divisible(problem: Problem, mesh: Mesh) -> None:
    """A mesh that divides no dimension of any argument cannot shard anything."""
    program = problem.evaluator.analysis.program
    sizes = {size for argument in program.arguments for size in program.shape(argument.value)}
    axes = [axis.size for axis in mesh.axes if axis.size > 1]
    if problem.actions or not sizes or any(size % n == 0 for size in sizes for n in axes):
        return
    raise InvalidMesh(
        f"No dimension of the module is divisible by an axis of the mesh {mesh}.",
        "Choose axis sizes that divide a dimension of the inputs or parameters.",
    )


def _search(
    problem: Problem,
    request: PlanRequest,
    stages: _Stages,
    cancelled: Callable[[], bool] | None,
) -> Found:
    defaults = Settings()
    settings = replace(
        defaults,
        seed=request.seed,
        threads=threads_of(request),
        rollouts=request.rollouts or defaults.rollouts,
    )
    control = Control(on_progress=stages.report, budget=request.budget)
    if cancelled is not None:
        control.cancelled = cancelled
    found = PLANNERS[request.planner](problem, settings, control)
    return closest_to_fitting(problem, found, control, settings.threads)


class _Stages:
    """Times the stages of a job and reports its progress."""

    def __init__(self, on_progress: Callable[[Progress], None] | None) -> None:
        self._on_progress = on_progress
        self._start = self._entered = time.perf_counter()
        self._stage = ""
        self._fraction = 0.0
        self._seconds: dict[str, float] = {}

    def enter(self, stage: str, fraction: float) -> None:
        """Begin a stage; `fraction` of the whole job lies behind it."""
        now = time.perf_counter()
        if self._stage:
            self._seconds[self._stage] = now - self._entered
        self._stage, self._fraction, self._entered = stage, fraction, now
        self._tell(Progress(stage=stage, fraction=fraction))

    def report(self, progress: Progress) -> None:
        """Progress of the search within the job."""
        whole = self._fraction + (0.9 - self._fraction) * progress.fraction
        self._tell(replace(progress, fraction=whole))

    def finish(self, source: Source) -> dict[str, float]:
        """Seconds by stage; loading is split into its own stages."""
        seconds = dict(self._seconds)
        seconds.pop("load", None)
        loading = {f"load.{stage}": spent for stage, spent in source.seconds.items()}
        return {"kernels": seconds.pop("kernels"), **loading, **seconds}

    def _tell(self, progress: Progress) -> None:
        if self._on_progress is not None:
            elapsed = time.perf_counter() - self._start
            self._on_progress(replace(progress, seconds=elapsed))
