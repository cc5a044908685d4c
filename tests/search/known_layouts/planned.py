"""Plans a bare module and says what was found in the words of PartitionSpecs."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.analyse import analyse
from analysis.load import load
from costmodel.devices import find
from costmodel.evaluator import Action, Cost, Evaluator, State
from costmodel.mesh import Mesh
from examples.forms import Step
from search.actions import action_space
from search.planners import PLANNERS
from search.problem import Found, Problem, Settings
from search.progress import Control
from tests.search.known_layouts.steps import module_of
from toast.planfile import Spec
from toast.specs import Specs

PRODUCT = "stablehlo.dot_general"
Choice = tuple[str, int, str]
"""An argument by the end of its name, a dimension of it, and the mesh axis that is to split it."""


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
        specs = Specs(self.problem.evaluator, self.found.state)
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
        specs = Specs(evaluator, self.found.state)
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
        for row in evaluator.collectives(state)
    }


def named(problem: Problem, choices: tuple[Choice, ...]) -> tuple[State, float]:
    """The state of a layout, taken choice by choice, and its C(s)."""
    state: State = ()
    for ending, dim, axis in choices:
        number = [a.name for a in problem.evaluator.mesh.axes].index(axis)
        for group in groups_of(problem.evaluator, ending, dim):
            bits = {a.bits for a in problem.actions if a.group == group} or {0}
            state = min(
                ((*state, Action(group=group, axis=number, bits=b)) for b in sorted(bits)),
                key=lambda longer: problem.cost(longer)[0],
            )
    return state, problem.cost(state)[0]


def groups_of(evaluator: Evaluator, ending: str, dim: int) -> list[int]:
    """The colour groups of a dimension of the arguments whose names end so."""
    analysis, program = evaluator.analysis, evaluator.analysis.program
    values = [a.value for a in program.arguments if a.name.endswith(ending)]
    assert values, ending
    names = [program.def_names(value)[dim] for value in values]
    groups = (int(analysis.groups.of_colour[analysis.colours.colour[name]]) for name in names)
    return list(dict.fromkeys(groups))


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
    settings = Settings(rollouts=rollouts, round_rollouts=rollouts // 4)
    return Planned(problem=problem, found=PLANNERS["mcts"](problem, settings, Control()))
