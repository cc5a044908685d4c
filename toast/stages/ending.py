"""The modules that run after the last microbatch: updates of weights, on the stage that has them.

An op runs where the largest of the sums is that it depends on. What another stage makes, such as
the norm of all gradients, it reads one round later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir

from toast.microbatch.tree import OpNode
from toast.stages.build import bytes_of, needed, write_module
from toast.stages.microbatch import PlacedBody, Written
from toast.stages.wiring import Phase, StageModule

Place = tuple[int, int]
"""A round and a stage."""
FIRST: Place = (0, 0)


@dataclass(slots=True)
class Ending:
    """Where and when each op after the loop runs.

    Ops that depend on no sum run wherever they are read.
    """

    body: PlacedBody
    of_value: dict[Any, Place] = field(default_factory=dict)
    of_node: dict[OpNode, Place] = field(default_factory=dict)
    names: dict[Any, str] = field(default_factory=dict)
    _spread: dict[Any, list[Any]] = field(default_factory=dict)
    """By value that is a scalar spread over a tensor, the scalars that it is made of.

    The scalar is sent, and spread where the tensor is read.
    """

    def run(self) -> Ending:
        """Choose the places of all ops, in order."""
        parts = self.body.parts
        for number, group in self.body.group_of_sum.items():
            value = parts.loop.results[number]
            self.of_value[value] = (0, self.body.stage_of(group))
            self.names[value] = f"sum:{number}"
        for node in parts.after:
            self._place(node)
        for number, value in enumerate(parts.main.arguments):
            self.names[value] = f"argument:{number}"
        made = (value for node in (*parts.before, *parts.after) for value in node.results)
        self.names |= {value: f"end:{number}" for number, value in enumerate(made)}
        return self

    def _place(self, node: OpNode) -> None:
        placed = [value for value in node.read if value in self.of_value]
        scalars = [one for value in node.read for one in self._spread.get(value, ())]
        if not placed and not scalars:
            return
        sources = list(dict.fromkeys([*placed, *scalars]))
        if max(map(bytes_of, sources)) < min(map(bytes_of, node.results)):
            self._spread.update(dict.fromkeys(node.results, sources))
            return
        stage = self.of_value[max(sources, key=bytes_of)][1]
        places = [self.of_value[value] for value in sources]
        place = max(at + (where != stage) for at, where in places), stage
        self.of_node[node] = place
        self.of_value.update(dict.fromkeys(node.results, place))


def after_modules(source: ir.Module, body: PlacedBody) -> tuple[list[Written], list[str]]:
    """The modules after the loop, round by round, and the names of the step's results."""
    ending = Ending(body).run()
    parts = body.parts
    results = list(parts.main.yields)
    every = [*parts.before, *parts.after]
    given = {*parts.main.arguments, *parts.loop.results}
    loose = [node for node in every if node not in ending.of_node]
    by_place: dict[Place, list[OpNode]] = defaultdict(list)
    for node in parts.after:
        if node in ending.of_node:
            by_place[ending.of_node[node]].append(node)
    unplaced = [value for value in results if value not in ending.of_value and value not in given]
    if unplaced:
        by_place.setdefault(FIRST, [])
    order = {node: number for number, node in enumerate(every)}
    own = {
        place: sorted(
            _with_loose(loose, nodes, unplaced if place == FIRST else ()), key=order.__getitem__
        )
        for place, nodes in sorted(by_place.items())
    }
    read_at = _readers(own)
    found: list[Written] = []
    for place, nodes in own.items():
        outputs = [
            value
            for value in ending.names
            if ending.of_value.get(value) == place
            and value not in given
            and (value in results or read_at[value] - {place})
        ]
        if place == FIRST:
            outputs += dict.fromkeys(unplaced)
        found.append(_written(source, ending, place, nodes, outputs))
    return found, [ending.names[value] for value in results]


def _with_loose(
    loose: Sequence[OpNode], placed: Sequence[OpNode], results: Sequence[Any]
) -> list[OpNode]:
    """Ops of one place, with those that run wherever they are read."""
    read = {value for node in placed for value in node.read}
    return [*needed(loose, read | set(results)), *placed]


def _readers(own: Mapping[Place, Sequence[OpNode]]) -> dict[Any, set[Place]]:
    found: dict[Any, set[Place]] = defaultdict(set)
    for place, nodes in own.items():
        for node in nodes:
            for value in node.read:
                found[value].add(place)
    return found


def _written(
    source: ir.Module, ending: Ending, place: Place, nodes: Sequence[OpNode], outputs: list[Any]
) -> Written:
    """One module of the ops of a place."""
    made = {value for node in nodes for value in node.results}
    wanted = {value for node in nodes for value in node.read} - made
    inputs = [value for value in ending.names if value in wanted]
    wired = StageModule(
        phase=Phase.AFTER,
        stage=place[1],
        number=place[0],
        inputs=tuple(ending.names[value] for value in inputs),
        outputs=tuple(ending.names[value] for value in outputs),
    )
    return wired, write_module(source, nodes, inputs, outputs)
