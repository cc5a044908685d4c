"""What is compiled: a program under a plan for a target, pressed or not, maybe at another batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

from benchmarks.accuracy.records import HELD_OUT_PREFIX, Record
from benchmarks.zoo.split import half_by_name, number_of

V5E = "tpu-v5e:2x4"
OTHERS = ("tpu-v5p:2x2x2", "tpu-v3:2x2", "a100:8")
TARGETS = (V5E, *OTHERS)
PLANS: tuple[tuple[str, str], ...] = (
    ("data=2,model=4", "mcts"),
    ("data=8", "data_parallel"),
    ("data=2,model=4", "random-0"),
    ("data=8", "model_parallel"),
    ("data=4,model=2", "random-1"),
    ("data=2,model=4", "near-0"),
    ("x=2,y=2,z=2", "random-2"),
    ("data=2,model=4", "near-5"),
)
"""The good, the bad, and those drawn by lot; the meshes are those of the accuracy benchmark."""
AMPLE = 64.0
"""Plans are made as if a chip had so many times its memory, and so give up no speed for it."""
LEVELS = (0.1, 0.4, 0.7)
"""Parts of the temporaries' memory that are left to the compiler when it is pressed."""
SHARES = (0.5, 0.7, 0.85, 0.95, 1.05, 1.15, 1.3, 1.6, 2.0)
"""Parts of a chip's memory that programs at other batches are meant to need with room."""
SHARES_EACH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One compilation. `level` is one of `LEVELS` (0: with room), `share` one of `SHARES`."""

    program: str
    mesh: str
    plan: str
    target: str
    level: float = 0.0
    share: float = 0.0

    @property
    def key(self) -> str:
        """What tells it from all others; the last word is the target."""
        words = [self.program, self.mesh, self.plan]
        words += [f"pressed={self.level}"] if self.level else []
        words += [f"sized={self.share}"] if self.share else []
        return " ".join([*words, self.target])

    @classmethod
    def parse(cls, key: str) -> Self:
        """The case of a key."""
        program, mesh, plan, *more, target = key.split(" ")
        numbers = dict(word.split("=") for word in more)
        return cls(
            program=program,
            mesh=mesh,
            plan=plan,
            target=target,
            level=float(numbers.get("pressed", 0)),
            share=float(numbers.get("sized", 0)),
        )

    @property
    def file(self) -> str:
        """The file of data that it belongs to; held-out architectures have files of their own."""
        held = half_by_name(self.program.split("/")[0]) == "held-out"
        prefix = HELD_OUT_PREFIX if held else "tuning-"
        return f"{prefix}{self.target.replace(':', '-')}.jsonl"

    @property
    def room(self) -> Case:
        """The same with room."""
        return Case(program=self.program, mesh=self.mesh, plan=self.plan, target=self.target)


def targets_of(program: str) -> tuple[str, ...]:
    """The targets that a program is compiled for: v5e, and by its hash one of the others."""
    return (V5E, OTHERS[number_of(program) % len(OTHERS)])


def rounds(target: str, *, memory_only: bool) -> list[list[tuple[str, str, float, float]]]:
    """(mesh, plan, level, share) of the cases of a program, in the order of rounds over all.

    A run that is stopped has so seen a little of every program. One round is one process, so what
    belongs to one mesh is together.
    """
    pressing = target == V5E
    first, *others = PLANS
    found = [[(*first, level, 0.0) for level in (0.0, LEVELS[0])[: 1 + pressing]]]
    if pressing and memory_only:
        found.append([(*first, 0.0, share) for share in SHARES])
    found += [[(*plan, 0.0, 0.0)] for plan in others[:1]]
    if pressing:
        found.append([(*first, level, 0.0) for level in LEVELS[1:]])
        found.append([(*others[0], level, 0.0) for level in LEVELS])
    return found + [[(*plan, 0.0, 0.0)] for plan in others[1:]]


def in_turn(facts: Iterable[Record]) -> list[str]:
    """The programs that were lowered: the first of each architecture, then the second, and so on.

    Small ones come first, and deep ones last.
    """
    seen: Counter[str] = Counter()
    places = {}
    for row in facts:
        if "digest" in row:
            name, owner = row["key"], row["architecture"]
            places[name] = (name.endswith("-deep"), seen[owner], row["ops"], name)
            seen[owner] += 1
    return sorted(places, key=lambda name: places[name])


def all_cases(
    programs: Iterable[str], targets: Iterable[str], *, memory_only: bool
) -> list[list[Case]]:
    """The cases in order, in groups that one process works through."""
    names, chosen = list(programs), set(targets)
    groups = []
    most = max(len(rounds(target, memory_only=memory_only)) for target in TARGETS)
    for number in range(most):
        for name in names:
            for target in (one for one in targets_of(name) if one in chosen):
                plans = rounds(target, memory_only=memory_only)
                rows = plans[number] if number < len(plans) else []
                groups.append([_case(name, target, row) for row in rows if _wanted(name, row)])
    return [group for group in groups if group]


def room_cases(
    programs: Iterable[str], targets: Iterable[str], plans: Collection[str]
) -> list[list[Case]]:
    """The plans named, with room: a program's in a row, so that its plans can be ranked early."""
    chosen = set(targets)
    rows = [(mesh, plan, 0.0, 0.0) for mesh, plan in PLANS if plan in plans]
    pairs = [(name, one) for name in programs for one in targets_of(name) if one in chosen]
    return [[_case(name, target, row) for row in rows] for name, target in pairs]


def _case(program: str, target: str, row: tuple[str, str, float, float]) -> Case:
    mesh, plan, level, share = row
    return Case(program=program, mesh=mesh, plan=plan, target=target, level=level, share=share)


def _wanted(program: str, row: tuple[str, str, float, float]) -> bool:
    """Of the sizes each program has a few; the hash of its name says which."""
    share = row[3]
    if not share:
        return True
    first = number_of(f"sizes of {program}") % len(SHARES)
    stride = len(SHARES) // SHARES_EACH
    return (SHARES.index(share) - first) % stride == 0
