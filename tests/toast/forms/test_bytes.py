"""What the program of one device puts on the wire is what the plan says, to the byte."""

from __future__ import annotations

from collections import Counter
from math import prod

import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib.mlir import ir

from tests.examples.variants import TINY, Variant, module_of
from tests.laws.states import single_states
from tests.libraries.corpus import SET_GROUPS, kept
from tests.toast.forms.lowered import Pair, lower, pair, run
from tests.toast.planned import gemma_text
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.analysis.types import itemsize
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.collectives import Kind
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import ResolvedPlan, resolve
from toast.emit.specs import Specs

KINDS = frozenset({"all_gather", "all_reduce", "all_to_all", "reduce_scatter"})
Bytes = Counter[tuple[str, int]]
"""Of the larger of what goes in and comes out, by kind and how many devices join."""


def written(found: Pair) -> Bytes:
    counts: Bytes = Counter()

    def visit(op: ir.Operation) -> ir.WalkResult:
        kind = op.name.removeprefix("stablehlo.")
        if kind in KINDS:
            devices = np.array(ir.DenseIntElementsAttr(op.attributes["replica_groups"])).shape[1]
            counts[kind, devices] += max(size(op.operands[0]), size(op.results[0]))
        return ir.WalkResult.ADVANCE

    found.lowered.module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return counts


def size(value: ir.Value) -> int:
    kind = ir.RankedTensorType(value.type)
    return prod(kind.shape) * int(itemsize(str(kind.element_type)))


def priced(found: Pair) -> Bytes:
    """As the journal has them; what is in a loop once."""
    evaluator, counts = found.resolved.evaluator, Bytes()
    wire, axes = evaluator.tables.mesh.wire, evaluator.mesh.axes
    for row in explain(found.resolved).collectives:
        if row.kind is Kind.COLLECTIVE_PERMUTE:
            continue
        mask = sum(1 << axis for axis in row.axes)
        runs = sum(runs for _, _, runs in row.sources)
        sent = row.bytes / runs * len(row.sources) / wire[int(row.kind), mask]
        counts[row.kind.name.lower(), prod(axes[axis].size for axis in row.axes)] += round(sent)
    return counts


@pytest.mark.parametrize("name", ["gemma", "bert", "resnet"])
def test_a_device_sends_the_bytes_that_are_priced(name: str) -> None:
    data = gemma_text() if name == "gemma" else kept(name)
    found = pair(data, "data=2,model=4", "local", rollouts=50)
    assert written(found) == priced(found)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mesh", ["data=4,model=2", "data=2,model=4"])
@pytest.mark.parametrize("name", sorted(SET_GROUPS))
def test_a_device_sends_the_bytes_that_are_priced_for_every_library(name: str, mesh: str) -> None:
    found = pair(kept(name), mesh, "local", rollouts=50)
    assert written(found) == priced(found)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("variant", TINY)
def test_a_device_sends_the_bytes_that_are_priced_for_models_of_the_paper(variant: Variant) -> None:
    found = pair(module_of(variant), "data=2,model=4", "local", rollouts=50)
    assert written(found) == priced(found)


JOINED = b"""
func.func public @main(
    %x: tensor<8x16xf32>, %y: tensor<8x16xf32>, %w: tensor<32x8xbf16>) -> tensor<8x8xbf16> {
  %a = stablehlo.negate %x : tensor<8x16xf32>
  %b = stablehlo.negate %y : tensor<8x16xf32>
  %c = stablehlo.concatenate %a, %b, dim = 1
    : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x32xf32>
  %d = stablehlo.convert %c : (tensor<8x32xf32>) -> tensor<8x32xbf16>
  %e = stablehlo.dot_general %d, %w, contracting_dims = [1] x [0]
    : (tensor<8x32xbf16>, tensor<32x8xbf16>) -> tensor<8x8xbf16>
  return %e : tensor<8x8xbf16>
}
"""


def joins_what_it_gathers(resolved: ResolvedPlan) -> bool:
    """Whether a value is gathered whole for the concatenation."""
    program, specs = resolved.evaluator.analysis.program, Specs(resolved)
    (joining,) = program.ops_named("stablehlo.concatenate")
    use = program.uses_of(joining).start
    return any(specs.value(program.sources[use])) and not any(specs.use(use))


@pytest.mark.parametrize("form", ["collectives", "local"])
def test_what_is_joined_and_narrowed_is_gathered_narrow(form: str) -> None:
    analysis = analyse(load(JOINED).program)
    evaluator = Evaluator(analysis, Mesh.parse("x=2,y=4"), find("a100-40gb"))
    generator = np.random.default_rng(0)
    inputs = [generator.integers(-1, 2, (8, 16)).astype(np.float32) for _ in range(2)]
    inputs.append(generator.integers(-1, 2, (32, 8)).astype(jnp.bfloat16))
    (expected,) = run(lower(load(JOINED), resolve(evaluator, ()), form), inputs)
    plans = [resolve(evaluator, state) for state in single_states(evaluator)]
    gathering = [one for one in plans if joins_what_it_gathers(one)]
    assert gathering
    for resolved in gathering[::6]:
        found = lower(load(JOINED), resolved, form)
        assert "8x16xbf16" in str(found.lowered.module)
        assert np.array_equal(run(found, inputs)[0], expected)
        if form == "local":
            assert written(found) == priced(found)
