"""One row for arguments that differ in one step of their path: a weight and its two moments."""

from __future__ import annotations

import re
from collections.abc import Iterable

from toast.plans.plan import Group

_STEP = re.compile(r"\[[^\]]*\]|[^\[]+")


def merge_argument_groups(groups: Iterable[Group]) -> list[Group]:
    """Join groups of one shape, dtype and layout whose paths differ in one step alone.

    `state['mu']['w']` and `state['nu']['w']` become `state['mu','nu']['w']`; joined rows join
    again. The order is that of the first of each.
    """
    before = list(groups)
    after = _merge_once(before)
    return after if len(after) == len(before) else merge_argument_groups(after)


def _merge_once(groups: list[Group]) -> list[Group]:
    rows: list[tuple[list[str], list[Group]]] = []
    for group in groups:
        steps = _STEP.findall(group.name)
        for path, members in rows:
            if (place := _join(path, steps, members, group)) is not None:
                path[place] = f"{path[place][:-1]},{steps[place][1:]}"
                members.append(group)
                break
        else:
            rows.append((steps, [group]))
    return [_merged(path, members) for path, members in rows]


def _join(path: list[str], steps: list[str], members: list[Group], group: Group) -> int | None:
    """The one step in which `group` differs from what is joined so far, if it may join."""
    first = members[0]
    if (first.shape, first.dtype, first.spec) != (group.shape, group.dtype, group.spec):
        return None
    if len(path) != len(steps):
        return None
    different = [i for i, (a, b) in enumerate(zip(path, steps, strict=True)) if a != b]
    if len(different) != 1 or not path[different[0]].startswith("["):
        return None
    return different[0] if steps[different[0]].startswith("[") else None


def _merged(path: list[str], members: list[Group]) -> Group:
    arguments = sorted(index for member in members for index in member.arguments)
    return members[0].model_copy(update={"name": "".join(path), "arguments": arguments})
