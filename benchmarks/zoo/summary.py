"""The figures of one half: memory with room and pressed, verdicts, wire, times and ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from benchmarks.accuracy.records import Record
from benchmarks.accuracy.statistics import (
    needed_bytes,
    step_seconds,
    wire_error,
)
from benchmarks.accuracy.summary import NEAR_WIRE, Errors, Ranks, by, known
from benchmarks.zoo.cases import Case
from toast.aot import Target
from toast.costmodel.hardware.devices import find

ROOMY = 0.85
"""Of the chip's memory; what needs more than this may have been squeezed, with no flag at all."""
TINY = 64 * 2**20
"""Programs that need less by both figures lie in a TPU's vector memory, and say nothing."""
LOW, HIGH = 0.5, 2.0
"""Verdicts count for programs that need so many times a chip's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """How often "fits" was said rightly; `false_fits` were refused, `false_refusals` were not."""

    cases: int
    right: int
    false_fits: int
    false_refusals: int

    @property
    def share(self) -> float:
        """The part that was right."""
        return self.right / self.cases if self.cases else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures of several cases."""

    programs: int
    cases: int
    room: Errors
    room_bias: float
    pressed: Errors
    squeezed: float
    verdicts: Verdicts
    wire: Errors
    time: Errors
    rank_median: float
    rank_least: float
    ranked: int

    @classmethod
    def of(cls, records: list[Record]) -> Summary:
        """The figures of compiled cases of any target."""
        given = [row for row in records if "compiled" in row and not row.get("stale")]
        own = [row for row in given if "predicted" in row and "batch" not in row]
        ranks, roomy = ranks_of(own), [row for row in own if is_roomy(row) and not is_tiny(row)]
        rooms = known(roomy, room_error)
        needed = {row["key"]: needed_bytes(row) for row in own}
        shares = [least / (needed[key] or least) for key, least in least_bytes(given).items()]
        return cls(
            programs=len({row["model"] for row in given}),
            cases=len(given),
            room=Errors.of(rooms, 0.15),
            room_bias=float(np.median(rooms)) if rooms else float("nan"),
            pressed=Errors.of([error for _, error in pressed_errors(given)], 0.2),
            squeezed=float(np.median(shares)) if shares else float("nan"),
            verdicts=verdicts(given),
            wire=Errors.of(known(own, wire_error), NEAR_WIRE),
            time=Errors.of(known(own, time_error), 0.2),
            rank_median=float(np.median(ranks)) if ranks else float("nan"),
            rank_least=min(ranks, default=float("nan")),
            ranked=len(ranks),
        )


def usable(record: Record) -> int:
    """The memory of the chip that a case was compiled for."""
    return find(Target.parse(record["target"]).chip.device).usable_bytes


def is_roomy(record: Record) -> bool:
    """Whether the compiler had memory to spare, so that what it laid out is what it likes."""
    needed = needed_bytes(record)
    accepted = record["compiled"]["refusal"] is None
    return accepted and needed is not None and needed <= ROOMY * usable(record)


def is_tiny(record: Record) -> bool:
    """Whether a program is too small to say anything of memory."""
    return max(needed_bytes(record) or 0, record["predicted"]["room_bytes"]) < TINY


def room_error(record: Record) -> float | None:
    """(predicted - compiled) / compiled bytes with room."""
    needed, predicted = needed_bytes(record), record["predicted"]
    return None if not needed else float(predicted["room_bytes"]) / needed - 1.0


def time_error(record: Record) -> float | None:
    """(predicted - compiled) / compiled seconds of a step."""
    both = step_seconds(record) if is_estimated(record) else None
    return None if both is None or both[1] <= 0.0 else both[0] / both[1] - 1.0


def is_estimated(record: Record) -> bool:
    """Whether the compiler estimates more of a step than copies.

    It has no estimate of lookups and of sums by index, of which some steps are made.
    """
    return set(record["compiled"]["cycles"]) != {"copy"}


def pressed_errors(records: Iterable[Record]) -> list[tuple[Record, float]]:
    """The least that a program came down to when pressed, beside what was predicted of that.

    Only programs that were laid out with room, and whose prediction speaks of being pressed.
    """
    rows = list(records)
    least = least_bytes(rows)
    found = []
    for row in rows:
        predicted = row.get("predicted", {}).get("pressed_bytes")
        if predicted is not None and row["key"] in least:
            found.append((row, predicted / least[row["key"]] - 1.0))
    return found


def least_bytes(records: Iterable[Record]) -> dict[str, int]:
    """The least that each case with room came down to at any level, by its key."""
    rows = {row["key"]: row for row in records if "batch" not in row}
    least: dict[str, int] = {}
    for key, row in rows.items():
        case = Case.parse(key)
        room = rows.get(case.room.key)
        needed = needed_bytes(row) if row["compiled"]["refusal"] is None else None
        own = None if room is None or not is_roomy(room) else needed_bytes(room)
        if case.level and own is not None:
            known_least = least.get(case.room.key, own)
            least[case.room.key] = min(known_least, own if needed is None else needed)
    return least


def verdicts(records: Iterable[Record]) -> Verdicts:
    """What was called fitting and what the compiler accepts, near the limit of the chip."""
    rows = [row for row in records if "predicted" in row and is_near_limit(row)]
    refused = [row["compiled"]["refusal"] is not None for row in rows]
    called = [called_fitting(row) for row in rows]
    pairs = list(zip(called, refused, strict=True))
    return Verdicts(
        cases=len(rows),
        right=sum(fits != no for fits, no in pairs),
        false_fits=sum(fits and no for fits, no in pairs),
        false_refusals=sum(not fits and not no for fits, no in pairs),
    )


def is_near_limit(record: Record) -> bool:
    """Whether a case needs about a chip's memory; of a refusal without a figure, was sized to."""
    needed, limit = needed_bytes(record), usable(record)
    if needed is None:
        return "batch" in record
    return LOW * limit <= needed <= HIGH * limit


def called_fitting(record: Record) -> bool:
    """What the cost model says: of the memory that the program can be pressed to, if it says so."""
    return bool(record["predicted"]["fits"])


def ranks_of(records: list[Record]) -> list[float]:
    """Spearman's correlation over the plans of each program on each target that has enough."""
    found = []
    for rows in by(records, "target").values():
        for plans in by(rows, "model").values():
            rank = Ranks.of(plans).all
            found += [] if math.isnan(rank) else [rank]
    return found


def by_word(records: Iterable[Record], word: Callable[[str], str]) -> dict[str, list[Record]]:
    """Cases by a word that is made of the name of their program."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(word(record["model"]), []).append(record)
    return found


def kind_of(program: str) -> str:
    """What a program does: train, infer, prefill or decode."""
    return program.partition("/")[2].partition("-")[0]
