"""The tables as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy.records import Record, read_records
from benchmarks.accuracy.tables import table
from benchmarks.planners.cases import MANUAL, MESHES, OTHERS, TARGETS
from benchmarks.planners.models import models
from benchmarks.planners.results import Fits, Match, Result, Summary, matches_of


def read_matches(folder: Path) -> list[Match]:
    """All cases of a folder, by target, program and mesh in the order of the lists of these."""
    records: list[Record] = []
    for path in sorted(folder.glob("*.jsonl")):
        records += read_records(path)
    return sorted(matches_of(records), key=lambda match: _rank(match.place))


def _rank(place: tuple[str, str, str]) -> tuple[int, int, int]:
    lists: tuple[list[str], ...] = (list(TARGETS), list(models()), list(MESHES))
    target, model, mesh = (
        names.index(name) if name in names else len(names)
        for names, name in zip(lists, place, strict=True)
    )
    return target, model, mesh


def report(folder: Path) -> str:
    """All tables."""
    matches = read_matches(folder)
    if not matches:
        return "No case has been compiled yet."
    parts = (summary, losses, fitting, ahead, memory, every)
    return "\n\n".join(part(matches) for part in parts)


def summary(matches: Sequence[Match]) -> str:
    """How our plan does against the best by hand and the peer: a line a program, then all."""
    groups: dict[tuple[str, str], list[Match]] = {}
    for match in filter(lambda match: match.timed, matches):
        target, model, _ = match.place
        groups.setdefault((target, model), []).append(match)
        groups.setdefault((target, "all"), []).append(match)
    ordered = sorted(
        groups.items(), key=lambda item: (_rank((*item[0], ""))[0], item[0][1] == "all")
    )
    rows = [[*place, *_counts(Summary.of(some))] for place, some in ordered]
    header = ("cases", "no slower", "5 % faster", "mean of ours / best rival")
    return table(("target", "program", *header), rows)


def _counts(found: Summary) -> list[str]:
    mean = "" if math.isnan(found.mean) else f"{found.mean:.3f}"
    counts = [str(number) for number in (found.compared, found.won, found.clear)]
    return [*counts, mean]


def fitting(matches: Sequence[Match]) -> str:
    """In how many cases what fits: a line a target."""
    targets = dict.fromkeys(match.place[0] for match in matches)
    found = {
        target: Fits.of(match for match in matches if match.place[0] == target)
        for target in targets
    }
    rows = [
        [target, *(str(number) for number in (fits.cases, fits.ours, fits.rivals, fits.too_large))]
        for target, fits in found.items()
    ]
    return table(("target", "cases", "ours fits", "some rival fits", "ours alone does not"), rows)


def losses(matches: Sequence[Match]) -> str:
    """The cases in which a layout by hand or the peer is ahead of our plan, by name."""
    lines = [
        f"- {' '.join(match.place)}: {_name(rival)} {_time(rival)} ms, ours {_time(ours)} ms "
        f"({_ratio(match)})"
        for match in matches
        if (match.ratio or 0.0) > 1.0 and (ours := match.ours) and (rival := match.rival)
    ]
    return "\n".join(["Where ours is slower:", "", *lines]) if lines else "Ours is nowhere slower."


def ahead(matches: Sequence[Match]) -> str:
    """A line a case: milliseconds of ours, of the best of each kind, and of the other planners."""
    rows = []
    for match in filter(lambda match: match.timed, matches):
        others = {one.plan: one for one in match.results if one.kind == "other"}
        hand, peer = match.best("hand"), match.best("peer")
        rows.append(
            [
                *match.place,
                _cell(match.ours),
                "" if hand is None else f"{_time(hand)} ({_name(hand)})",
                _cell(peer) if peer else _failed(match, "peer"),
                _ratio(match),
                *(_cell(others.get(name)) for name in OTHERS),
            ]
        )
    header = ("target", "program", "mesh", "ours", "best by hand", "XLA's own", "ours / best")
    return table((*header, *OTHERS), rows)


def memory(matches: Sequence[Match]) -> str:
    """A line a case: MiB of a device by our plan, and by that by hand or of the peer with least."""
    rows = []
    for match in matches:
        known = [one for one in match.rivals if one.bytes is not None]
        least = min(known, key=lambda one: one.bytes or 0, default=None)
        large = [_name(one) for one in match.rivals if not one.error and not one.fits]
        rows.append(
            [
                *match.place,
                _mebi(match.ours),
                "" if least is None else f"{_mebi(least)} ({_name(least)})",
                ", ".join(large),
            ]
        )
    return table(("target", "program", "mesh", "ours, MiB", "least of rivals", "too large"), rows)


def _failed(match: Match, kind: str) -> str:
    asked = [one for one in match.results if one.kind == kind]
    return "; ".join(dict.fromkeys(_cell(one) for one in asked))


def _cell(result: Result | None) -> str:
    if result is None:
        return ""
    if result.error:
        return "not finished" if _is_late(result) else "failed"
    return _time(result) if result.fits else "too large"


def _is_late(result: Result) -> bool:
    return "not finish" in result.error or result.error.startswith("engine_timeout")


def every(matches: Sequence[Match]) -> str:
    """A line a plan."""
    rows = []
    for match in matches:
        for one in sorted(match.results, key=lambda one: (one.seconds or math.inf, one.plan)):
            spent = "" if one.plan_seconds is None else f"{one.plan_seconds:.1f}"
            moving = None if one.seconds is None else one.seconds - (one.compute or 0.0)
            milliseconds = [_milli(value) for value in (one.seconds, one.compute, moving)]
            size = "" if one.bytes is None else f"{one.bytes / 2**20:,.0f}"
            known = "yes, not timed" if one.memory_only else "yes" if one.fits else "refused"
            fits = one.error.replace("|", "/") or known
            rows.append([*match.place, _name(one), spent, *milliseconds, size, fits])
    header = ("plan", "planner s", "step ms", "computing", "moving", "MiB a device", "fits")
    return table(("target", "program", "mesh", *header), rows)


def _name(result: Result) -> str:
    return result.plan.removeprefix(MANUAL)


def _milli(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.2f}"


def _mebi(result: Result | None) -> str:
    if result is None or result.bytes is None:
        return _cell(result)
    size = f"{result.bytes / 2**20:,.0f}"
    return size if result.fits else f"{size}, too large"


def _time(result: Result) -> str:
    return _milli(result.seconds)


def _ratio(match: Match) -> str:
    ratio = match.ratio
    return "" if ratio is None else _cell(match.ours) if math.isinf(ratio) else f"{ratio:.3f}"
