"""Turns what a search found into the record that is `plan.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata

from pydantic import TypeAdapter

from toast.analysis.load import Source
from toast.analysis.program import PSEUDO, Program
from toast.costmodel.hardware.quantities import format_bytes
from toast.costmodel.network.auto_mesh import is_auto
from toast.costmodel.network.placement import across, place, places
from toast.costmodel.resolved import ResolvedPlan
from toast.emit.specs import LayoutConstraint, Specs
from toast.explain.refinements import refinements
from toast.inspect.sets import SetTeller
from toast.labels.decisions import costs_after, decision_text, decisions, resolution
from toast.labels.labels import Labels
from toast.pipeline.bands import Predictor, predicted_cost
from toast.pipeline.mesh_search import MeshAnswer
from toast.pipeline.user_constraints import Demands, overruled, records
from toast.plans import plan as planfile
from toast.plans.alternatives import PlanColour
from toast.plans.baselines import data_parallel
from toast.plans.conflicts import ResolvedConflicts
from toast.plans.costs import tight_warnings
from toast.plans.explanation import Explanation, Shortfall
from toast.plans.plan import (
    Baseline,
    Choice,
    Collective,
    Constraint,
    Group,
    MeshAxis,
    MeshSpec,
    MeshTried,
    ModuleInfo,
    Plan,
    SearchInfo,
    Spec,
    Tensor,
    Unpriced,
)
from toast.plans.tensors import tensor_patterns
from toast.request.request import PlanRequest
from toast.request.settings import threads_of
from toast.search.problem import Found, Problem

LARGE_CONSTANTS = 0.01
"""Constants of more than this part of the memory are worth a warning."""
_TENSORS = TypeAdapter(list[Tensor])
"""A deep program has many: to validate them as a list takes half the time."""
_FIELDS = set(Constraint.model_fields)
"""Of constraints there may be a hundred thousand, of a few layouts: these share what they can."""
_VERSIONS = ("toast-planner", "jax", "jaxlib", "numpy", "numba")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """All that a finished job knows."""

    module: bytes
    source: Source
    request: PlanRequest
    answer: MeshAnswer
    resolved: ResolvedPlan
    specs: Specs
    constraints: list[LayoutConstraint]
    explanation: Explanation
    shortfall: Shortfall | None
    say: Labels
    names: list[str]
    colours: list[PlanColour]

    @property
    def problem(self) -> Problem:
        """The problem on the best mesh."""
        return self.answer.best.problem

    @property
    def found(self) -> Found:
        """What was found there."""
        return self.answer.best.found

    @property
    def demands(self) -> Demands:
        """What was demanded there."""
        return self.answer.best.demands


def describe(planned: Planned, stages: dict[str, float]) -> Plan:
    """The plan as it is written to disk."""
    problem, found, request = planned.problem, planned.found, planned.request
    memory = int(problem.reward.memory)
    predictor = Predictor.of(problem.evaluator, memory)
    predicted = predictor.predicted(
        found.decisions, planned.resolved.cost, planned.resolved.evaluator
    )
    names = planned.names
    arguments = _arguments(planned)
    costs = costs_after(problem, planned.resolved)
    pins = records(planned.demands, _planned_layouts(planned))
    return Plan(
        mesh=_mesh(problem),
        device=problem.evaluator.device.name,
        memory_bytes=memory,
        module=_module_info(planned),
        arguments=arguments,
        results=_results(planned),
        groups=_groups(arguments),
        constraints=_constraints(planned),
        pins=pins,
        program_kind=predictor.kind,
        band_sources=predictor.sources(),
        predicted=predicted,
        unsharded=predictor.predicted(()),
        baselines=_baselines(predictor),
        collectives=_collectives(planned.resolved),
        decisions=[
            *decisions(problem, planned.resolved, costs, names, planned.say.resolutions),
            *refinements(problem, planned.resolved, costs, planned.say, names),
        ],
        colours=planned.colours,
        choices=_choices(planned, names, predictor),
        meshes=_meshes(planned, memory),
        request=request,
        search=_search_info(
            found, planned.answer.searches, request, problem.reward.penalty, stages
        ),
        lower_bound=found.bound,
        gap=_gap(found),
        relaxation=found.relaxation,
        stages=stages,
        unpriced=_unpriced(planned.source.program),
        warnings=[*_warnings(planned, pins), *tight_warnings(predicted, memory)],
        versions={name: _version(name) for name in _VERSIONS},
        conflicts=_resolved_conflicts(planned, names),
        explanation=planned.explanation,
        shortfall=planned.shortfall,
    )


def _module_info(planned: Planned) -> ModuleInfo:
    program = planned.source.program
    return ModuleInfo(
        sha256=hashlib.sha256(planned.module).hexdigest(),
        ops=_real_ops(program),
        arguments=len(program.arguments),
    )


def _unpriced(program: Program) -> list[Unpriced]:
    """What has no rule, the most frequent first."""
    return [
        Unpriced(op=op, count=count, reason="no_rule")
        for op, count in sorted(program.no_rule.items(), key=lambda item: -item[1])
    ]


def _warnings(planned: Planned, pins: list[planfile.Pin]) -> list[str]:
    found = [*planned.source.warnings, *planned.demands.warnings, *overruled(pins)]
    cost = planned.resolved.cost
    if cost.peak < cost.room and cost.peak <= planned.problem.reward.memory:
        found.append(
            f"It fits because the compiler is expected to press it: {format_bytes(cost.room)} with "
            f"room for all, {format_bytes(cost.peak)} where what can be is computed again."
        )
    constants = planned.problem.evaluator.constant_bytes
    if constants > LARGE_CONSTANTS * planned.problem.reward.memory:
        found.append(
            f"The program holds {format_bytes(constants)} of constants, which lie whole on each "
            "device: pass them as arguments, so that they can be sharded."
        )
    if planned.request.prove and planned.found.bound is None:
        found.append("No lower bound was proved: there was no time, or the decisions were given.")
    if planned.request.refine and not planned.found.refinements:
        found.append("Nothing was refined: no refinement pays, or there was no time.")
    return found


def _planned_layouts(planned: Planned) -> dict[int, planfile.Spec]:
    return {value: planned.specs.value(value) for value in planned.demands.hints}


def _mesh(problem: Problem) -> MeshSpec:
    mesh, device = problem.evaluator.mesh, problem.evaluator.device
    placement = place(mesh, device)
    found = zip(mesh.axes, places(placement, device), across(placement, device), strict=True)
    return MeshSpec(
        axes=[
            MeshAxis(
                name=axis.name, size=axis.size, places=[str(one) for one in over], across=parts
            )
            for axis, over, parts in found
        ]
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"


def _real_ops(program: Program) -> int:
    return program.ops - len(program.ops_named(*PSEUDO))


def _arguments(planned: Planned) -> list[Tensor]:
    specs = planned.specs
    return _tensors(
        planned,
        ((one.name, one.value, specs.value(one.value)) for one in planned.source.program.arguments),
    )


def _results(planned: Planned) -> list[Tensor]:
    program, specs = planned.source.program, planned.specs
    return _tensors(
        planned,
        ((one.name, program.sources[one.use], specs.use(one.use)) for one in program.results),
    )


def _tensors(planned: Planned, rows: Iterable[tuple[str, int, Spec]]) -> list[Tensor]:
    """Tensors by name, value and layout."""
    program = planned.source.program
    return _TENSORS.validate_python(
        [
            {
                "index": index,
                "name": name,
                "shape": list(program.shape(value)),
                "dtype": program.dtype(value),
                "spec": spec,
                "colours": planned.say.colours(value),
            }
            for index, (name, value, spec) in enumerate(rows)
        ]
    )


def _groups(arguments: list[Tensor]) -> list[Group]:
    """Arguments of one pattern of names, shape, type and layout, in order of appearance."""
    rows: dict[str, tuple[str, list[Tensor]]] = {}
    for tensor, pattern in zip(arguments, tensor_patterns(arguments), strict=True):
        key = f"{pattern} {tensor.shape} {tensor.dtype} {tensor.spec}"
        rows.setdefault(key, (pattern, []))[1].append(tensor)
    return [
        Group(
            name=pattern,
            shape=row[0].shape,
            dtype=row[0].dtype,
            spec=row[0].spec,
            arguments=[tensor.index for tensor in row],
        )
        for pattern, row in rows.values()
    ]


def _constraints(planned: Planned) -> list[Constraint]:
    program, found, specs = planned.source.program, [], dict[tuple[tuple[str, ...], ...], Spec]()
    for one in planned.constraints:
        op = program.makers[one.value]
        number = one.value - program.values_of(op).start
        ops = dict.fromkeys(map(program.user, one.uses))
        users = f" used by {','.join(map(str, ops))}" if ops else ""
        found.append(
            Constraint.model_construct(
                _FIELDS,
                value=f"{op}:{program.kind(op)}#{number}{users}",
                spec=specs.setdefault(tuple(map(tuple, one.spec)), one.spec),
            )
        )
    return found


def _baselines(predictor: Predictor) -> list[Baseline]:
    state = data_parallel(predictor.evaluator)
    if not state:
        return []
    cost = predictor.predicted(state)
    return [Baseline(name="data_parallel", **cost.model_dump())]


def _collectives(resolved: ResolvedPlan) -> list[Collective]:
    names = [axis.name for axis in resolved.evaluator.mesh.axes]
    return [
        Collective(
            kind=row.kind.name.lower(),
            axes=[names[axis] for axis in row.axes],
            count=round(row.count),
            bytes=round(row.bytes),
            seconds=row.seconds,
        )
        for row in resolved.totals()
    ]


def _choices(planned: Planned, names: Sequence[str], predictor: Predictor) -> list[Choice]:
    problem, chosen = planned.problem, planned.found.state
    axes = problem.evaluator.mesh.axes
    return [
        Choice(
            **predictor.predicted(point.state).model_dump(),
            decisions=[
                decision_text(names[a.group], axes[a.axis].name, resolution(problem, a))
                for a in point.state
            ],
            chosen=point.state == chosen,
        )
        for point in planned.answer.choices
    ]


def _meshes(planned: Planned, memory: int) -> list[MeshTried]:
    """The meshes that were tried; none where there was no choice."""
    if not is_auto(planned.request.mesh) and len(planned.answer.tried) < 2:
        return []
    best, found = planned.answer.best, []
    for tried in planned.answer.tried:
        chosen = tried.mesh == best.mesh
        cost = best.cost if chosen else tried.cost
        found.append(
            MeshTried(
                mesh=str(tried.mesh),
                predicted=None if cost is None else predicted_cost(cost, memory),
                reason=tried.reason,
                chosen=chosen,
            )
        )
    return found


def _resolved_conflicts(planned: Planned, names: Sequence[str]) -> ResolvedConflicts:
    """The compatibility sets, and for each axis that shards their colour the resolution."""
    problem = planned.problem
    taken: dict[int, dict[str, int]] = {}
    for action in planned.found.state:
        axis = problem.evaluator.mesh.axes[action.axis].name
        taken.setdefault(action.group, {})[axis] = action.bits
    return SetTeller(problem.evaluator.analysis, names, planned.say.words).resolved(taken)


def _gap(found: Found) -> float | None:
    if found.bound is None:
        return None
    return max(0.0, found.cost - found.bound) / max(found.cost, 1e-30)


def _search_info(
    found: Found, searches: int, request: PlanRequest, penalty: float, stages: dict[str, float]
) -> planfile.SearchInfo:
    return SearchInfo(
        planner=request.planner if request.decisions is None else "given",
        seed=request.seed,
        searches=searches,
        threads=threads_of(request),
        rollouts=found.rollouts,
        evaluations=found.evaluations,
        seconds=round(stages.get("search", 0.0), 6),
        penalty=penalty,
        overlap=request.overlap,
        termination=found.termination,
        cost=found.cost,
    )
