"""The states whose prices are kept, and what each costs now.

Prices are kept as the hexadecimal form of their floats: two are equal or they are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.accuracy.cases import Bench, plain, state_of
from benchmarks.accuracy.models import module_of
from benchmarks.accuracy.plans import random_state
from benchmarks.accuracy.records import read_records
from benchmarks.planners.cases import MESHES
from benchmarks.planners.cases import TARGETS as PLANNER_TARGETS
from benchmarks.planners.layouts import LAYOUTS, layout
from benchmarks.planners.models import models

ACCURACY, PLANNERS = "accuracy", "planners"
RANDOM_STATES = 4
"""Random states of each of the planners' programs beside its layouts by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one state of one program costs: seconds, seconds and bytes, each in hexadecimal.

    `suite` is the benchmark that the program is of, `state` its actions as numbers (group, axis,
    bits), `key` that of the layout.
    """

    suite: str
    model: str
    mesh: str
    target: str
    state: list[list[int]]
    compute: str
    communication: str
    peak: str
    key: int

    @property
    def place(self) -> tuple[str, str, str, str]:
        """What is analysed once: the suite, the program, the mesh and the target."""
        return self.suite, self.model, self.mesh, self.target

    @property
    def name(self) -> str:
        """How a person finds the state again."""
        return f"{' '.join(self.place)} {self.state}"

    def as_json(self) -> dict[str, Any]:
        """One line of the file."""
        return asdict(self)


def bench_of(suite: str, model: str, mesh: str, target: str) -> Bench:
    """A program on a mesh of a target, analysed."""
    return Bench.of(_module(suite, model), mesh, target)


@lru_cache(maxsize=1)
def _module(suite: str, model: str) -> bytes:
    return module_of(model) if suite == ACCURACY else models()[model].module()


def price(bench: Bench, place: tuple[str, str, str, str], state: list[list[int]]) -> Price:
    """What a state costs now; IndexError where it speaks of another analysis."""
    suite, model, mesh, target = place
    cost = bench.evaluator.cost(state_of(state))
    return Price(
        suite=suite,
        model=model,
        mesh=mesh,
        target=target,
        state=state,
        compute=float(cost.compute).hex(),
        communication=float(cost.communication).hex(),
        peak=float(cost.peak).hex(),
        key=cost.key,
    )


def all_prices(accuracy: Path) -> Iterator[Price]:
    """The price of every state of the accuracy and the planners' benchmarks, program by program.

    `accuracy` is the folder of the accuracy benchmark's records. Programs of the zoo are left out:
    they have to be lowered first.
    """
    yield from _of_accuracy(accuracy)
    yield from _of_planners()


def _of_accuracy(folder: Path) -> Iterator[Price]:
    states: dict[tuple[str, str, str, str], list[list[list[int]]]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for record in read_records(path):
            if not record.get("stale"):
                place = (ACCURACY, record["model"], record["mesh"], record["target"])
                states.setdefault(place, []).append(record["state"])
    for place in sorted(states):
        bench = bench_of(*place)
        yield from (price(bench, place, state) for state in states[place])


def _of_planners() -> Iterator[Price]:
    own = {name: model for name, model in models().items() if not model.public}
    for name, model in own.items():
        for target in PLANNER_TARGETS:
            for mesh in MESHES:
                place = (PLANNERS, name, mesh, target)
                bench = bench_of(*place)
                by_hand = [
                    layout(bench.problem, model.family, one) for one in LAYOUTS[model.family]
                ]
                drawn = [random_state(bench.problem, seed) for seed in range(RANDOM_STATES)]
                for state in (*by_hand, *drawn):
                    yield price(bench, place, plain(state))
