"""Which settings are tried: formulas against each other, then each number by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from toast.search.problem import SearchSettings

ALONE_EVALUATIONS = 4_000
"""Where only the rounds run, each run may price this many states."""
ALONE_SEEDS, HELPED_SEEDS = 2, 1
NAMES = (
    "selection",
    "shaping",
    "exploration",
    "stop_chance",
    "discount",
    "prior_temperature",
    "max_share",
    "round_rollouts",
    "virtual_loss",
)
BASE = SearchSettings(
    selection="puct",
    shaping="log",
    exploration=0.8,
    stop_chance=0.2,
    discount=0.998,
    prior_temperature=0.15,
    max_share=0.5,
    round_rollouts=4_000,
    virtual_loss=2,
)
"""What each value is tried in, with all other settings as they are here."""
COMBINED: tuple[Mapping[str, float], ...] = (
    {},
    {"stop_chance": 0.05},
)
"""Changes of `BASE` that win; one of them is the default."""
FORMULAS: Mapping[tuple[str, str], tuple[float, ...]] = {
    ("puct", "log"): (0.2, 0.4, 0.8, 1.6),
    ("puct", "inverse"): (0.2, 0.4, 0.8, 1.6),
    ("ucb1", "log"): (0.02, 0.05, 0.1, 0.2),
    ("ucb1", "inverse"): (0.02, 0.05, 0.1, 0.2),
}
"""Exploration constants by formula of selection and shaping of the reward."""
ONE_AT_A_TIME: Mapping[str, tuple[float, ...]] = {
    "stop_chance": (0.05, 0.1, 0.2, 0.4),
    "discount": (0.99, 0.998, 1.0),
    "prior_temperature": (0.05, 0.15, 0.5, 5.0),
    "max_share": (0.0, 0.25, 0.5, 1.0),
    "round_rollouts": (250, 500, 1_000, 2_000, 4_000),
}
VIRTUAL_LOSS = (0, 1, 2, 4)
"""Tried with two threads; one thread has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Settings to try. `part` says in which comparison: `formula`, or the name of a setting."""

    part: str
    settings: SearchSettings

    @property
    def values(self) -> dict[str, Any]:
        """What the settings are, without the seed and what bounds a run."""
        every = asdict(self.settings)
        return {name: every[name] for name in (*NAMES, "threads", "helpers")}

    @property
    def key(self) -> str:
        """Equal for equal values and seeds."""
        values = ",".join(f"{name}={value}" for name, value in self.values.items())
        return f"{values},seed={self.settings.seed}"


def variants() -> Iterator[Variant]:
    """Every variant with every seed: the rounds alone, and some with what runs beside them."""
    for seed in range(ALONE_SEEDS):
        base = replace(BASE, seed=seed, helpers=False)
        yield from combined(base)
        yield from one_formula(base)
        for name, values in ONE_AT_A_TIME.items():
            yield from one_value(base, name, values)
        yield from one_value(replace(base, threads=2), "virtual_loss", VIRTUAL_LOSS)
    for seed in range(HELPED_SEEDS):
        base = replace(BASE, seed=seed)
        yield from combined(base)
        yield from one_formula(base)


def combined(base: SearchSettings) -> Iterator[Variant]:
    """Changes of several settings of `base` at once."""
    for changes in COMBINED:
        yield Variant(part="together", settings=replace(base, **changes))  # type: ignore[arg-type]


def one_formula(base: SearchSettings) -> Iterator[Variant]:
    """Every formula with every constant, the rest as in `base`."""
    for (selection, shaping), constants in FORMULAS.items():
        for constant in constants:
            chosen = {"selection": selection, "shaping": shaping, "exploration": constant}
            yield Variant(part="formula", settings=replace(base, **chosen))  # type: ignore[arg-type]


def one_value(base: SearchSettings, name: str, values: Sequence[float]) -> Iterator[Variant]:
    """Every value of one setting, the rest as in `base`."""
    kind = type(getattr(base, name))
    for value in values:
        yield Variant(part=name, settings=replace(base, **{name: kind(value)}))
