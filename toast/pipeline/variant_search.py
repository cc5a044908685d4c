"""Which rewriting of a program to plan: microbatches, where they make it fit or faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from toast.analysis.analyse import Analysis
from toast.analysis.errors import ToastError
from toast.analysis.load import Source
from toast.costmodel.evaluator import Action, State
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.mesh_search import MeshAnswer, MeshSearch, Searched
from toast.pipeline.stages import Stages
from toast.pipeline.user_constraints import demands
from toast.pipeline.variants import PLAIN, Variant, Variants
from toast.plans.time import RewritingTried, TimeAxes
from toast.search.infeasible import NEAR, closest_to_fitting
from toast.search.local_search import local_search
from toast.search.planners import PLANNERS
from toast.search.problem import Found, Problem
from toast.search.progress import Control

FEW = 1_000
"""Rollouts for a variant that is only compared."""
WHOLE_SHARE = 0.4
"""Of the time for searches, what the program as it is has."""
JobOf = Callable[[bytes, Stages], MeshSearch]
"""Reads a module and makes its search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The variant that is planned: its module, its search, what that found, and the record."""

    module: bytes
    job: MeshSearch
    answer: MeshAnswer
    time: TimeAxes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """A variant with the best plan known of it."""

    variant: Variant
    module: bytes
    job: MeshSearch
    best: Searched


@dataclass(slots=True, kw_only=True)
class VariantSearch:
    """Plans a program as it is, and then in microbatches where the request asks for that."""

    variants: Variants
    whole: MeshSearch
    job_of: JobOf
    stages: Stages
    tried: list[RewritingTried] = field(default_factory=list)

    def run(self, meshes: Sequence[Mesh]) -> Chosen:
        """The variant of least time among those that fit, else the one that comes closest."""
        control = self.whole.control()
        part = control.share(WHOLE_SHARE)
        best = _Planned(
            variant=PLAIN,
            module=self.variants.module,
            job=self.whole,
            best=self.whole.find(meshes, part),
        )
        self._note(best)
        if self._goes_on(best):
            self.stages.enter("variants", _VARIANTS)
            best = self._compared(best, control)
        if best.variant.is_plain:
            answer = self.whole.finish(best.best, control)
            return Chosen(module=best.module, job=best.job, answer=answer, time=None)
        return self._finished(best, control)

    def _goes_on(self, whole: _Planned) -> bool:
        """Whether variants are looked at: where asked for, or where nothing fits."""
        request = self.variants.request
        return request.microbatches == "auto" or whole.best.badness()[0] > 0

    def _compared(self, whole: _Planned, control: Control) -> _Planned:
        """Doubles the microbatches until one more time makes a plan that fits no faster."""
        best = whole
        try:
            counts = self.variants.counts()
        except ToastError as error:
            self.whole.notices.append(error.message)
            return best
        for count in counts:
            if control.stop_reason() is not None:
                break
            found = self._planned(Variant(microbatches=count), whole, control.share(0.3))
            if found is None:
                continue
            if _better(found.best, best.best):
                best = found
            elif best.best.badness()[0] <= 0:
                break
        return best

    def _planned(self, variant: Variant, whole: _Planned, control: Control) -> _Planned | None:
        """A variant on the mesh of the whole program, from the plan that was found for that."""
        try:
            module = self.variants.written(variant)
            job = self.job_of(module, Stages(None))
            best = _quick(job, whole.best, control.quiet())
        except ToastError as error:
            row = RewritingTried(microbatches=variant.microbatches, reason=error.message)
            self.tried.append(row)
            return None
        found = _Planned(variant=variant, module=module, job=job, best=best)
        self._note(found)
        return found

    def _note(self, planned: _Planned) -> None:
        cost = planned.best.cost
        row = RewritingTried(
            microbatches=planned.variant.microbatches,
            step_seconds=cost.seconds,
            peak_bytes=round(cost.peak),
            fits=planned.best.badness()[0] <= 0,
        )
        self.tried.append(row)

    def _finished(self, best: _Planned, control: Control) -> Chosen:
        """The chosen variant searched to the end, from what is known of it."""
        job = best.job
        job.stages = self.stages
        job.tried = self.whole.tried
        known = best.best
        self.stages.enter("search", _SEARCH)
        rollouts = (self.variants.request.rollouts or job.settings().rollouts) // 2
        found = PLANNERS[job.request.planner](
            known.problem, job.settings(rollouts=max(rollouts, 1)), control.share(0.5)
        )
        better = found.cost < known.found.cost
        if better and replace(known, found=found).badness() < known.badness():
            known = replace(known, found=found)
        answer = job.finish(known, control)
        cost = answer.best.cost
        rows = [
            row.model_copy(
                update={
                    "chosen": True,
                    "step_seconds": cost.seconds,
                    "peak_bytes": round(cost.peak),
                    "fits": answer.best.badness()[0] <= 0,
                }
            )
            if row.microbatches == best.variant.microbatches
            else row
            for row in self.tried
        ]
        record = self.variants.record(best.variant, rows)
        return Chosen(module=best.module, job=job, answer=answer, time=record)


def _better(one: Searched, other: Searched) -> bool:
    """Whether a plan comes markedly closer to fitting, or comes as close and is faster."""
    (over, seconds), (theirs, slower) = one.badness(), other.badness()
    if max(over, theirs) == 0:
        return seconds < slower
    near = NEAR * other.cost.peak
    return over < theirs - near or (over == 0 and theirs > 0)


_VARIANTS, _SEARCH = 0.6, 0.75


def given_variant(variants: Variants, job_of: JobOf, stages: Stages) -> tuple[bytes, MeshSearch]:
    """The module in the microbatches that the request asks for, and its search."""
    count = variants.request.microbatches
    assert isinstance(count, int)
    stages.enter("variants", _REWRITING)
    module = variants.written(Variant(microbatches=count))
    return module, job_of(module, stages)


_REWRITING = 0.22


def _quick(job: MeshSearch, whole: Searched, control: Control) -> Searched:
    """A short search that begins with the plan of the whole program."""
    mesh = whole.mesh
    demanded = demands(job.source, mesh, job.request.pins, job.request.forbid)
    problem = job.problem(mesh, demanded)
    state = carried_over(whole.problem, whole.found.state, problem)
    start, _ = problem.cost(state)
    settings = job.settings(rollouts=min(FEW, job.settings().rollouts))
    near = local_search(problem, state, start, control.share(0.4), threads=settings.threads)
    known = Found.after(near.state, near.cost, near.evaluations, "rollouts")
    found = PLANNERS["mcts"](problem, settings, control)
    if known.cost < found.cost:
        found = known
    found = closest_to_fitting(problem, found, control, settings.threads)
    return Searched(mesh=mesh, problem=problem, demands=demanded, found=found)


def carried_over(source: Problem, state: State, target: Problem) -> State:
    """A plan of one program for another with the same arguments, by the colours of these.

    An action on a colour that no argument has, or that the other program does not offer, is left
    out; so is how conflicts were resolved.
    """
    theirs, ours = _argument_groups(source), _argument_groups(target)
    same: dict[int, int] = {}
    for one, other in zip(theirs, ours, strict=True):
        for group, twin in zip(one, other, strict=True):
            if group >= 0 and twin >= 0:
                same.setdefault(group, twin)
    offered = {(action.group, action.axis): action for action in target.actions}
    found: list[Action] = []
    for action in state:
        twin = same.get(action.group, -1)
        if (twin, action.axis) in offered:
            exact = Action(group=twin, axis=action.axis, bits=action.bits)
            chosen = exact if exact in target.actions else offered[twin, action.axis]
            if chosen not in found:
                found.append(chosen)
    return tuple(found)


def _argument_groups(problem: Problem) -> list[list[int]]:
    """The colour group of each dimension of each argument, -1 for none."""
    analysis: Analysis = problem.evaluator.analysis
    program, colours = analysis.program, analysis.colours.colour
    found = []
    for argument in program.arguments:
        names = program.def_names(argument.value).tolist()
        own = [int(colours[name]) if name >= 0 else -1 for name in names]
        found.append([int(analysis.groups.of_colour[one]) if one >= 0 else -1 for one in own])
    return found


def with_names_of(source: Source, original: Source) -> Source:
    """A rewritten program with the original's names and times of reading."""
    pairs = zip(source.program.arguments, original.program.arguments, strict=True)
    named = tuple(replace(one, name=other.name) for one, other in pairs)
    program = replace(source.program, arguments=named)
    return replace(source, program=program, seconds=original.seconds)
