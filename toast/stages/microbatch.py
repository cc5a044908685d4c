"""The modules that run once for each microbatch, and those that prepare what they read."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxlib.mlir import ir

from toast.microbatch.tree import OpNode
from toast.stages.build import needed, write_module
from toast.stages.groups import ANYWHERE, OpGroups
from toast.stages.parts import Parts
from toast.stages.wiring import TIME, Phase, StageModule

Written = tuple[StageModule, ir.Module]


@dataclass(frozen=True, kw_only=True)
class PlacedBody:
    """The body of the loop with the group of each op, and on which stage groups are."""

    parts: Parts
    groups: OpGroups
    stages: int

    @property
    def training(self) -> bool:
        """Whether anything runs backward."""
        return any(self.groups.is_backward(group) for group in self.groups.of_node.values())

    def stage_of(self, group: int) -> int:
        """The stage on which a group runs."""
        return self.groups.chunk_of(group) % self.stages

    @cached_property
    def group_of_sum(self) -> dict[int, int]:
        """By number of what the loop carries, the group that adds to a sum."""
        body, groups = self.parts.body, self.groups.of_value
        return {number: groups.get(body.yields[number], 0) for number in self.parts.sums}

    @cached_property
    def nodes(self) -> dict[int, list[OpNode]]:
        """The ops of each group, with those that it makes for itself."""
        by_group: dict[int, list[OpNode]] = defaultdict(list)
        for node in self.parts.body.nodes:
            by_group[self.groups.of_node[node]].append(node)
        anywhere = by_group.pop(ANYWHERE, [])
        for group in self.group_of_sum.values():
            by_group.setdefault(group, [])
        return {
            group: [*needed(anywhere, self._wanted(group, nodes)), *nodes]
            for group, nodes in sorted(by_group.items())
        }

    def _wanted(self, group: int, nodes: list[OpNode]) -> set[Any]:
        ends = {
            self.parts.body.yields[number]
            for number, own in self.group_of_sum.items()
            if own == group
        }
        return ends | {value for node in nodes for value in node.read}

    @cached_property
    def names(self) -> dict[Any, str]:
        """The name of each value of the body."""
        body = self.parts.body
        found: dict[Any, str] = {body.arguments[0]: TIME}
        found |= {body.arguments[number]: self._given(number) for number in self.parts.given}
        found |= {body.arguments[number]: f"sum:{number}" for number in self.parts.sums}
        values = (value for node in body.nodes for value in node.results)
        return found | {value: f"value:{number}" for number, value in enumerate(values)}

    def _given(self, number: int) -> str:
        """An argument of the step that is read as it is, or what is made of some before."""
        value = self.parts.loop.operands[number]
        arguments = self.parts.main.arguments
        return f"argument:{arguments.index(value)}" if value in arguments else f"kept:{number}"

    @cached_property
    def read_by(self) -> dict[Any, set[int]]:
        """The groups that read each value of the body which they do not make themselves."""
        found: dict[Any, set[int]] = defaultdict(set)
        for group, nodes in self.nodes.items():
            made = {value for node in nodes for value in node.results}
            for node in nodes:
                for value in node.read:
                    if value not in made:
                        found[value].add(group)
        return found

    def inputs(self, group: int) -> list[Any]:
        """What a group reads and does not make, in the order of the body."""
        return [value for value in self.names if group in self.read_by.get(value, ())]

    def outputs(self, group: int) -> list[Any]:
        """What other groups read of what a group makes."""
        own = self.groups.of_value
        return [
            value for value in self.names if own.get(value) == group and self.read_by.get(value)
        ]


def body_modules(source: ir.Module, body: PlacedBody) -> list[Written]:
    """The modules of all groups, in the order of their work."""
    found: list[Written] = []
    for group, nodes in body.nodes.items():
        sums = [number for number, own in body.group_of_sum.items() if own == group]
        ends = [body.parts.body.yields[number] for number in sums]
        inputs, outputs = body.inputs(group), body.outputs(group)
        wired = StageModule(
            phase=Phase.BACKWARD if body.groups.is_backward(group) else Phase.FORWARD,
            stage=body.stage_of(group),
            number=body.groups.chunk_of(group),
            inputs=tuple(body.names[value] for value in inputs),
            outputs=(
                *(body.names[value] for value in outputs),
                *(f"sum:{number}" for number in sums),
            ),
        )
        wanted = needed(nodes, {*outputs, *ends})
        found.append((wired, write_module(source, wanted, inputs, [*outputs, *ends])))
    return found


def before_modules(source: ir.Module, body: PlacedBody) -> list[Written]:
    """For each stage a module that makes what its microbatches read, and where sums begin."""
    parts = body.parts
    numbers = {value: number for number, value in enumerate(parts.main.arguments)}
    found: list[Written] = []
    for stage in range(body.stages):
        groups = [group for group in body.nodes if body.stage_of(group) == stage]
        kept = [
            number
            for number in parts.given
            if body.read_by.get(parts.body.arguments[number], set()) & set(groups)
            and body.names[parts.body.arguments[number]].startswith("kept:")
        ]
        sums = [number for number, group in body.group_of_sum.items() if group in groups]
        outputs = [parts.loop.operands[number] for number in (*kept, *sums)]
        nodes = needed(parts.before, set(outputs))
        read = {value for node in nodes for value in node.read} | set(outputs)
        inputs = [value for value in parts.main.arguments if value in read]
        wired = StageModule(
            phase=Phase.BEFORE,
            stage=stage,
            number=0,
            inputs=tuple(f"argument:{numbers[value]}" for value in inputs),
            outputs=(*(f"kept:{one}" for one in kept), *(f"sum:{one}" for one in sums)),
        )
        found.append((wired, write_module(source, nodes, inputs, outputs)))
    return found
