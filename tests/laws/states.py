"""Any state of an analysed program: every action that shards something, nothing pruned."""

from __future__ import annotations

from collections import Counter
from itertools import product

from toast.analysis.analyse import analyse
from toast.analysis.load import Source, load
from toast.costmodel.evaluator import Action, Evaluator, State
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh

MAX_BITS = 4
MAX_ACTIONS = 6


def every_action(evaluator: Evaluator) -> list[Action]:
    """All (group, axis, resolution) where the axis divides an item of the group."""
    analysis = evaluator.analysis
    sets = Counter(analysis.groups.set_colour.tolist())
    divisible: dict[int, set[int]] = {}
    tables = evaluator.tables
    for group, size in zip(
        tables.units.item_group.tolist(), tables.units.item_size.tolist(), strict=True
    ):
        if group >= 0:
            divisible.setdefault(group, set()).add(size)
    found = []
    for group, sizes in sorted(divisible.items()):
        for index, axis in enumerate(evaluator.mesh.axes):
            if any(size % axis.size == 0 for size in sizes):
                choices = range(1 << min(sets[group], MAX_BITS))
                found += [Action(group=group, axis=index, bits=bits) for bits in choices]
    return found


def state_of(evaluator: Evaluator, picks: list[int]) -> State:
    """The state that some numbers pick: each takes one action, in order."""
    actions = every_action(evaluator)
    if not actions:
        return ()
    return tuple(actions[pick % len(actions)] for pick in picks)


def single_states(evaluator: Evaluator) -> list[State]:
    """Each action by itself, and each pair of actions on different axes."""
    actions = every_action(evaluator)
    states: list[State] = [(action,) for action in actions]
    return states + [(a, b) for a, b in product(actions, actions) if a.axis != b.axis]


def prepared(text: str, mesh: str) -> tuple[Source, Evaluator]:
    """A module loaded, analysed and ready to be priced on a mesh."""
    source = load(text.encode())
    return source, Evaluator(analyse(source.program), Mesh.parse(mesh), find("cpu"))
