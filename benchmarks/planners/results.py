"""What came out of the compiler for each plan, and who was ahead in each case."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from benchmarks.accuracy.records import Record
from benchmarks.accuracy.statistics import compiled_seconds
from benchmarks.planners.cases import MANUAL, OURS, PEERS
from toast.aot import Target, Verdict

Kind = Literal["ours", "hand", "peer", "other"]
EQUAL = 1e-6
"""Two times that differ by less than this part are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A plan as compiled: seconds of a step and bytes of a device, where the compiler gave them.

    `compute` is the compiler's own estimate, the rest of `seconds` are collectives. `error` is why
    there is neither; `plan_seconds` is None for a layout by hand.
    """

    model: str
    mesh: str
    plan: str
    target: str
    plan_seconds: float | None
    seconds: float | None = None
    compute: float | None = None
    bytes: int | None = None
    fits: bool = False
    memory_only: bool = False
    error: str = ""

    @classmethod
    def of(cls, record: Record) -> Result:
        """The figures of a record."""
        plain = {name: record[name] for name in ("model", "mesh", "plan", "target")}
        spent = record.get("plan_seconds")
        if "compiled" not in record:
            return cls(**plain, plan_seconds=spent, error=record["error"])
        verdict = Verdict.from_dict(record["compiled"])
        return cls(
            **plain,
            plan_seconds=spent,
            seconds=compiled_seconds(record),
            compute=verdict.compute_seconds,
            bytes=verdict.needed_bytes,
            fits=verdict.refusal is None,
            memory_only=verdict.memory_only and verdict.refusal is None,
        )

    @property
    def kind(self) -> Kind:
        """Whose plan it is."""
        if self.plan.startswith(MANUAL):
            return "hand"
        return "ours" if self.plan == OURS else "peer" if self.plan in PEERS else "other"

    @property
    def runs(self) -> bool:
        """Whether there is a program that fits, and a time of it."""
        return self.fits and self.seconds is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """All plans of one program on one mesh of one target."""

    results: tuple[Result, ...]

    @property
    def place(self) -> tuple[str, str, str]:
        """Target, model and mesh."""
        first = self.results[0]
        return first.target, first.model, first.mesh

    def best(self, kind: Kind) -> Result | None:
        """The fastest of a kind that runs."""
        running = [one for one in self.results if one.kind == kind and one.runs]
        return min(running, key=lambda one: one.seconds or 0.0, default=None)

    @property
    def ours(self) -> Result | None:
        """Our plan, whether it runs or not."""
        return next((one for one in self.results if one.kind == "ours"), None)

    @property
    def rivals(self) -> list[Result]:
        """All by hand and of the peer."""
        return [one for one in self.results if one.kind in ("hand", "peer")]

    @property
    def rival(self) -> Result | None:
        """The fastest by hand or of the peer."""
        found = [one for kind in ("hand", "peer") if (one := self.best(kind)) is not None]
        return min(found, key=lambda one: one.seconds or 0.0, default=None)

    @property
    def ratio(self) -> float | None:
        """Our time over the rival's; infinite where ours does not run, None without a rival."""
        if self.ours is None or (rival := self.rival) is None or not rival.seconds:
            return None
        seconds = self.ours.seconds
        return math.inf if seconds is None or not self.ours.fits else seconds / rival.seconds

    @property
    def timed(self) -> bool:
        """Whether the compiler for the target gives times."""
        return Target.parse(self.place[0]).chip.clock is not None

    @property
    def alone_too_large(self) -> bool:
        """Whether ours does not fit and one by hand or of the peer does."""
        ours = self.ours
        refused = ours is not None and not ours.fits and not ours.error
        return refused and any(one.fits for one in self.rivals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How often ours was at least as fast as the best rival, and by how much on the whole.

    `mean` is the geometric mean of our time over the rival's, where both run; `won` counts those
    no slower, `clear` those at least 5 % faster.
    """

    compared: int
    won: int
    clear: int
    mean: float

    @classmethod
    def of(cls, matches: Iterable[Match]) -> Summary:
        """The figures of several matches."""
        ratios = [ratio for match in matches if (ratio := match.ratio) is not None]
        finite = [math.log(ratio) for ratio in ratios if math.isfinite(ratio)]
        return cls(
            compared=len(ratios),
            won=sum(ratio <= 1 + EQUAL for ratio in ratios),
            clear=sum(ratio <= 0.95 for ratio in ratios),
            mean=math.exp(sum(finite) / len(finite)) if finite else math.nan,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """In how many cases ours fits the chip, some rival does, and ours does not where one does."""

    cases: int
    ours: int
    rivals: int
    too_large: int

    @classmethod
    def of(cls, matches: Iterable[Match]) -> Fits:
        """The figures of the matches in which our plan compiled."""
        known = [match for match in matches if match.ours is not None and not match.ours.error]
        return cls(
            cases=len(known),
            ours=sum(match.ours is not None and match.ours.fits for match in known),
            rivals=sum(any(one.fits for one in match.rivals) for match in known),
            too_large=sum(match.alone_too_large for match in known),
        )


def matches_of(records: Iterable[Record]) -> list[Match]:
    """The plans of all records side by side, in the order in which places are met."""
    found: dict[tuple[str, str, str], list[Result]] = {}
    for record in records:
        result = Result.of(record)
        found.setdefault((result.target, result.model, result.mesh), []).append(result)
    return [Match(results=tuple(results)) for results in found.values()]
