"""Compatibility sets that may get another resolution than the symmetric sets of their group."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from toast.costmodel.evaluator import Evaluator, State
from toast.search.decision_sites import SiteMembers, Thing

MAX_SETS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SetResolution:
    """One compatibility set: all that has a conflict of it. `group` is its set group."""

    group: int
    things: tuple[Thing, ...]


def set_resolutions(evaluator: Evaluator, state: State, things: SiteMembers) -> list[SetResolution]:
    """The sets that are not alone in their group and that the state resolves."""
    conflicts, groups = evaluator.analysis.conflicts, evaluator.analysis.groups
    taken = {action.group for action in state}
    members = Counter(groups.of_set.tolist())
    open_sets = {
        which
        for which, group in enumerate(groups.of_set.tolist())
        if members[group] > 1 and int(groups.set_colour[group]) in taken
    }
    found: defaultdict[int, dict[Thing, None]] = defaultdict(dict)
    for conflict, which in zip(conflicts.all, conflicts.set_of.tolist(), strict=True):
        if which in open_sets and (which in found or len(found) < MAX_SETS):
            found[which].update(dict.fromkeys(_having(things, conflict.op, set(conflict.names))))
    return [
        SetResolution(group=int(groups.of_set[which]), things=tuple(having))
        for which, having in found.items()
        if all(coupled in having for thing in having for coupled in things.with_coupled(thing))
    ]


def _having(things: SiteMembers, op: int, pair: set[int]) -> list[Thing]:
    """The op, its values and its uses as a transfer that have both names of a conflict."""
    program = things.program
    ends: list[Thing] = [("value", value) for value in program.values_of(op)]
    ends += [thing for use in program.uses_of(op) if (thing := things.user_of(use))[0] == "use"]
    found = [end for end in ends if pair <= set(things.names(end))]
    return found if things.is_transfer(op) else [("op", op), *found]
