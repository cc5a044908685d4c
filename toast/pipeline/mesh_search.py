"""One module on one mesh, or on the best of several: demands, problem, search, choices, proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from toast.analysis.analyse import Analysis, analyse
from toast.analysis.errors import InvalidMesh, InvalidRequest
from toast.analysis.load import Source
from toast.costmodel.compiler_passes import profile_of, without
from toast.costmodel.evaluator import PENALTY, Cost, Evaluator
from toast.costmodel.hardware.devices import Device
from toast.costmodel.network.mesh import Mesh
from toast.labels.decisions import state_of
from toast.pipeline.helpers import HelperAnswer, Helpers
from toast.pipeline.stages import Stages
from toast.pipeline.user_constraints import Demands, demands
from toast.request.pipeline_request import STAGES_AXIS
from toast.request.request import PlanRequest
from toast.request.settings import threads_of
from toast.search.actions import action_space
from toast.search.choices import choices
from toast.search.infeasible import closest_to_fitting
from toast.search.pareto import ParetoFront, Point
from toast.search.planners import PLANNERS
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control
from toast.search.proof import prove
from toast.search.refine import refine

BEGIN, END, PROOF = 0.3, 0.9, 0.1
"""Parts of the whole job: where searching begins and ends, and what of it a proof takes."""
CHOOSING = 0.1
"""What choices may take of the time that is left for a proof or for refinements."""
REFINING = 0.25
"""Time for refinements, as a part of the time for the search before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What was found on one mesh."""

    mesh: Mesh
    problem: Problem
    demands: Demands
    found: Found

    @property
    def cost(self) -> Cost:
        """The cost of what was found, with its refinements."""
        return self.problem.evaluator.cost(self.found.decisions)

    def badness(self) -> tuple[float, float]:
        """Bytes above the memory, then seconds."""
        cost = self.cost
        return max(0.0, cost.peak - self.problem.reward.memory), cost.seconds

    @property
    def lacks_room(self) -> bool:
        """Whether it does not fit, or only where the compiler presses it."""
        return self.cost.room > self.problem.reward.memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A mesh with what its best plan costs, and why it was not searched, or not to the end."""

    mesh: Mesh
    cost: Cost | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshAnswer:
    """The best of what was found, the states to choose from on its mesh, and all meshes tried."""

    best: Searched
    choices: list[Point]
    tried: list[Tried]
    searches: int = 1


@dataclass(slots=True, kw_only=True)
class MeshSearch:
    """What all meshes share: the module, its analysis, the request, and who listens."""

    source: Source
    analysis: Analysis
    device: Device
    request: PlanRequest
    stages: Stages
    cancelled: Callable[[], bool] | None = None
    helpers: Helpers | None = None
    tried: list[Tried] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """What the user should know of how the program came to be."""
    evaluator: Evaluator | None = None
    """Of the mesh before: most of its tables are those of the next one."""

    searches: int = 1
    """That had a say in what was found: one here, or all of the request; and those elsewhere."""

    def run(self, meshes: Sequence[Mesh]) -> MeshAnswer:
        """Search on each mesh and keep the best; budget and cancel hold over all of them.

        Raises `ToastError` where no mesh can be planned for.
        """
        control = self.control()
        best = self._helped(self.find(meshes, control), meshes, control)
        return self.finish(best, control)

    def of_other(self, source: Source) -> MeshSearch:
        """The search of another form of the program, rewritten or of another size; nobody listens.

        Its arguments have the names of this one's, which not every form of module keeps.
        """
        mine = self.source.program.arguments
        pairs = zip(source.program.arguments, mine, strict=True)
        arguments = tuple(replace(one, name=other.name) for one, other in pairs)
        program = replace(source.program, arguments=arguments)
        return MeshSearch(
            source=replace(source, program=program, seconds=self.source.seconds),
            analysis=analyse(program),
            device=self.device,
            request=self.request,
            stages=Stages(None),
            cancelled=self.cancelled,
            helpers=self.helpers,
        )

    def control(self) -> Control:
        """The budget of the request, and whether somebody asks to stop."""
        control = Control(on_progress=self.stages.report, budget=self.request.budget)
        if self.cancelled is not None:
            control.cancelled = self.cancelled
        return control

    def finish(self, best: Searched, control: Control) -> MeshAnswer:
        """What comes after the searches: states to choose from, a proof, refinements."""
        if self.request.decisions is not None:
            best = self._refined(best, control)
            return MeshAnswer(best=best, choices=[], tried=self.tried)
        self.stages.enter("choices", END - PROOF)
        part = control.share(CHOOSING if self._later() else 1)
        threads = self.settings().threads
        found, points = choices(best.problem, best.found, part.quiet(), threads)
        if self.request.prove:
            self.stages.enter("proof", END - PROOF, END)
            found = prove(best.problem, found, self.settings(), control)
        best = self._refined(replace(best, found=found), control)
        return MeshAnswer(best=best, choices=points, tried=self.tried, searches=self.searches)

    def _later(self) -> float:
        """What comes after the search may take, as a part of the time that the search has."""
        return 1.0 if self.request.prove else REFINING if self.request.refine else 0.0

    def _refined(self, best: Searched, control: Control) -> Searched:
        """What was found with the refinements that pay, where the request asks for them."""
        if not self.request.refine:
            return best
        self.stages.enter("refine", END - PROOF, END)
        problem, found = refine(best.problem, best.found, control)
        return replace(best, problem=problem, found=found)

    def find(self, meshes: Sequence[Mesh], control: Control) -> Searched:
        """The best of what is found on some meshes; raises `ToastError` where none will do."""
        best: Searched | None = None
        refusals: list[InvalidMesh | InvalidRequest] = []
        for number, mesh in enumerate(meshes):
            stop = control.stop_reason() if best is not None else None
            if stop is not None:
                self.tried.append(Tried(mesh=mesh, reason=_STOPPED[stop]))
                continue
            try:
                searched = self.searched(mesh, control, number, len(meshes))
            except (InvalidMesh, InvalidRequest) as error:
                refusals.append(error)
                self.tried.append(Tried(mesh=mesh, reason=error.message))
                continue
            cut = _CUT.get(searched.found.termination, "")
            self.tried.append(Tried(mesh=mesh, cost=searched.cost, reason=cut))
            if best is None or searched.badness() < best.badness():
                best = searched
        if best is None:
            raise refusals[0]
        reason = control.stop_reason()
        if reason is not None and len(meshes) > 1:
            best = replace(best, found=replace(best.found, termination=reason))
        return best

    def searched(self, mesh: Mesh, control: Control, number: int = 0, count: int = 1) -> Searched:
        """The search on one mesh, which has its part of the time that is left.

        All meshes have equal parts, and a proof as much as all of them, refinements a part of
        that. What is made before the search takes no time of the budget.
        """
        start = control.elapsed()
        span = (END - PROOF - BEGIN) / count
        begin = BEGIN + number * span
        self.stages.enter("tables", begin)
        demanded = demands(self.source, mesh, self.request.pins, self.request.forbid)
        problem = self.problem(mesh, demanded)
        _check_divisible(problem, mesh)
        demanded.warnings += [*_unused_axes(problem, mesh), *_stages_axes(mesh)]
        self.stages.rewarded(problem.reward)
        self.stages.enter("search", begin + 0.2 * span, begin + span)
        found = self._given(problem)
        if found is None:
            control.leave_out(start)
            part = control.share(1 / (count - number + count * self._later()))
            settings = self.settings()
            found = self._of_all_seeds(problem, settings, part)
            found = closest_to_fitting(problem, found, part, settings.threads)
        return Searched(mesh=mesh, problem=problem, demands=demanded, found=found)

    def _of_all_seeds(self, problem: Problem, settings: SearchSettings, control: Control) -> Found:
        """The best of all searches of the request, or of one where the others run elsewhere."""
        planner = PLANNERS[self.request.planner]
        self.searches = 1 if self.helpers is not None else self.request.searches
        best = planner(problem, settings, control.share(1 / self.searches))
        for number in range(1, self.searches):
            if control.stop_reason() is not None:
                break
            other = replace(settings, seed=(settings.seed + number) % 2**63)
            found = planner(problem, other, control.share(1 / (self.searches - number)))
            better = found if found.cost < best.cost else best
            best = _with_efforts(better, best, found)
        return best

    def _helped(self, best: Searched, meshes: Sequence[Mesh], control: Control) -> Searched:
        """The best of what was found here and elsewhere, all of it priced here."""
        if self.helpers is None:
            return best
        answers = self.helpers.answers(control.cancelled)
        self.searches += len(answers)
        for answer in answers:
            best = _joined(best, self._proposed(answer, answer.on(meshes), best))
        return best

    def _proposed(self, answer: HelperAnswer, mesh: Mesh, best: Searched) -> Searched:
        """What another search found, at the prices of this one."""
        demanded, problem = best.demands, best.problem
        if mesh != best.mesh:
            demanded = demands(self.source, mesh, self.request.pins, self.request.forbid)
            problem = self.problem(mesh, demanded)
        state = state_of(problem, answer.decisions)
        found = Found(
            state=state,
            cost=problem.cost(state)[0],
            rollouts=answer.rollouts,
            evaluations=answer.evaluations,
            termination=best.found.termination,
        )
        return Searched(mesh=mesh, problem=problem, demands=demanded, found=found)

    def problem(self, mesh: Mesh, demanded: Demands) -> Problem:
        """What is searched on one mesh under these demands."""
        request, pins = self.request, demanded.pins(mesh)
        if self.evaluator is None:
            evaluator = Evaluator(
                self.analysis,
                mesh,
                self.device,
                pins,
                overlap=request.overlap,
                profile=without(profile_of(self.device), request.without),
            )
        else:
            evaluator = self.evaluator.on(mesh, pins)
        self.evaluator = evaluator
        memory = request.memory or self.device.plannable_bytes
        return Problem(
            evaluator=evaluator,
            reward=evaluator.reward(float(memory), request.penalty or PENALTY),
            actions=action_space(evaluator),
        )

    def _given(self, problem: Problem) -> Found | None:
        """The state that the request asks for, where it does."""
        if self.request.decisions is None:
            return None
        state = state_of(problem, self.request.decisions)
        return Found.after(state, problem.cost(state)[0], 1, "given")

    def settings(self, rollouts: int | None = None) -> SearchSettings:
        """Settings of a search as the request has them; `rollouts` in place of its own."""
        defaults = SearchSettings()
        return replace(
            defaults,
            seed=self.request.seed,
            threads=threads_of(self.request),
            rollouts=rollouts or self.request.rollouts or defaults.rollouts,
        )


def pressing_into(memory: float, problem: Problem) -> Problem:
    """The problem where the compiler presses programs into so many bytes, with inf into none."""
    evaluator = problem.evaluator.pressing_into(memory)
    return replace(problem, evaluator=evaluator, front=ParetoFront())


def _joined(one: Searched, other: Searched) -> Searched:
    """The better of two, with the efforts of both."""
    better = other if other.badness() < one.badness() else one
    return replace(better, found=_with_efforts(better.found, one.found, other.found))


def _with_efforts(better: Found, one: Found, other: Found) -> Found:
    return replace(
        better,
        rollouts=one.rollouts + other.rollouts,
        evaluations=one.evaluations + other.evaluations,
        termination=one.termination,
    )


_CUT = {"cancelled": "cut short by the cancel", "budget": "cut short by the budget"}
_STOPPED = {
    "cancelled": "not reached before the search was cancelled",
    "budget": "not reached within the budget",
}


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


def _unused_axes(problem: Problem, mesh: Mesh) -> list[str]:
    """A warning for each axis over which no plan can shard anything.

    Where there is no action at all the program itself leaves nothing to decide.
    """
    used = {action.axis for action in problem.actions}
    return [
        f"The mesh axis {axis.name}={axis.size} is left unused: it divides no dimension that may "
        "be sharded, so its devices repeat each other's work."
        for number, axis in enumerate(mesh.axes)
        if problem.actions and axis.size > 1 and number not in used
    ]


def _stages_axes(mesh: Mesh) -> list[str]:
    """A warning for an axis whose name asks for stages, which another command makes."""
    return [
        f"The mesh axis {axis} shards as any other does; `toast pipeline` takes it as stages."
        for axis in mesh.axes
        if axis.name == STAGES_AXIS
    ]
