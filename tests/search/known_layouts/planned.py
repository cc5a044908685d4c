"""Plans a bare module and says what was found in the words of PartitionSpecs."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.planners.layouts import Choice, named
from examples.forms import Step
from tests.search.known_layouts.steps import module_of
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Cost, Evaluator, State
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs
from toast.plans.plan import Spec
from toast.search.actions import action_space
from toast.search.planners import PLANNERS
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control

PRODUCT = "stablehlo.dot_general"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What the default planner found for a step."""

    problem: Problem
    found: Found

    @property
    def cost(self) -> Cost:
        """Seconds and bytes of the plan."""
        return self.problem.evaluator.cost(self.found.state)

    def fits(self) -> bool:
        """Whether the plan's peak is within the chip's memory."""
        return self.cost.peak <= self.problem.reward.memory

    def arguments(self) -> dict[str, Spec]:
        """The layout of each argument by its name."""
        specs = Specs(resolve(self.problem.evaluator, self.found.state))
        program = self.problem.evaluator.analysis.program
        return {a.name: specs.value(a.value) for a in program.arguments}

    def layouts(self, ending: str) -> set[str]:
        """The different layouts of the arguments whose names end so, as `data,None`."""
        found = {shown(s) for name, s in self.arguments().items() if name.endswith(ending)}
        assert found, ending
        return found

    def at_use(self, ending: str) -> set[str]:
        """The layouts in which products read the arguments whose names end so."""
        evaluator, program = self.problem.evaluator, self.problem.evaluator.analysis.program
        specs = Specs(resolve(evaluator, self.found.state))
        values = {a.value for a in program.arguments if a.name.endswith(ending)}
        return {
            shown(specs.use(use))
            for use in range(len(program.use_value))
            if int(program.use_value[use]) in values and program.kind(program.user(use)) == PRODUCT
        }

    def collectives(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """How many collectives of a kind run over which axes."""
        return collectives(self.problem.evaluator, self.found.state)

    def price(self, *choices: Choice) -> float:
        """C(s) of a layout given by choices, each with the resolution that suits it best."""
        return named(self.problem, choices)[1]


def shown(spec: Spec) -> str:
    """A PartitionSpec as `data,None`, with + between the axes of one dimension."""
    return ",".join("+".join(axes) or "None" for axes in spec)


def collectives(evaluator: Evaluator, state: State) -> dict[tuple[str, tuple[str, ...]], float]:
    """How many collectives of a kind run over which axes under a state."""
    names = [axis.name for axis in evaluator.mesh.axes]
    return {
        (row.kind.name.lower(), tuple(names[axis] for axis in row.axes)): row.count
        for row in resolve(evaluator, state).totals()
    }


def problem_of(step: Step, mesh: str, device: str = "tpu-v5e") -> Problem:
    """The problem that `toast plan` would search for this step."""
    chip = find(device)
    evaluator = Evaluator(analyse(load(module_of(step)).program), Mesh.parse(mesh), chip)
    return Problem(
        evaluator=evaluator,
        reward=evaluator.reward(float(chip.plannable_bytes)),
        actions=action_space(evaluator),
    )


def plan_step(step: Step, mesh: str, device: str = "tpu-v5e", rollouts: int = 4000) -> Planned:
    """Search with the default planner: one thread, seed 0, a count of rollouts."""
    problem = problem_of(step, mesh, device)
    settings = SearchSettings(rollouts=rollouts, round_rollouts=rollouts // 4)
    return Planned(problem=problem, found=PLANNERS["mcts"](problem, settings, Control()))
