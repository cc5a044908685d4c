"""Which plans are put before the compiler, and the modules that are compiled for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from toast.analysis.load import load
from toast.costmodel.evaluator import State
from toast.costmodel.resolved import resolve
from toast.emit.forms.write import write_form
from toast.emit.specs import Specs
from toast.pipeline.confirm.trial import Proposal
from toast.pipeline.mesh_search import MeshAnswer, Searched
from toast.plans.baselines import data_parallel, fully_sharded
from toast.plans.confirmation import Kind
from toast.request.request import FormName, PlanRequest
from toast.search.pareto import Point
from toast.search.problem import Found, Problem
from toast.search.progress import Control
from toast.search.refine import refine

_NOT_PARTITIONED: tuple[FormName | None, ...] = ("collectives", "local")
"""Forms that no partitioner takes; the same plan is compiled in the usual form."""


def proposals_of(
    answer: MeshAnswer, search: int, count: int, request: PlanRequest, control: Control
) -> list[Proposal]:
    """Up to `count` plans of a search: the answer, the answer refined, and its neighbours."""
    best = answer.best
    plain = _unrefined(best.problem, best.found)
    found = [Proposal(kind="answer", search=search, problem=best.problem, found=plain)]
    if request.decisions is not None and best.found.refinements:
        return [Proposal(kind="refined", search=search, problem=best.problem, found=best.found)]
    if request.decisions is not None:
        return found
    finer = _refined(best, request, control) if count > 1 else None
    if finer is not None:
        found.append(Proposal(kind="refined", search=search, problem=finer[0], found=finer[1]))
    for point in _neighbours(answer.choices, plain.state):
        if len(found) >= count:
            break
        state = _of_state(best.problem, plain, point.state)
        found.append(Proposal(kind="choice", search=search, problem=best.problem, found=state))
    return found[:count]


def controls(best: Searched, search: int) -> Iterator[Proposal]:
    """Data parallelism and FSDP, where the program has a batch."""
    evaluator = best.problem.evaluator
    states: tuple[tuple[Kind, State], ...] = (
        ("data_parallel", data_parallel(evaluator)),
        ("fully_sharded", fully_sharded(evaluator)),
    )
    for kind, state in states:
        if state:
            found = _of_state(best.problem, best.found, state)
            yield Proposal(kind=kind, search=search, problem=best.problem, found=found)


def _unrefined(problem: Problem, found: Found) -> Found:
    return _of_state(problem, found, found.state) if found.refinements else found


def _of_state(problem: Problem, found: Found, state: State) -> Found:
    """Another state of the same search."""
    return replace(found, state=state, cost=problem.cost(state)[0], refinements=())


def _refined(
    best: Searched, request: PlanRequest, control: Control
) -> tuple[Problem, Found] | None:
    """The answer with the refinements that pay; None where none does, or a bound is wanted."""
    if request.prove:
        return None
    problem, found = best.problem, best.found
    if not request.refine:
        problem, found = refine(problem, found, control)
    return (problem, found) if found.refinements else None


def _neighbours(points: Sequence[Point], state: State) -> Iterator[Point]:
    """The points of a front from a state outwards: the next larger one, the next smaller one."""
    at = next((n for n, point in enumerate(points) if point.state == state), 0)
    for away in range(1, len(points)):
        for number in (at + away, at - away):
            if 0 <= number < len(points) and points[number].state != state:
                yield points[number]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleWriter:
    """Writes proposals into a module, as the plan that is taken will be."""

    module: bytes
    request: PlanRequest
    best: Searched

    def write(self, proposal: Proposal) -> bytes:
        """The sharded module; writing changes what was loaded, so it is loaded afresh."""
        source = load(self.module)
        resolved = resolve(proposal.problem.evaluator, proposal.found.decisions)
        specs = Specs(resolved)
        form = None if self.request.form in _NOT_PARTITIONED else self.request.form
        return write_form(
            form,
            data=self.module,
            source=source,
            mesh=self.best.mesh,
            resolved=resolved,
            specs=specs,
            constraints=specs.constraints(),
            kept=frozenset(self.best.demands.values),
            version=self.request.target_version,
        ).data
