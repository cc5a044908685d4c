"""Rounds of proposing, compiling and choosing, and the record of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from toast.aot import Target, Verdict
from toast.aot.collective_time import CollectiveClock
from toast.aot.installed import compiler_version, installed_target
from toast.aot.pressed import reserved_for
from toast.costmodel.hardware.devices import Device, find
from toast.costmodel.hardware.quantities import format_seconds
from toast.costmodel.network.mesh import Mesh
from toast.labels.decisions import decision_names, decision_text, resolution
from toast.pipeline.bands import predicted_cost
from toast.pipeline.confirm.compilations import (
    BEATEN,
    NO_TIME,
    Compilations,
    CompilerAnswer,
    TimeLimit,
    workers_for,
)
from toast.pipeline.confirm.lessons import Lesson, corrected, lesson_of
from toast.pipeline.confirm.node_compilers import compilers_of
from toast.pipeline.confirm.proposals import ModuleWriter, controls, proposals_of
from toast.pipeline.confirm.trial import Proposal, ProposalTrial, best_of
from toast.pipeline.confirm.verdict_cache import VerdictCache, cache_folder
from toast.pipeline.mesh_search import MeshAnswer, MeshSearch, Searched
from toast.plans.confirmation import CompiledCost, Confirmation, ConfirmedPlan, Correction
from toast.plans.costs import tight_warnings
from toast.plans.plan import Plan
from toast.process.limits import ClusterShare
from toast.request.request import CONFIRM_SECONDS, PlanRequest
from toast.request.settings import threads_of
from toast.search.choices import choices
from toast.search.pareto import Point
from toast.search.problem import Problem
from toast.search.progress import Control, Progress

SEARCHES = 3
"""The search that was asked for, and twice another one where its plans do not do."""
CONFIRM = 0.9
"""The part of the whole job that lies behind when compiling begins."""
Reason = Literal["refused", "control"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmer:
    """The compiler of a request's chips, which is installed; `count` plans of each search."""

    target: Target
    count: int
    request: PlanRequest
    cluster: ClusterShare | None = None

    def confirm(
        self, module: bytes, job: MeshSearch, answer: MeshAnswer, spent: float = 0.0
    ) -> tuple[MeshAnswer, Confirmation]:
        """The best of what compiles, in the place of the answer, and what was compiled.

        Of the time that the request gives, so many seconds are `spent` already.
        """
        target = Target.for_mesh(job.device, answer.best.mesh)
        rounds = _Rounds.of(replace(self, target=target), module, job, answer, spent)
        return rounds.run()


def confirmer_for(
    request: PlanRequest,
    device: Device,
    meshes: Sequence[Mesh],
    cluster: ClusterShare | None = None,
) -> Confirmer | None:
    """The compiler that a request asks for; None where it asks for none.

    Nodes of the `cluster` compile too.
    Raises InvalidRequest where there is no compiler for the chips, or it is not installed.
    """
    if request.confirm is None:
        return None
    target = installed_target(device, meshes[0])
    return Confirmer(target=target, count=request.confirm, request=request, cluster=cluster)


@dataclass(slots=True, kw_only=True)
class _Rounds:
    """All searches of one job, and what was compiled for them."""

    confirmer: Confirmer
    job: MeshSearch
    answer: MeshAnswer
    writer: ModuleWriter
    compilations: Compilations
    clock: CollectiveClock
    memory_bytes: int
    trials: list[ProposalTrial] = field(default_factory=list)
    corrections: list[Correction] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        confirmer: Confirmer,
        module: bytes,
        job: MeshSearch,
        answer: MeshAnswer,
        spent: float,
    ) -> _Rounds:
        """Nothing is compiled yet."""
        request, target, mesh = job.request, confirmer.target, answer.best.mesh
        there = min(find(target.chip.device).usable_bytes, job.device.usable_bytes)
        memory = min(request.memory or there, there)
        reserved = reserved_for(memory, target)
        cache = VerdictCache(
            folder=cache_folder(),
            target=target,
            compiler=compiler_version(target),
            mesh=str(mesh),
            reserved_bytes=reserved,
        )
        seconds = (request.confirm_time or CONFIRM_SECONDS) - spent
        limit = TimeLimit(seconds=seconds, cancelled=job.cancelled)
        return cls(
            confirmer=confirmer,
            job=job,
            answer=answer,
            writer=ModuleWriter(module=module, request=request, best=answer.best),
            compilations=Compilations(
                target=target,
                mesh=mesh,
                cache=cache,
                limit=limit,
                reserved_bytes=reserved,
                workers=workers_for(threads_of(request)),
                nodes=compilers_of(confirmer.cluster, cache.compiler),
            ),
            clock=CollectiveClock.of(mesh, job.device),
            memory_bytes=memory,
        )

    def run(self) -> tuple[MeshAnswer, Confirmation]:
        """All rounds."""
        self.job.stages.enter("confirm", CONFIRM)
        request, given = self.job.request, self.job.request.decisions is not None
        proposals = proposals_of(self.answer, 1, self.confirmer.count, request, self._control())
        if not given:
            proposals += controls(self.answer.best, 1)
        self._compile(proposals)
        for number in range(2, SEARCHES + 1):
            reason = None if given else self._reason()
            if reason is None or self.compilations.limit.over():
                break
            if not self._search_again(number, reason):
                break
        chosen = self._chosen()
        return self._answer(chosen), self._record(chosen)

    def _control(self) -> Control:
        """What stops a search within the time that confirming has."""
        limit = self.compilations.limit
        return Control(budget=self.job.request.budget, cancelled=limit.over)

    def _reason(self) -> Reason | None:
        """Why another search is worth it: nothing fits, or a control is the best of all."""
        known = [trial for trial in self.trials if trial.verdict is not None]
        best = best_of(self.trials)
        if best is None:
            return "refused" if known else None
        return "control" if best.proposal.control else None

    def _search_again(self, number: int, reason: Reason) -> bool:
        """Search with what was learned, and compile what is new; whether anything was."""
        refused = not any(trial.fits for trial in self.trials if not trial.proposal.control)
        lesson = lesson_of(self.trials, self.clock, refused=refused, last=number == SEARCHES)
        found, limit = self._searched(lesson, refused)
        self.corrections.append(
            Correction(
                search=number,
                reason=reason,
                memory=lesson.memory,
                compute=lesson.compute,
                collectives=lesson.collectives,
                memory_bytes=limit,
            )
        )
        seen = {trial.cost.key for trial in self.trials}
        proposals = proposals_of(
            found, number, self.confirmer.count, self.job.request, self._control()
        )
        fresh = [one for one in proposals if one.cost.key not in seen]
        self._compile(fresh)
        return bool(fresh)

    def _searched(self, lesson: Lesson, refused: bool) -> tuple[MeshAnswer, int]:
        """The answer of a search by corrected prices, at the prices of the first one."""
        best, job = self.answer.best, self.job
        limit = int(best.problem.reward.memory)
        if refused:
            limit = min(limit, int(self.memory_bytes / lesson.memory))
        again = replace(
            job,
            device=corrected(job.device, lesson),
            request=job.request.model_copy(update={"memory": limit, "refine": False}),
            tried=[],
            evaluator=None,
        )
        control = self._control()
        searched = again.searched(best.mesh, control)
        state, points = choices(searched.problem, searched.found, control, again.settings().threads)
        job.stages.enter("confirm", CONFIRM)
        problem = best.problem
        found = replace(
            best.found, state=state.state, cost=problem.cost(state.state)[0], refinements=()
        )
        priced = [_priced(problem, point) for point in points]
        return MeshAnswer(best=replace(best, found=found), choices=priced, tried=[]), limit

    def _compile(self, proposals: Sequence[Proposal]) -> None:
        """Compile by memory alone where that is possible, then the best of what fits whole."""
        new = [self._trial(proposal) for proposal in proposals]
        self.trials += new
        if self.confirmer.target.chip.platform == "tpu":
            self._run(new, "laying out the memory of {}", memory_only=True)
            fitting = [trial for trial in new if trial.fits]
            ours = [trial for trial in fitting if not trial.proposal.control]
            kept = sorted(ours, key=lambda trial: trial.promise)[: self._whole()]
            for trial in ours:
                if trial not in kept:
                    trial.note = "memory alone: others promise more"
            new = [trial for trial in fitting if trial in kept or trial.proposal.control]
        new.sort(key=lambda trial: trial.promise)
        self._run(new, "compiling {}", memory_only=False)

    def _trial(self, proposal: Proposal) -> ProposalTrial:
        """A proposal with its module; once the time is up it is not even written."""
        over = self.compilations.limit.over()
        return ProposalTrial(
            proposal=proposal,
            cost=proposal.cost,
            module=b"" if over else self.writer.write(proposal),
            memory_bytes=self.memory_bytes,
            overlap=self.job.request.overlap > 0,
            note=NO_TIME if over else "",
        )

    def _whole(self) -> int:
        """How many plans of a search are compiled whole: half of them, but for the controls."""
        return -(-self.confirmer.count // 2)

    def _run(self, trials: Sequence[ProposalTrial], doing: str, *, memory_only: bool) -> None:
        by_module: dict[bytes, list[ProposalTrial]] = {}
        for trial in trials:
            if trial.module:
                by_module.setdefault(trial.module, []).append(trial)
        if not by_module:
            return

        def wanted(module: bytes) -> str:
            return "" if memory_only else self._beaten(by_module[module])

        self._tell(doing, 0, len(by_module), [])
        answers = self.compilations.answers(by_module, memory_only=memory_only, wanted=wanted)
        for done, (module, answer) in enumerate(answers, 1):
            _note(by_module[module], answer)
            self._tell(doing, done, len(by_module), by_module[module])

    def _beaten(self, trials: Sequence[ProposalTrial]) -> str:
        """Why a program need not be compiled to be known as slower than the best one; '' if it is.

        Its collectives, which are known, take longer than that one's whole step.
        """
        best = best_of(trial for trial in self.trials if trial.whole)
        if best is None or best.measured is None or trials[0].bound <= best.measured:
            return ""
        return BEATEN

    def _tell(self, doing: str, done: int, count: int, trials: Sequence[ProposalTrial]) -> None:
        plans = f"{count} plan{'s' if count != 1 else ''}"
        detail = f"{doing.format(plans)}: {done} done"
        if trials:
            detail += f", {trials[0].proposal.kind.replace('_', ' ')} {_said(trials[0])}"
        self.job.stages.report(Progress(stage="confirm", detail=detail))

    def _chosen(self) -> ProposalTrial:
        """The best that fits; else what comes closest; else, with no verdict at all, the answer."""
        best = best_of(self.trials)
        if best is not None:
            return best
        known = [trial for trial in self.trials if trial.needed is not None]
        return min(known, key=lambda trial: trial.needed or 0, default=self.trials[0])

    def _answer(self, chosen: ProposalTrial) -> MeshAnswer:
        """The answer with the chosen plan in place of what was found."""
        if chosen.verdict is None:
            return self.answer
        best, proposal = self.answer.best, chosen.proposal
        found = proposal.found
        if found.refinements:
            found = replace(found, bound=None, relaxation=None)
        state = proposal.found.state
        points = list(self.answer.choices)
        if points and all(point.state != state for point in points):
            cost = best.problem.evaluator.cost(state)
            points.append(Point(seconds=cost.seconds, peak=cost.peak, state=state))
            points.sort(key=lambda point: (point.peak, point.seconds))
        taken: Searched = replace(best, problem=proposal.problem, found=found)
        return replace(self.answer, best=taken, choices=points)

    def _record(self, chosen: ProposalTrial) -> Confirmation:
        compilations = self.compilations
        timed = any(trial.measured is not None for trial in self.trials)
        overlap = self.job.request.overlap > 0
        return Confirmation(
            target=str(compilations.target),
            compiler=compilations.cache.compiler,
            memory_bytes=self.memory_bytes,
            reserved_bytes=compilations.reserved_bytes,
            fits=None if chosen.verdict is None else chosen.fits,
            time="estimate" if not timed else "makespan" if overlap else "sum",
            plans=[self._row(trial, trial is chosen) for trial in self.trials],
            corrections=self.corrections,
            seconds=round(compilations.limit.spent, 3),
        )

    def _row(self, trial: ProposalTrial, chosen: bool) -> ConfirmedPlan:
        proposal, problem = trial.proposal, trial.proposal.problem
        names, axes = decision_names(problem.evaluator.analysis), problem.evaluator.mesh.axes
        return ConfirmedPlan(
            kind=proposal.kind,
            search=proposal.search,
            control=proposal.control,
            decisions=[
                decision_text(names[a.group], axes[a.axis].name, resolution(problem, a))
                for a in proposal.found.state
            ],
            refinements=len(proposal.found.refinements),
            predicted=predicted_cost(trial.cost, int(problem.reward.memory)),
            compiled=None if trial.verdict is None else _compiled(trial, trial.verdict),
            note=trial.note,
            chosen=chosen,
        )


def _note(trials: Sequence[ProposalTrial], answer: CompilerAnswer) -> None:
    """Note what became of one module for all plans that have it."""
    for number, trial in enumerate(trials):
        if answer.verdict is not None:
            trial.verdict, trial.cached = answer.verdict, answer.cached
        trial.note = answer.failure
        if number and not answer.failure:
            trial.note = f"the same program as {trials[0].proposal.kind.replace('_', ' ')}"


def _said(trial: ProposalTrial) -> str:
    """What the compiler said, in a few words."""
    if trial.note.startswith("not compiled"):
        return trial.note
    if not trial.fits:
        return "does not fit"
    seconds = trial.measured
    return f"fits, {format_seconds(seconds)}" if trial.whole and seconds is not None else "fits"


def _compiled(trial: ProposalTrial, verdict: Verdict) -> CompiledCost:
    return CompiledCost(
        peak_bytes=verdict.needed_bytes,
        fits=trial.fits,
        whole=trial.whole and verdict.memory is not None,
        estimate_seconds=trial.estimate,
        compute_seconds=verdict.compute_seconds,
        communication_seconds=verdict.communication_seconds,
        step_seconds=verdict.step_seconds,
        makespan_seconds=verdict.makespan_seconds,
        rematerialized=verdict.rematerialized,
        compile_seconds=round(verdict.compile_seconds, 3),
        cached=trial.cached,
        refusal="" if verdict.refusal is None else verdict.refusal.message.splitlines()[0],
    )


def _priced(problem: Problem, point: Point) -> Point:
    """A point of another search at the prices of this problem."""
    cost = problem.evaluator.cost(point.state)
    return replace(point, seconds=cost.seconds, peak=cost.peak)


def with_confirmation(plan: Plan, confirmed: Confirmation) -> Plan:
    """The plan with what was compiled, and a warning where that leaves its fit open."""
    tight = tight_warnings(plan.predicted, plan.memory_bytes)
    known = confirmed.fits is not None
    warnings = [one for one in plan.warnings if not (known and one in tight)]
    if confirmed.fits is None:
        why = next((row.note for row in confirmed.plans if row.note), "there was no answer")
        warnings.append(f"The compiler confirmed nothing: {why.removeprefix('not compiled: ')}.")
    elif confirmed.fits and not plan.predicted.fits:
        warnings.append("The plan is predicted not to fit, and the compiler made it fit.")
    elif plan.predicted.fits and not confirmed.fits:
        warnings.append("The plan is predicted to fit, and the compiler refuses it.")
    return plan.model_copy(update={"confirmed": confirmed, "warnings": warnings})
