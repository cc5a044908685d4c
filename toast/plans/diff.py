"""What differs between two plans of one module: `toast.diff` and `toast diff A B`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from toast.analysis.errors import InvalidRequest
from toast.plans.plan import Collective, Decision, Plan, Spec, Tensor
from toast.plans.record import Record
from toast.plans.result import PlanResult
from toast.plans.tensors import tensor_patterns
from toast.request.patterns import path, starred


class SettingChange(Record):
    """What the plans were made for, where that is not the same, as text."""

    what: str
    a: str
    b: str


class LayoutChange(Record):
    """Arguments or results of one pattern of names that both plans lay out, each its own way."""

    kind: str
    name: str
    count: int
    shape: list[int]
    a: Spec
    b: Spec


class FigureChange(Record):
    """A predicted figure of one step on one device, in seconds or bytes."""

    what: str
    unit: str
    a: float
    b: float


class TrafficChange(Record):
    """Communication by one kind of collective: calls, bytes on the wire and seconds of a step."""

    kind: str
    count_a: int
    count_b: int
    bytes_a: int
    bytes_b: int
    seconds_a: float
    seconds_b: float


class PlanDiff(Record):
    """What differs between plan `a` and plan `b`; all lists are empty where nothing does.

    `figures` and `traffic` have all of both plans where any of them differs. `only_a` and `only_b`
    are decisions as a request takes them; with `reordered` both have the same in another order.
    """

    same_module: bool
    settings: list[SettingChange]
    layouts: list[LayoutChange]
    unchanged_layouts: int
    figures: list[FigureChange]
    traffic: list[TrafficChange]
    only_a: list[str]
    only_b: list[str]
    reordered: bool

    @property
    def equal(self) -> bool:
        """Whether the plans decide and predict the same."""
        lists = (self.settings, self.layouts, self.figures, self.traffic, self.only_a, self.only_b)
        return not any(lists) and not self.reordered

    def __str__(self) -> str:
        """The tables that `toast diff` prints."""
        from toast.plans.diff_report import diff_text

        return diff_text(self)


def diff(a: Plan | PlanResult, b: Plan | PlanResult) -> PlanDiff:
    """What differs between two plans: mesh, chip, layouts, predictions and decisions.

    Raises `InvalidRequest` where the plans are of modules with other arguments or results.
    """
    one, other = (plan.plan if isinstance(plan, PlanResult) else plan for plan in (a, b))
    _check_comparable(one, other)
    pairs = [
        *_pairs("argument", one.arguments, other.arguments),
        *_pairs("result", one.results, other.results),
    ]
    changed = [pair for pair in pairs if pair.a.spec != pair.b.spec]
    mine, its = ([_decision_text(row) for row in plan.decisions] for plan in (one, other))
    return PlanDiff(
        same_module=one.module.sha256 == other.module.sha256,
        settings=list(_settings(one, other)),
        layouts=list(_layouts(changed)),
        unchanged_layouts=len(pairs) - len(changed),
        figures=_figures(one, other),
        traffic=_traffic(one, other),
        only_a=list((Counter(mine) - Counter(its)).elements()),
        only_b=list((Counter(its) - Counter(mine)).elements()),
        reordered=mine != its and Counter(mine) == Counter(its),
    )


def _check_comparable(a: Plan, b: Plan) -> None:
    """Refuse plans whose arguments or results are not one and the same."""
    for kind in ("arguments", "results"):
        mine, its = (_signature(getattr(plan, kind)) for plan in (a, b))
        if mine == its:
            continue
        both = zip(mine, its, strict=False)
        first = next((pair for pair in both if pair[0] != pair[1]), None)
        said = f"{len(mine):,} {kind} against {len(its):,}"
        if first is not None:
            said = f"of their {kind}, {first[0]} stands against {first[1]}"
        raise InvalidRequest(
            f"The plans are of different modules: {said}.", "Give two plans of one module."
        )


def _signature(tensors: Iterable[Tensor]) -> list[str]:
    return [f"{path(one.name)} {one.dtype}{one.shape}" for one in tensors]


def _settings(a: Plan, b: Plan) -> Iterator[SettingChange]:
    rows = (
        ("mesh", *(",".join(f"{x.name}={x.size}" for x in plan.mesh.axes) for plan in (a, b))),
        ("networks", *("; ".join(" ".join(x.places) for x in plan.mesh.axes) for plan in (a, b))),
        ("device", a.device, b.device),
        ("memory in bytes", str(a.memory_bytes), str(b.memory_bytes)),
    )
    for what, mine, its in rows:
        if mine != its:
            yield SettingChange(what=what, a=mine, b=its)


class _Pair(NamedTuple):
    """A tensor in both plans, and the pattern of its name."""

    kind: str
    pattern: str
    a: Tensor
    b: Tensor


def _pairs(kind: str, mine: Sequence[Tensor], its: Sequence[Tensor]) -> Iterator[_Pair]:
    for pattern, x, y in zip(tensor_patterns(mine), mine, its, strict=True):
        yield _Pair(kind, pattern, x, y)


def _layouts(changed: Iterable[_Pair]) -> Iterator[LayoutChange]:
    """One row for tensors of one pattern of names, shape and change."""
    rows: dict[str, list[_Pair]] = {}
    for pair in changed:
        key = f"{pair.kind} {pair.pattern} {pair.a.shape} {pair.a.spec} {pair.b.spec}"
        rows.setdefault(key, []).append(pair)
    for members in rows.values():
        first = members[0]
        yield LayoutChange(
            kind=first.kind,
            name=starred([pair.a.name for pair in members]),
            count=len(members),
            shape=first.a.shape,
            a=first.a.spec,
            b=first.b.spec,
        )


_FIGURES = (
    ("step", "step_seconds", "seconds"),
    ("compute", "compute_seconds", "seconds"),
    ("communication", "communication_seconds", "seconds"),
    ("peak", "peak_bytes", "bytes"),
)


def _figures(a: Plan, b: Plan) -> list[FigureChange]:
    rows = [
        FigureChange(what=what, unit=unit, a=getattr(a.predicted, of), b=getattr(b.predicted, of))
        for what, of, unit in _FIGURES
    ]
    return rows if any(row.a != row.b for row in rows) else []


def _traffic(a: Plan, b: Plan) -> list[TrafficChange]:
    kinds = dict.fromkeys(row.kind for row in (*a.collectives, *b.collectives))
    rows = []
    for kind in kinds:
        mine, its = ([row for row in plan.collectives if row.kind == kind] for plan in (a, b))
        rows.append(
            TrafficChange(
                kind=kind,
                count_a=sum(row.count for row in mine),
                count_b=sum(row.count for row in its),
                bytes_a=sum(row.bytes for row in mine),
                bytes_b=sum(row.bytes for row in its),
                seconds_a=_seconds(mine),
                seconds_b=_seconds(its),
            )
        )
    same = [_sent(plan) for plan in (a, b)]
    return [] if same[0] == same[1] else sorted(rows, key=lambda row: -row.seconds_a)


def _sent(plan: Plan) -> set[str]:
    return {repr(row) for row in plan.collectives}


def _seconds(rows: Iterable[Collective]) -> float:
    return sum(row.seconds for row in rows)


def _decision_text(row: Decision) -> str:
    """A decision as a request takes it; a refinement with its places."""
    text = f"{row.colour}={row.axis}" + (f":{row.resolution}" if row.resolution else "")
    return f"{text} at {'; '.join(row.places)}" if row.places else text
