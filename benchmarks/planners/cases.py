"""Which plans of which programs are compared, in an order in which a stopped run has seen most."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from benchmarks.accuracy.schedule import Case
from benchmarks.planners.layouts import LAYOUTS
from benchmarks.planners.models import Model
from benchmarks.planners.models import models as all_models

TARGETS = ("tpu-v5e:2x4", "a100:8", "tpu-v3:2x2")
MESHES = ("data=2,model=4", "data=4,model=2", "x=2,y=2,z=2")
OURS = "mcts"
REFINED = "refined"
"""Ours with decisions below the colour level."""
OTHERS = (REFINED, "greedy", "beam", "ilp", "random")
PEERS = ("xla-auto", "xla-auto-unbounded")
"""XLA's own ILP, with and without a budget for memory."""
MANUAL = "manual:"
"""What the names of layouts by hand begin with."""
PEER_TARGET = "tpu-v5e:2x4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choose:
    """What of all cases is wanted; an empty field bounds nothing.

    `manual:` alone wants all layouts by hand.
    """

    targets: Collection[str] = TARGETS[:1]
    models: Collection[str] = ()
    meshes: Collection[str] = ()
    plans: Collection[str] = ()
    known: dict[str, Model] = field(default_factory=all_models)

    def unknown(self) -> list[str]:
        """The wanted names that are none."""
        by_hand = {f"{MANUAL}{name}" for layouts in LAYOUTS.values() for name in layouts}
        plans = {OURS, MANUAL, *by_hand, *OTHERS, *PEERS}
        wanted = {*self.targets, *self.models, *self.meshes, *self.plans}
        return sorted(wanted - {*TARGETS, *MESHES, *self.known} - plans)

    def cases(self) -> Iterator[Case]:
        """Ours and the layouts by hand first, then the peer, then the other planners."""
        for target in self.targets:
            for full in (False, True):
                for mesh in self._of(MESHES, self.meshes):
                    yield from self._some(target, mesh, full=full)

    def _some(self, target: str, mesh: str, *, full: bool) -> Iterator[Case]:
        chosen = {name: self.known[name] for name in self._of(self.known, self.models)}
        programs = {name: model for name, model in chosen.items() if model.full == full}
        for plans in ((OURS, MANUAL), PEERS, OTHERS):
            for name, model in programs.items():
                for plan in self._plans(plans, model):
                    if plan not in PEERS or (model.peer and target == PEER_TARGET):
                        yield Case(model=name, mesh=mesh, plan=plan, target=target)

    def _plans(self, plans: Collection[str], model: Model) -> list[str]:
        by_hand = [f"{MANUAL}{name}" for name in LAYOUTS[model.family]]
        wanted = {*self.plans, *(by_hand if MANUAL in self.plans else ())}
        expanded = [one for plan in plans for one in (by_hand if plan == MANUAL else [plan])]
        return self._of(expanded, wanted)

    def _of(self, known: Collection[str], wanted: Collection[str]) -> list[str]:
        return [name for name in known if not wanted or name in wanted]
