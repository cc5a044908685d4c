"""What Shardy propagates, against what a plan says."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy

from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator, State
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs
from toast.emit.writer import write
from toast.plans.plan import Spec
from toast.search.actions import action_space

NUMBER = "toast.op"


def propagated(data: bytes, evaluator: Evaluator, specs: Specs) -> dict[int, Spec]:
    """The layout of each op's result after Shardy's propagation, by op of the program."""
    source = load(data)
    module = source.loaded.module
    with module.context, ir.Location.unknown():
        integer = ir.IntegerType.get_signless(64)
        for op in range(source.program.ops):
            if source.program.kind(op).startswith("stablehlo."):
                source.handles[op].attributes[NUMBER] = ir.IntegerAttr.get(integer, op)
        write(source, evaluator.mesh, specs, specs.constraints())
        passes = "builtin.module(sdy-propagation-pipeline)"
        passmanager.PassManager.parse(passes).run(module.operation)
        found: dict[int, Spec] = {}
        _collect(module.operation, found)
    return found


def deviating(data: bytes, evaluator: Evaluator, state: State) -> list[str]:
    """The ops whose result Shardy neither computes nor stores as the plan says, but for order."""
    program, specs = evaluator.analysis.program, Specs(resolve(evaluator, state))
    wrong = []
    for op, spec in propagated(data, evaluator, specs).items():
        (value,) = program.values_of(op)
        computed = specs.tensor(int(evaluator.layouts.result_tensor[value]))
        planned = [_unordered(computed), _unordered(specs.value(value))]
        if not program.constant[value] and _unordered(spec) not in planned:
            wrong.append(f"{op} {program.kind(op)}: {spec}, not {computed}")
    return wrong


def _unordered(spec: Spec) -> list[set[str]]:
    return [set(axes) for axes in spec]


def random_states(evaluator: Evaluator, count: int) -> list[State]:
    random = np.random.default_rng(7)
    actions = action_space(evaluator)
    return [
        tuple(actions[pick] for pick in random.integers(len(actions), size=random.integers(1, 6)))
        for _ in range(count)
    ]


def _collect(operation: Any, found: dict[int, Spec]) -> None:
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                if NUMBER in inner.attributes and len(inner.results) == 1:
                    found[ir.IntegerAttr(inner.attributes[NUMBER]).value] = _spec(inner)
                _collect(inner.operation, found)


def _spec(operation: Any) -> Spec:
    if "sdy.sharding" not in operation.attributes:
        rank = len(ir.RankedTensorType(operation.results[0].type).shape)
        return [[] for _ in range(rank)]
    (given,) = sdy.TensorShardingPerValueAttr(operation.attributes["sdy.sharding"]).shardings
    dimensions = sdy.TensorShardingAttr(given).dimension_shardings
    return [
        [sdy.AxisRefAttr(axis).name for axis in sdy.DimensionShardingAttr(dimension).axes]
        for dimension in dimensions
    ]
