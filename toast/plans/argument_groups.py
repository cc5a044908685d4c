"""One row for arguments that differ in one step of their path: a weight and its two moments."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from toast.plans.plan import Group

_STEP = re.compile(r"\[[^\]]*\]|\.?[^\[.]+")


def merge_argument_groups(groups: Iterable[Group]) -> list[Group]:
    """Join groups of one shape, dtype and layout whose paths differ in one step alone.

    `state['mu']['w']` and `state['nu']['w']` become `state['mu','nu']['w']`, `.mu` and `.nu`
    `.mu,nu`; joined rows join again. The order is that of the first of each.
    """
    before = list(groups)
    after = _merge_once(before)
    return after if len(after) == len(before) else merge_argument_groups(after)


def _merge_once(groups: list[Group]) -> list[Group]:
    rows: list[_Row] = []
    waiting: dict[Hashable, int] = {}
    for group in groups:
        steps = _STEP.findall(group.name)
        keys = _keys(group, steps)
        found = [(row, place) for place, key in keys if (row := waiting.get(key)) is not None]
        joined = [(row, place) for row, place in found if rows[row].path != steps]
        if joined:
            number, place = min(joined)
            rows[number].join(group, steps, place)
            # What differs in one step already may not differ in another one too.
            for key in rows[number].keys_but(place):
                if waiting.get(key) == number:
                    del waiting[key]
            continue
        for _, key in keys:
            waiting.setdefault(key, len(rows))
        rows.append(_Row(path=steps, members=[group], keys=keys))
    return [_merged(row.path, row.members) for row in rows]


@dataclass(slots=True)
class _Row:
    """Groups that are joined; by the step that may differ, the key of what may join."""

    path: list[str]
    members: list[Group]
    keys: list[tuple[int, Hashable]]

    def join(self, group: Group, steps: list[str], place: int) -> None:
        before = self.path[place]
        self.path[place] = f"{before.removesuffix(']')},{steps[place][1:]}"
        self.members.append(group)

    def keys_but(self, place: int) -> list[Hashable]:
        return [key for step, key in self.keys if step != place]


def _keys(group: Group, steps: list[str]) -> list[tuple[int, Hashable]]:
    """For each step that may differ all else that must be equal."""
    kind = (tuple(group.shape), group.dtype, str(group.spec))
    return [
        (place, (kind, place, tuple(steps[:place]), tuple(steps[place + 1 :])))
        for place, step in enumerate(steps)
        if step.startswith(("[", "."))
    ]


def _merged(path: list[str], members: list[Group]) -> Group:
    arguments = sorted(index for member in members for index in member.arguments)
    return members[0].model_copy(update={"name": "".join(path), "arguments": arguments})
