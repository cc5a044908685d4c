"""Which cases there are, in an order in which a run that is stopped has seen a little of all.

The targets take turns by `TURNS`, and one target's cases are mixed such that those of each model
are spread evenly, the quickest to compile first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.accuracy.models import HELD_OUT, SIZES, Size

TARGETS = ("a100:8", "tpu-v5e:2x4", "tpu-v3:2x2", "tpu-v5p:2x2x2")
_GPU, _V5E, _V3, _V5P = TARGETS
TURNS = (_GPU, _V5E, _GPU, _V3, _GPU, _V5E, _GPU, _V5E, _GPU, _V5P)
"""The order in which targets take turns: the GPU compiler is fast, v5e is the one with most."""

_EIGHT, _WIDE, _TALL, _CUBE = "data=8", "data=2,model=4", "data=4,model=2", "x=2,y=2,z=2"
PLANS: tuple[tuple[str, str], ...] = (
    (_WIDE, "mcts"),
    (_EIGHT, "data_parallel"),
    (_TALL, "random-0"),
    (_CUBE, "greedy"),
    (_WIDE, "near-0"),
    (_EIGHT, "mcts"),
    (_WIDE, "random-1"),
    (_EIGHT, "unsharded"),
    (_WIDE, "near-1"),
    (_CUBE, "random-2"),
    (_TALL, "mcts"),
    (_WIDE, "near-2"),
    (_EIGHT, "random-3"),
    (_WIDE, "near-3"),
    (_TALL, "near-4"),
    (_WIDE, "random-4"),
    (_CUBE, "mcts"),
    (_WIDE, "near-5"),
    (_WIDE, "greedy"),
    (_EIGHT, "random-5"),
    (_WIDE, "near-6"),
    (_CUBE, "near-7"),
    (_TALL, "random-6"),
    (_WIDE, "near-8"),
    (_WIDE, "random-7"),
    (_TALL, "near-9"),
    (_CUBE, "random-8"),
    (_WIDE, "data_parallel"),
    (_WIDE, "near-10"),
    (_EIGHT, "near-11"),
)
HELD_OUT_SIZE = Size(gpu=5, v5e=2, tpu=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One program to compile; `plan` is one of those that `plans.state_for` knows."""

    model: str
    mesh: str
    plan: str
    target: str

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.model} {self.mesh} {self.plan} {self.target}"

    @property
    def file(self) -> str:
        """The file of data that it belongs to; held-out models have files of their own."""
        held = "heldout-" if self.model in HELD_OUT else ""
        return f"{held}{self.target.replace(':', '-')}.jsonl"


def all_cases(
    targets: tuple[str, ...] = TARGETS, models: tuple[str, ...] | None = None
) -> Iterator[Case]:
    """All cases in order, the held-out ones last; of these targets and models alone."""
    for sizes in (SIZES, dict.fromkeys(HELD_OUT, HELD_OUT_SIZE)):
        chosen = {name: sizes[name] for name in sizes if models is None or name in models}
        queues = {target: _spread(target, chosen) for target in targets}
        while queues:
            for target in TURNS:
                case = next(queues[target], None) if target in queues else None
                if case is None:
                    queues.pop(target, None)
                else:
                    yield case


def _spread(target: str, sizes: dict[str, Size]) -> Iterator[Case]:
    """One target's cases, those of each model spread evenly over the whole."""
    placed = [
        ((number + 0.5) / size.on(target), Case(model=model, mesh=mesh, plan=plan, target=target))
        for model, size in sizes.items()
        for number, (mesh, plan) in enumerate(PLANS[: size.on(target)])
    ]
    placed.sort(key=lambda row: row[0])
    return (case for _, case in placed)
