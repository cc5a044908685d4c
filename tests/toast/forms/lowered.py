"""Programs lowered to explicit collectives, and what the price says that they send."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.laws.layout import Array
from toast.analysis.analyse import analyse
from toast.analysis.load import Source, load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import ResolvedPlan, resolve
from toast.costmodel.terms.journal import CollectiveReason
from toast.emit.lowering.devices import Devices
from toast.emit.lowering.write import Lowered, lower_to_collectives, lower_to_local
from toast.emit.specs import Specs
from toast.search.actions import action_space
from toast.search.planners import PLANNERS
from toast.search.problem import Problem, SearchSettings
from toast.search.progress import Control
from toast.verify.reference.run import run_module

Sent = Counter[tuple[str, tuple[str, ...]]]
"""How many collectives there are of a kind over axes; one in a loop is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A plan, and a module that it is lowered to."""

    resolved: ResolvedPlan
    lowered: Lowered

    @property
    def written(self) -> Sent:
        """The collectives of the module."""
        return Counter((one.kind, one.axes) for one in self.lowered.sent)

    @property
    def priced(self) -> Sent:
        """The collectives of the plan: one for each value that is sent, or each of its parts."""
        axes, behind = self.resolved.evaluator.mesh.axes, self.resolved.loop_sums()
        found: Sent = Counter()
        for row in explain(self.resolved).collectives:
            over = tuple(sorted(axes[axis].name for axis in row.axes))
            for _, ops, _ in row.sources:
                parts = row.reason is CollectiveReason.BEHIND_LOOP and behind.get(ops[0])
                found[row.kind.name.lower(), over] += len(parts) if parts else 1
        return found


def lower(source: Source, resolved: ResolvedPlan, form: str) -> Pair:
    """A plan in one of the two forms."""
    written = lower_to_local if form == "local" else lower_to_collectives
    mesh = resolved.evaluator.mesh
    return Pair(resolved=resolved, lowered=written(source, mesh, resolved, Specs(resolved)))


def pair(data: bytes, mesh: str, form: str, rollouts: int = 150, memory: float = 1e12) -> Pair:
    """A module planned for a mesh of the test device, and lowered."""
    source = load(data)
    evaluator = Evaluator(analyse(source.program), Mesh.parse(mesh), find("cpu"))
    problem = Problem(
        evaluator=evaluator, reward=evaluator.reward(memory), actions=action_space(evaluator)
    )
    settings = SearchSettings(rollouts=rollouts, round_rollouts=rollouts)
    found = PLANNERS["mcts"](problem, settings, Control())
    return lower(source, resolve(evaluator, found.decisions), form)


def run(pair: Pair, inputs: list[Array]) -> list[Array]:
    """What a lowered module computes, by the reference executor."""
    program, specs = pair.resolved.evaluator.analysis.program, Specs(pair.resolved)
    return run_module(
        pair.lowered.module,
        Devices(pair.resolved.evaluator.mesh),
        [specs.value(argument.value) for argument in program.arguments],
        [specs.use(result.use) for result in program.results],
        inputs,
    )
