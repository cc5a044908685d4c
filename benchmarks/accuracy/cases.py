"""One model on one mesh: the price and the sharded module of each state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from benchmarks.accuracy.models import module_of
from benchmarks.accuracy.plans import state_for
from benchmarks.accuracy.unestimated import unestimated_seconds
from toast.analysis import forms
from toast.analysis.analyse import analyse
from toast.analysis.forms import decode
from toast.analysis.load import load
from toast.aot import Target
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Action, Evaluator, State
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.registry import without
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs
from toast.emit.writer import write
from toast.search.actions import action_space
from toast.search.problem import Problem


@dataclass(slots=True)
class Bench:
    """One model on one mesh of one device, analysed once."""

    module: bytes
    evaluator: Evaluator
    problem: Problem
    known: dict[str, State] = field(default_factory=dict)

    @classmethod
    def make(cls, model: str, mesh: str, target: str, left_out: Sequence[str] = ()) -> Self:
        """Load and analyse a model; prices are without the passes that are left out."""
        return cls.of(module_of(model), mesh, target, left_out)

    @classmethod
    def of(
        cls,
        module: bytes,
        mesh: str,
        target: str,
        left_out: Sequence[str] = (),
        room: float = 1.0,
    ) -> Self:
        """Load and analyse a module; plans are for chips of `room` times their memory."""
        device = find(Target.parse(target).chip.device)
        profile = without(profile_of(device), left_out)
        program = analyse(load(module).program)
        evaluator = Evaluator(program, Mesh.parse(mesh), device, profile=profile)
        problem = Problem(
            evaluator=evaluator,
            reward=evaluator.reward(room * device.plannable_bytes),
            actions=action_space(evaluator),
        )
        return cls(module=module, evaluator=evaluator, problem=problem)

    def state(self, plan: str) -> State:
        """The state that a plan's name stands for."""
        if plan not in self.known:
            self.known[plan] = state_for(self.problem, plan)
        return self.known[plan]

    def write(self, state: State) -> bytes:
        """The sharded module; writing changes the module, so each is loaded afresh."""
        specs = Specs(resolve(self.evaluator, state))
        return write(load(self.module), self.evaluator.mesh, specs, specs.constraints())

    def predict(self, state: State) -> dict[str, Any]:
        """What the cost model says, as JSON values."""
        resolved = resolve(self.evaluator, state)
        cost = resolved.cost
        names = [axis.name for axis in self.evaluator.mesh.axes]
        return {
            "compute_seconds": cost.compute,
            "unestimated_seconds": unestimated_seconds(resolved),
            "communication_seconds": cost.communication,
            "peak_bytes": self.evaluator.laid_out(self.evaluator.room_bytes(state), cost.peak),
            "fits": cost.peak <= self.problem.reward.memory,
            "collectives": [
                {
                    "kind": row.kind.name.lower(),
                    "axes": [names[axis] for axis in row.axes],
                    "count": row.count,
                    "bytes": row.bytes,
                    "seconds": row.seconds,
                }
                for row in resolved.totals()
            ],
        }


def digest(module: bytes) -> str:
    """The hash of a module less its locations; a later run knows by it that it is the same."""
    return forms.digest(decode(module).module)


def plain(state: State) -> list[list[int]]:
    """A state as JSON values."""
    return [[action.group, action.axis, action.bits] for action in state]


def state_of(rows: list[list[int]]) -> State:
    """The state that `plain` made these values of."""
    return tuple(Action(group=group, axis=axis, bits=bits) for group, axis, bits in rows)
