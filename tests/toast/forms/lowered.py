"""Programs lowered to explicit collectives, and what the price says that they send."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import ResolvedPlan, resolve
from toast.emit.lowering.write import Lowered, lower_to_collectives, lower_to_local
from toast.emit.specs import Specs
from toast.search.actions import action_space
from toast.search.planners import PLANNERS
from toast.search.problem import Problem, SearchSettings
from toast.search.progress import Control

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
        """The collectives of the plan: one for each value that is sent."""
        axes = self.resolved.evaluator.mesh.axes
        found: Sent = Counter()
        for row in explain(self.resolved).collectives:
            over = tuple(sorted(axes[axis].name for axis in row.axes))
            found[row.kind.name.lower(), over] += len(row.sources)
        return found


def pair(data: bytes, mesh: str, form: str, rollouts: int = 150, memory: float = 1e12) -> Pair:
    """A module planned for a mesh of the test device, and lowered."""
    source = load(data)
    evaluator = Evaluator(analyse(source.program), Mesh.parse(mesh), find("cpu"))
    problem = Problem(
        evaluator=evaluator, reward=evaluator.reward(memory), actions=action_space(evaluator)
    )
    settings = SearchSettings(rollouts=rollouts, round_rollouts=rollouts)
    found = PLANNERS["mcts"](problem, settings, Control())
    resolved = resolve(evaluator, found.decisions)
    lower = lower_to_local if form == "local" else lower_to_collectives
    return Pair(resolved=resolved, lowered=lower(source, evaluator.mesh, resolved, Specs(resolved)))
