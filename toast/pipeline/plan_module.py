"""The main job: bytes and a request in, a plan and the sharded module out.

Runs in the calling process, which MLIR may abort; `toast.plan` and the service call it in a child.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from toast.analysis.analyse import analyse
from toast.analysis.errors import InvalidRequest
from toast.analysis.forms import check_version
from toast.analysis.gc_pause import collector_paused
from toast.analysis.limits import ModuleLimits
from toast.analysis.load import Source, load
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import Device, find
from toast.costmodel.network.auto_mesh import meshes
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import ResolvedPlan, resolve
from toast.emit.forms.write import write_form
from toast.emit.specs import Specs
from toast.explain.explainer import Explainer
from toast.labels.decisions import decision_names
from toast.labels.labels import Labels
from toast.pipeline.advice.advise import SECONDS, Misfit, advise
from toast.pipeline.alternatives import plan_colours
from toast.pipeline.confirm import confirmer_for, with_confirmation
from toast.pipeline.confirmed_variant import with_compiler
from toast.pipeline.describe import Planned, describe
from toast.pipeline.helpers import Helpers, start_helpers
from toast.pipeline.mesh_search import END, MeshAnswer, MeshSearch
from toast.pipeline.shortfall import shortfall
from toast.pipeline.stages import Stages
from toast.pipeline.variant_search import (
    Chosen,
    VariantSearch,
    asked_variant,
    given_variant,
)
from toast.pipeline.variants import Variants
from toast.plans.alternatives import PlanColour
from toast.plans.confirmation import Confirmation
from toast.plans.explanation import Explanation, Shortfall
from toast.plans.plan import Plan
from toast.plans.result import PlanResult
from toast.process.limits import ClusterShare
from toast.request.request import PlanRequest
from toast.search.kernel_cache import warm_kernels
from toast.search.planners import PLANNERS
from toast.search.progress import Control, Progress

ALTERNATIVES, WRITE, DESCRIBE, ADVICE = 0.91, 0.92, 0.98, 0.99
"""Parts of the whole job: where what comes after the searches begins."""
_CUT_OFF = "What would fit is not known: the engine ended while it looked for that."


@collector_paused()
def make_plan(
    module: bytes,
    request: PlanRequest,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    on_plan: Callable[[PlanResult], None] | None = None,
    limits: ModuleLimits | None = None,
    cluster: ClusterShare | None = None,
) -> PlanResult:
    """Plan `module` as `request` asks, if it is within the `limits`.

    Parts of the work may run on the `cluster`: further searches, and compilations.
    `on_plan` gets a plan that does not fit before what would fit is looked for: programs of other
    sizes are made for that, over which MLIR may end the process. Raises `ToastError` for a module,
    mesh, device or setting that cannot be planned. The garbage collector waits until the end: all
    stages build upon what the first one made, and a search, of however many rollouts, makes the
    same few cycles.
    """
    device = find(request.device)
    candidates = meshes(request.mesh, device, request.slices)
    if request.planner not in PLANNERS:
        names = ", ".join(sorted(PLANNERS))
        raise InvalidRequest(f"There is no planner {request.planner!r}.", f"Known: {names}.")
    confirmer = confirmer_for(request, device, candidates, cluster)
    helpers = start_helpers(module, request, cluster)
    stages = Stages(on_progress)
    stages.enter("kernels", 0.01)
    warm_kernels(stages.compiling)
    maker = _Jobs(
        device=device, request=request, cancelled=cancelled, limits=limits, helpers=helpers
    )
    chosen, confirmed = _chosen(module, maker, candidates, stages), None
    if confirmer is not None:
        chosen, confirmed = with_compiler(
            confirmer,
            chosen,
            lambda less: _chosen(module, replace(maker, request=less), candidates, stages),
        )
    result = _result(chosen.module, chosen.job, chosen.answer, confirmed, on_plan)
    return _told(result, module, chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Jobs:
    """Makes the search of a module: the one that came, or one that it was rewritten to."""

    device: Device
    request: PlanRequest
    cancelled: Callable[[], bool] | None
    limits: ModuleLimits | None
    helpers: Helpers | None = None

    def whole(self, module: bytes, stages: Stages) -> MeshSearch:
        """That of the module as it came."""
        stages.enter("load", 0.05)
        source = load(module, self.limits)
        check_version(source.loaded.form, self.request.target_version)
        return self.of(source, stages)

    def rewritten(self, module: bytes, stages: Stages) -> MeshSearch:
        """That of a module that was made of it."""
        return self.of(load(module), stages)

    def of(self, source: Source, stages: Stages) -> MeshSearch:
        """That of a program."""
        stages.enter("analyse", 0.2)
        return MeshSearch(
            source=source,
            analysis=analyse(source.program),
            device=self.device,
            request=self.request,
            stages=stages,
            cancelled=self.cancelled,
            helpers=self.helpers,
        )


def _chosen(module: bytes, jobs: _Jobs, meshes: Sequence[Mesh], stages: Stages) -> Chosen:
    """The module as it is, or rewritten where the request asks for that."""
    request = jobs.request
    variants = Variants(module=module, request=request, limits=jobs.limits)
    base = asked_variant(variants)
    if base.is_plain:
        job = jobs.whole(module, stages)
    else:
        module, job = given_variant(variants, base, jobs.rewritten, stages)
    arguments = job.source.program.arguments
    if not (request.microbatches == "auto" or request.fit or "auto" in request.recompute):
        return Chosen(
            variant=base,
            module=module,
            job=job,
            answer=job.run(meshes),
            time=variants.record(base, arguments),
            recompute=variants.record_layers(base),
        )
    variants.arguments = arguments
    search = VariantSearch(
        variants=variants,
        base=base,
        module=module,
        whole=job,
        stages=stages,
    )
    return search.run(meshes)


def _told(result: PlanResult, module: bytes, chosen: Chosen) -> PlanResult:
    """The result with what was rewritten; the module that was planned is the one that came."""
    info = result.plan.module.model_copy(update={"sha256": hashlib.sha256(module).hexdigest()})
    warnings = [*result.plan.warnings, *chosen.job.notices]
    changed = {
        "time": chosen.time,
        "recompute": chosen.recompute,
        "module": info,
        "warnings": warnings,
    }
    return replace(result, plan=result.plan.model_copy(update=changed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Why a plan is what it is: all that `describe` knows of it but how it is written."""

    resolved: ResolvedPlan
    explanation: Explanation
    shortfall: Shortfall | None
    say: Labels
    names: list[str]
    colours: list[PlanColour]


def _result(
    module: bytes,
    job: MeshSearch,
    answer: MeshAnswer,
    confirmed: Confirmation | None,
    on_plan: Callable[[PlanResult], None] | None,
) -> PlanResult:
    """The best of what was found, with what would fit where it does not."""
    account = _account(job, answer, known_to_fit=confirmed is not None and confirmed.fits is True)
    result = _written(module, job, answer, account)
    if confirmed is not None:
        result = replace(result, plan=with_confirmation(result.plan, confirmed))
    if account.shortfall is None or not _wants_advice(job):
        return result
    if on_plan is not None:
        warnings = [*result.plan.warnings, _CUT_OFF]
        on_plan(replace(result, plan=result.plan.model_copy(update={"warnings": warnings})))
    misfit = Misfit(
        module=module,
        job=job,
        best=answer.best,
        terms=explain(account.resolved),
    )
    return replace(result, plan=_advised(result.plan, account.shortfall, misfit))


def _written(module: bytes, job: MeshSearch, answer: MeshAnswer, account: Account) -> PlanResult:
    """A plan that is accounted for: its module and its record."""
    source, stages = job.source, job.stages
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


def _account(job: MeshSearch, answer: MeshAnswer, *, known_to_fit: bool = False) -> Account:
    """Explain the best plan; the terms of its price, many for a large program, end here.

    What is `known_to_fit`, whatever its price says, lacks nothing.
    """
    stages, best = job.stages, answer.best
    stages.enter("explain", END)
    resolved = resolve(best.problem.evaluator, best.found.decisions)
    explainer = Explainer(job.source, best.problem.evaluator)
    terms = explain(resolved)
    explanation = explainer.explanation(terms)
    missing = None
    if not known_to_fit:
        missing = shortfall(explainer, terms, best.problem, resolved, best.demands)
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


def _advised(plan: Plan, missing: Shortfall, misfit: Misfit) -> Plan:
    """The plan with what would fit, for which some seconds are spent."""
    job = misfit.job
    job.stages.enter("advice", ADVICE, 1.0)
    control = Control(on_progress=job.stages.report, budget=SECONDS)
    if job.cancelled is not None:
        control.cancelled = job.cancelled
    missing = missing.model_copy(update={"advice": advise(misfit, control)})
    stages = job.stages.until_now(job.source)
    return plan.model_copy(update={"shortfall": missing, "stages": stages})
