"""The main job: bytes and a request in, a plan and the sharded module out.

Runs in the calling process, which MLIR may abort; `toast.plan` and the service call it in a child.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toast.analysis.analyse import analyse
from toast.analysis.errors import InvalidRequest
from toast.analysis.gc_pause import collector_paused
from toast.analysis.load import load
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.auto_mesh import meshes
from toast.costmodel.resolved import ResolvedPlan, resolve
from toast.emit.forms.write import write_form
from toast.emit.specs import Specs
from toast.explain.explainer import Explainer
from toast.labels.decisions import decision_names
from toast.labels.labels import Labels
from toast.pipeline.advice.advise import SECONDS, Misfit, advise
from toast.pipeline.alternatives import plan_colours
from toast.pipeline.describe import Planned, describe
from toast.pipeline.mesh_search import END, MeshAnswer, MeshSearch
from toast.pipeline.shortfall import shortfall
from toast.pipeline.stages import Stages
from toast.plans.alternatives import PlanColour
from toast.plans.explanation import Explanation, Shortfall
from toast.plans.result import PlanResult
from toast.request.request import PlanRequest
from toast.search.kernel_cache import warm_kernels
from toast.search.planners import PLANNERS
from toast.search.progress import Control, Progress

ADVICE, ALTERNATIVES, WRITE, DESCRIBE = 0.9, 0.91, 0.92, 0.98
"""Parts of the whole job: where what would fit is looked for, and what comes after it begins."""


@collector_paused()
def make_plan(
    module: bytes,
    request: PlanRequest,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> PlanResult:
    """Plan `module` as `request` asks.

    Raises `ToastError` for a module, mesh, device or setting that cannot be planned. The garbage
    collector waits until the end: all stages build upon what the first one made, and a search, of
    however many rollouts, makes the same few cycles.
    """
    device = find(request.device)
    candidates = meshes(request.mesh, device)
    if request.planner not in PLANNERS:
        names = ", ".join(sorted(PLANNERS))
        raise InvalidRequest(f"There is no planner {request.planner!r}.", f"Known: {names}.")
    stages = Stages(on_progress)
    stages.enter("kernels", 0.01)
    warm_kernels(stages.compiling)
    stages.enter("load", 0.05)
    source = load(module)
    stages.enter("analyse", 0.2)
    analysis = analyse(source.program)
    job = MeshSearch(
        source=source,
        analysis=analysis,
        device=device,
        request=request,
        stages=stages,
        cancelled=cancelled,
    )
    return _result(module, job, job.run(candidates))


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Why a plan is what it is: all that `describe` knows of it but how it is written."""

    resolved: ResolvedPlan
    explanation: Explanation
    shortfall: Shortfall | None
    say: Labels
    names: list[str]
    colours: list[PlanColour]


def _result(module: bytes, job: MeshSearch, answer: MeshAnswer) -> PlanResult:
    """The best of what was found: explained, written and described."""
    source, stages = job.source, job.stages
    account = _account(module, job, answer)
    stages.enter("write", WRITE)
    specs = Specs(account.resolved)
    constraints = specs.constraints()
    written = write_form(
        job.request.form,
        data=module,
        source=source,
        mesh=answer.best.mesh,
        resolved=account.resolved,
        specs=specs,
        constraints=constraints,
        kept=frozenset(answer.best.demands.values),
        version=job.request.target_version,
    )
    stages.enter("describe", DESCRIBE)
    planned = Planned(
        module=module,
        source=source,
        request=job.request,
        answer=answer,
        specs=specs,
        constraints=constraints,
        resolved=account.resolved,
        explanation=account.explanation,
        shortfall=account.shortfall,
        say=account.say,
        names=account.names,
        colours=account.colours,
    )
    plan = describe(planned, stages.until_now(source))
    warnings = [*plan.warnings, *written.notices]
    plan = plan.model_copy(update={"stages": stages.until_now(source), "warnings": warnings})
    return PlanResult(plan=plan, module=written.data, suffix=source.loaded.form.suffix)


def _account(module: bytes, job: MeshSearch, answer: MeshAnswer) -> Account:
    """Explain the best plan; the terms of its price, many for a large program, end here."""
    stages, best = job.stages, answer.best
    stages.enter("explain", END)
    resolved = resolve(best.problem.evaluator, best.found.decisions)
    explainer = Explainer(job.source, best.problem.evaluator)
    terms = explain(resolved)
    explanation = explainer.explanation(terms)
    missing = shortfall(explainer, terms, best.problem, resolved, best.demands)
    if missing is not None and _wants_advice(job):
        stages.enter("advice", ADVICE, ALTERNATIVES)
        misfit = Misfit(
            module=module, job=job, best=best, resolved=resolved, terms=terms, say=explainer.say
        )
        missing = missing.model_copy(update={"advice": advise(misfit, _some_seconds(job))})
    names = decision_names(best.problem.evaluator.analysis)
    stages.enter("alternatives", ALTERNATIVES)
    wanted = explainer.colours(explanation)
    return Account(
        resolved=resolved,
        explanation=explanation,
        shortfall=missing,
        say=explainer.say,
        names=names,
        colours=plan_colours(best.problem, resolved, best.found, names, wanted),
    )


def _wants_advice(job: MeshSearch) -> bool:
    """Whether what would fit is looked for: on request, and only by who waits for a search."""
    cancelled = job.cancelled is not None and job.cancelled()
    return job.request.advice and job.request.decisions is None and not cancelled


def _some_seconds(job: MeshSearch) -> Control:
    """The time that this may take, ended by a cancel of the job."""
    control = Control(on_progress=job.stages.report, budget=SECONDS)
    if job.cancelled is not None:
        control.cancelled = job.cancelled
    return control
