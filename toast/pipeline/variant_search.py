"""Which rewriting of a program to plan: microbatches, where they make it fit or faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from toast.analysis.analyse import Analysis
from toast.analysis.errors import ToastError
from toast.analysis.load import Source
from toast.costmodel.evaluator import Action, State
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.mesh_search import MeshAnswer, MeshSearch, Searched
from toast.pipeline.stages import Stages
from toast.pipeline.user_constraints import demands
from toast.pipeline.variants import Variant, Variants
from toast.plans.recomputation import RecomputedPlan
from toast.plans.time import RewritingTried, TimeAxes
from toast.search.infeasible import NEAR, closest_to_fitting
from toast.search.local_search import local_search
from toast.search.planners import PLANNERS
from toast.search.problem import Found, Problem
from toast.search.progress import Control

FEW = 200
"""Rollouts for a variant that is only compared."""
_FINAL = 8
"""The chosen variant is searched with that part of the rollouts, from the plan that is known."""
WHOLE_SHARE = 0.4
"""Of the time for searches, what the program as it is has."""
_UNIFORM = ("products", "all")
_MOST_GROUPS = 4
"""Groups of layers for each of which policies of its own are compared."""
JobOf = Callable[[bytes, Stages], MeshSearch]
"""Reads a module and makes its search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The variant that is planned: its module, its search, what that found, and the record."""

    module: bytes
    job: MeshSearch
    answer: MeshAnswer
    time: TimeAxes | None
    recompute: RecomputedPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """A variant with the best plan known of it."""

    variant: Variant
    module: bytes
    job: MeshSearch
    best: Searched


@dataclass(slots=True, kw_only=True)
class VariantSearch:
    """Plans a program as it is, and then rewritten in the ways that the request asks for.

    `base` is the variant that `module` is and that `whole` searches.
    """

    variants: Variants
    base: Variant
    module: bytes
    whole: MeshSearch
    job_of: JobOf
    stages: Stages
    tried: list[RewritingTried] = field(default_factory=list)

    def run(self, meshes: Sequence[Mesh]) -> Chosen:
        """The variant of least time among those that fit, else the one that comes closest."""
        request = self.variants.request
        control = self.whole.control()
        part = control.share(WHOLE_SHARE)
        best = _Planned(
            variant=self.base,
            module=self.module,
            job=self.whole,
            best=self.whole.find(meshes, part),
        )
        self._note(best)
        layers = "none" not in request.recompute and not self.base.recompute
        if layers and self._looks_at("auto" in request.recompute, best):
            best = self._layers_compared(best, control)
        if self.base.microbatches == 1 and self._looks_at(request.microbatches == "auto", best):
            best = self._parts_compared(best, control)
        if best.variant == self.base:
            answer = self.whole.finish(best.best, control)
            return self._chosen(best, answer, [])
        return self._finished(best, control)

    def _looks_at(self, asked: bool, best: _Planned) -> bool:
        """Whether a kind of variant is tried: where asked for, or by `fit` where nothing fits."""
        looks = asked or (self.variants.request.fit and best.best.badness()[0] > 0)
        if looks:
            self.stages.enter("variants", _VARIANTS)
        return looks

    def _layers_compared(self, whole: _Planned, control: Control) -> _Planned:
        """One policy for all groups of layers, and from the best of these another one for each."""
        best, groups = whole, self.variants.layer_groups()
        if not groups:
            self.whole.notices.append("No layer of this program can be recomputed.")
            return best
        for policy in _UNIFORM:
            best = self._better_of(best, dict.fromkeys(groups, policy), whole, control)
        for name in groups[:_MOST_GROUPS] if len(groups) > 1 else []:
            for policy in ("keep", *_UNIFORM):
                policies = {**dict(best.variant.recompute), name: policy}
                best = self._better_of(best, policies, whole, control)
        return best

    def _better_of(
        self, best: _Planned, policies: Mapping[str, str], whole: _Planned, control: Control
    ) -> _Planned:
        """The best variant, or the one with other policies where that is better."""
        groups = self.variants.layer_groups()
        kept = [name for name in groups if policies.get(name, "keep") != "keep"]
        recompute = tuple((name, policies[name]) for name in kept)
        variant = replace(whole.variant, recompute=recompute)
        seen = any(_is_of(row, variant) for row in self.tried)
        if seen or control.stop_reason() is not None:
            return best
        found = self._planned(variant, whole, control.share(0.3))
        return best if found is None or not _better(found.best, best.best) else found

    def _parts_compared(self, whole: _Planned, control: Control) -> _Planned:
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
            variant = replace(whole.variant, microbatches=count)
            found = self._planned(variant, whole, control.share(0.3))
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
            self.tried.append(_row(variant).model_copy(update={"reason": error.message}))
            return None
        found = _Planned(variant=variant, module=module, job=job, best=best)
        self._note(found)
        return found

    def _note(self, planned: _Planned) -> None:
        cost = planned.best.cost
        figures = {
            "step_seconds": cost.seconds,
            "peak_bytes": round(cost.peak),
            "fits": planned.best.badness()[0] <= 0,
        }
        self.tried.append(_row(planned.variant).model_copy(update=figures))

    def _finished(self, best: _Planned, control: Control) -> Chosen:
        """The chosen variant searched to the end, from what is known of it."""
        job = best.job
        job.stages = self.stages
        job.tried = self.whole.tried
        known = best.best
        self.stages.enter("search", _SEARCH)
        rollouts = (self.variants.request.rollouts or job.settings().rollouts) // _FINAL
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
            if _is_of(row, best.variant)
            else row
            for row in self.tried
        ]
        return self._chosen(best, answer, rows)

    def _chosen(self, best: _Planned, answer: MeshAnswer, rows: Sequence[RewritingTried]) -> Chosen:
        return Chosen(
            module=best.module,
            job=best.job,
            answer=answer,
            time=self.variants.record(best.variant, self.variants.arguments, rows),
            recompute=self.variants.record_layers(best.variant, rows),
        )


def _row(variant: Variant) -> RewritingTried:
    return RewritingTried(microbatches=variant.microbatches, recompute=variant.words)


def _is_of(row: RewritingTried, variant: Variant) -> bool:
    return (row.microbatches, row.recompute) == (variant.microbatches, variant.words)


def _better(one: Searched, other: Searched) -> bool:
    """Whether a plan comes markedly closer to fitting, or comes as close and is faster."""
    (over, seconds), (theirs, slower) = one.badness(), other.badness()
    if max(over, theirs) == 0:
        return seconds < slower
    near = NEAR * other.cost.peak
    return over < theirs - near or (over == 0 and theirs > 0)


_VARIANTS, _SEARCH = 0.6, 0.75


def asked_variant(variants: Variants) -> Variant:
    """The variant that the request asks for; what it leaves open is as the program has it."""
    count = variants.request.microbatches
    parts = count if isinstance(count, int) else 1
    return Variant(microbatches=parts, recompute=variants.policies())


def given_variant(
    variants: Variants, variant: Variant, job_of: JobOf, stages: Stages
) -> tuple[bytes, MeshSearch]:
    """The module rewritten, and its search.

    Nobody reads the module as it came but who rewrites it.
    """
    stages.enter("variants", _REWRITING)
    module = variants.written(variant)
    stages.enter("load", _LOAD)
    return module, job_of(module, stages)


_REWRITING, _LOAD = 0.05, 0.15


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
