"""The bands in which nine of ten held-out programs lie: compiled figures over predicted ones."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.records import Record
from benchmarks.accuracy.statistics import (
    QUIET,
    comparable_seconds,
    compiled_seconds,
    moving_seconds,
    needed_bytes,
    wire_bytes,
)
from benchmarks.zoo.summary import TINY, is_estimated, is_roomy, is_tiny, kind_of, least_bytes
from toast.aot import Target, Verdict
from toast.costmodel.bands import spreads as spreads_module
from toast.costmodel.bands.spreads import ALL, FIGURES, Figure, Spread, groups_of
from toast.costmodel.hardware.devices import find

SHIPPED = Path(spreads_module.__file__).with_name("held_out.toml")
SHARE = 0.9
"""Of the programs lie in a band."""
FEWEST_CASES, FEWEST_PROGRAMS = 10, 5
"""A group of fewer has no band."""

HEAD = f"""\
# How far off the prices are on programs that no rule and no constant was chosen by.
# Made of the held-out half of the zoo by: python -m benchmarks.zoo bands
#
# A compiled program takes between `low` and `high` times what is predicted in {SHARE * 100:.0f} of
# 100 programs. [chips.CHIPS.KIND.FIGURE]: a chip, a platform or all; a kind of program or all.
# A group of fewer than {FEWEST_CASES} cases or {FEWEST_PROGRAMS} programs has no band.

# Memory of programs that need less says nothing: they stay in the memory on the chip.
least_bytes = {TINY}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A compiled figure over the predicted one."""

    figure: Figure
    target: str
    program: str
    value: float


def bands_text(records: Iterable[Record]) -> str:
    """The file of bands, of the cases of the held-out half."""
    found = sorted(spreads(list(records)), key=lambda row: (row.chips, row.kind, row.figure))
    return HEAD + "".join(
        f"\n[chips.{row.chips}.{row.kind}.{row.figure}]\n"
        f"cases = {row.cases}\nprograms = {row.programs}\n"
        f"low = {row.low:.3f}\nhigh = {row.high:.3f}\n"
        for row in found
    )


def write_bands(records: Iterable[Record], path: Path) -> Path:
    """Write the file of bands."""
    path.write_text(bands_text(records), encoding="utf-8")
    return path


def spreads(records: list[Record]) -> list[Spread]:
    """The band of every figure in every group that has enough cases."""
    groups: defaultdict[tuple[str, str, Figure], list[Ratio]] = defaultdict(list)
    for ratio in ratios(records):
        device = find(Target.parse(ratio.target).chip.device)
        for chips in groups_of(device):
            for kind in (kind_of(ratio.program), ALL):
                groups[(chips, kind, ratio.figure)].append(ratio)
    found = []
    for (chips, kind, figure), some in groups.items():
        programs = len({one.program for one in some})
        if len(some) >= FEWEST_CASES and programs >= FEWEST_PROGRAMS:
            low, high = band([(one.program, one.value) for one in some])
            found.append(
                Spread(
                    figure=figure, chips=chips, kind=kind,
                    cases=len(some), programs=programs, low=low, high=high,
                )
            )  # fmt: skip
    return found


def band(values: Iterable[tuple[str, float]]) -> tuple[float, float]:
    """The ends between which the figure of a program not seen lies in `SHARE` of all cases.

    Of N programs that were drawn like it, as split conformal prediction has it: beyond either end
    lie so many programs that together with the new one they are half of what may be missed. With
    19 programs or fewer none may, and the band is all that was seen. The cases of one program
    count as one program together, for they are alike.
    """
    rows = sorted((value, program) for program, value in values)
    cases: defaultdict[str, int] = defaultdict(int)
    for _, program in rows:
        cases[program] += 1
    missed = max(0.0, (1.0 - SHARE) / 2.0 * (len(cases) + 1) - 1.0)

    def end(ordered: Iterable[tuple[float, str]]) -> float:
        beyond, last = 0.0, math.nan
        for value, program in ordered:
            last = value
            beyond += 1.0 / cases[program]
            if beyond > missed + 1e-9:
                break
        return last

    return end(rows), end(reversed(rows))


def ratios(records: list[Record]) -> Iterator[Ratio]:
    """Compiled over predicted, of all figures of all cases that speak of them."""
    given = [row for row in records if "compiled" in row and not row.get("stale")]
    least = least_bytes(given)
    for row in given:
        if "predicted" in row and "batch" not in row:
            figures = {**_memory(row, least), **_times(row)}
            for figure in FIGURES:
                value = figures.get(figure)
                if value is not None:
                    yield Ratio(
                        figure=figure, target=row["target"], program=row["model"], value=value
                    )


def _memory(row: Record, least: dict[str, int]) -> dict[str, float]:
    """Only the compilers for TPUs are pressed: others lay out with room what they lay out."""
    if is_tiny(row) or not is_roomy(row):
        return {}
    needed, predicted = needed_bytes(row), row["predicted"]
    on_tpu = Target.parse(row["target"]).chip.platform == "tpu"
    pressed = least.get(row["key"]) if on_tpu else needed
    pairs = {"room": (needed, predicted["room_bytes"])}
    pairs["pressed"] = (pressed, predicted.get("pressed_bytes"))
    return {figure: one / other for figure, (one, other) in pairs.items() if one and other}


def _times(row: Record) -> dict[str, float]:
    """Ratios of seconds; of communication only where enough of it was predicted to speak of."""
    predicted, found = row["predicted"], {}
    verdict, seconds = Verdict.from_dict(row["compiled"]), compiled_seconds(row)
    compute, moving = comparable_seconds(row), predicted["communication_seconds"]
    if seconds and verdict.compute_seconds and compute > 0.0 and is_estimated(row):
        found["step"] = seconds / (compute + moving)
        found["compute"] = verdict.compute_seconds / compute
    wire = wire_bytes(row)
    if wire is not None and wire[0] >= QUIET and moving > 0.0:
        found["communication"] = moving_seconds(row) / moving
    return found
