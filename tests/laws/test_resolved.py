"""What is written is what was priced: the order of axes, and every move with its collectives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from tests.laws.chains import Shape, Text, Value
from tests.laws.examples import few, many
from tests.laws.programs import picks, programs
from tests.laws.sent import SUM, Sent, sent_by_compiled, sent_by_price, split_gathers
from tests.laws.states import state_of
from tests.laws.steps import CONTRACTING, ELEMENTWISE, SHAPING
from tests.laws.written import Written, written
from tests.laws.xla import Xla
from toast.analysis.analyse import analyse
from toast.analysis.load import Source, load
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.collectives import Kind
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.registry import without
from toast.costmodel.resolved import ResolvedPlan, resolve
from toast.costmodel.terms.journal import CollectiveReason, Entry
from toast.emit.partitioner_guards import guarded_ops
from toast.plans.plan import Spec

MESHES = ("x=2,y=2", "x=2,y=4", "x=2,y=2,z=2")
DEVICES = ("cpu", "tpu-v5e", "a100-40gb")


class Plan:
    """A resolved plan of a random program, and the module that is written for it."""

    def __init__(
        self,
        text: Text,
        mesh: str,
        device: str,
        chosen: list[int],
        left_out: tuple[str, ...] = (),
    ) -> None:
        module = text.module()
        self.source: Source = load(module.encode())
        self.program = self.source.program
        chip = find(device)
        profile = without(profile_of(chip), left_out)
        evaluator = Evaluator(analyse(self.program), Mesh.parse(mesh), chip, profile=profile)
        state = state_of(evaluator, chosen)
        self.resolved: ResolvedPlan = resolve(evaluator, state)
        self.layouts = evaluator.layouts
        self.names = [axis.name for axis in evaluator.mesh.axes]
        note(f"{module}\n{state}")
        self.written: Written = written(self.source, self.resolved)
        note(self.written.data.decode())

    def spec(self, tensor: int) -> Spec:
        return [[self.names[axis] for axis in axes] for axes in self.resolved.layout(tensor)]

    def made(self, value: int) -> Spec:
        """The layout in which its op computes a value."""
        return self.spec(int(self.layouts.result_tensor[value]))

    def kept(self, value: int) -> Spec:
        return self.spec(int(self.layouts.value_tensor[value]))

    def wanted(self, use: int) -> Spec:
        return self.spec(int(self.layouts.use_tensor[use]))

    def moves(self) -> Iterator[tuple[int, int, list[Spec], list[Spec]]]:
        """Uses with their values, and what is written where these are made, and to be used."""
        for use, path in self.written.uses.items():
            value = int(self.program.use_value[use])
            if self.program.constant[value]:
                continue
            last = max((n for n, spec in enumerate(path) if spec == self.kept(value)), default=-1)
            yield use, value, path[: last + 1], path[last + 1 :]

    def leaves_sums(self) -> bool:
        """Whether the module leaves a sum to the compiler, or moves one to other axes.

        On a processor that is no reduce-scatter, but may take permutes.
        """
        for value in range(self.program.values):
            made, kept = self.made(value), self.kept(value)
            maker = self.program.makers[value]
            if made != kept and not self.program.constant[value]:
                left = not self.resolved.constrains_result(maker)
                if left or (maker in self.summing() and trades(made, kept)):
                    return True
        return False

    def summing(self) -> set[int]:
        """The ops whose sums over devices are priced."""
        sums = (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER)
        rows = [row for row in explain(self.resolved).collectives if row.kind in sums]
        return {op for row in rows for _, ops, _ in row.sources for op in ops}

    def trades_axes(self) -> bool:
        """Whether a permute to other axes is priced."""
        reasons = {one.reason for one in self.resolved.collectives}
        return CollectiveReason.TRADED in reasons

    def priced(self, why: Entry, reason: CollectiveReason) -> set[tuple[int, int]]:
        """Values, and ops that make or use them, with collectives of a table for a reason."""
        return {
            (value, op)
            for row in explain(self.resolved).collectives
            for value, ops, _ in row.sources
            for op in ops
            if row.why is why and row.reason is reason
        }

    def taken(self) -> set[str]:
        """Axes of what is sent: for a gather and a cut over others XLA may have a permute."""
        found: set[str] = set()
        for row in explain(self.resolved).collectives:
            for value, ops, _ in row.sources:
                uses = [use for op in ops for use in self.program.uses_of(op)]
                wanted = [self.wanted(use) for use in uses if self.program.sources[use] == value]
                specs = [self.made(value), self.kept(value), *wanted]
                found |= {axis for spec in specs for axes in spec for axis in axes}
        return found


def trades(have: Spec, want: Spec) -> bool:
    """Whether a dimension gives axes and takes others, or axes move and others come or go."""
    both = [(set(here), set(there)) for here, there in zip(have, want, strict=True)]
    if any(here - there and there - here for here, there in both):
        return True
    gone = {axis for here, there in both for axis in here - there}
    come = {axis for here, there in both for axis in there - here}
    return bool(gone & come) and gone != come


plans = st.builds(Plan, programs(), st.sampled_from(MESHES), st.sampled_from(DEVICES), picks)


@few(40)
@given(plan=plans)
def test_everything_is_written_in_the_resolved_layout(plan: Plan) -> None:
    program, found = plan.program, plan.written
    assert found.arguments == [plan.kept(argument.value) for argument in program.arguments]
    assert found.results == [plan.wanted(result.use) for result in program.results]
    for use, value, before, after in plan.moves():
        at_use = (before + after)[-1] if before or after else plan.made(value)
        assert at_use == plan.wanted(use)


@few(40)
@given(plan=plans)
def test_the_axes_of_a_dimension_are_in_the_order_that_the_price_assumed(plan: Plan) -> None:
    """Every layout with several axes on a dimension, of each colour group in one order."""
    resolved, tables = plan.resolved, plan.resolved.evaluator.tables
    for use, value, before, after in plan.moves():
        path = [*before, *after]
        for spec, tensor in (
            (path[-1] if path else None, plan.layouts.use_tensor[use]),
            (before[-1] if before else None, plan.layouts.value_tensor[value]),
        ):
            if spec is None:
                continue
            _, dims = plan.layouts.tensors[int(tensor)]
            for axes, (_, item) in zip(spec, dims, strict=True):
                if axes:
                    group = int(tables.units.item_group[item])
                    places = [
                        int(resolved.scratch.axis_order.place[group, plan.names.index(a)])
                        for a in axes
                    ]
                    assert places == sorted(places)


@few(40)
@given(plan=plans)
def test_permutes_for_the_order_of_axes_are_written_where_they_are_priced(plan: Plan) -> None:
    reordered = CollectiveReason.REORDERED
    at_uses = plan.priced(Entry.EDGE, reordered)
    where_made = plan.priced(Entry.PARTIAL, reordered)
    for use, value, before, after in plan.moves():
        maker, user = plan.program.makers[value], plan.program.user(use)
        # the last constraint is the move itself, those before it only reorder axes
        if len(after) > 1:
            assert any((value, other) in at_uses for other in range(plan.program.ops)), (use, value)
        if (value, user) in at_uses:
            assert len(after) > 1 or plan.wanted(use) == plan.kept(value)
        stations = [spec for spec in before if spec not in (plan.made(value), plan.kept(value))]
        assert bool(stations) == ((value, maker) in where_made), (use, value)


@few(40)
@given(plan=plans)
def test_a_result_is_constrained_before_its_sum_where_the_plan_says_so(plan: Plan) -> None:
    guarded = frozenset(guarded_ops(plan.program)) if plan.resolved.masks.any() else frozenset()
    for _, value, before, _ in plan.moves():
        maker = plan.program.makers[value]
        if plan.made(value) != plan.kept(value):
            assert (plan.made(value) in before) == (
                maker in guarded or plan.resolved.constrains_result(maker)
            )


AS_ELSEWHERE = ELEMENTWISE + SHAPING + CONTRACTING
PERMUTE = Kind.COLLECTIVE_PERMUTE.name
XLA_MESHES = ("x=2,y=4", "x=2,y=2,z=2")


def check_sent(xla: Xla, text: Text, mesh: str, chosen: list[int]) -> None:
    """That XLA sends what was priced: the kinds, the axes and the counts; see `sent`.

    Of ops that it partitions for a processor as it does for the chips that are priced. Where the
    module leaves sums to the compiler only the axes are compared, and those of sums, but not those
    of permutes, for which XLA takes axes that nothing else needs; where axes are traded too, only
    those of sums. Where they are traded XLA may gather an axis of four in two steps.
    """
    plan = Plan(text, mesh, "cpu", chosen, left_out=("all_reduce_combiner",))
    hlo, priced_mesh = xla.hlo(plan.written.data, 8), Mesh.parse(mesh)
    named = not plan.trades_axes()
    compiled = sent_by_compiled(hlo, priced_mesh, named)
    priced = sent_by_price(plan.resolved, named)
    note(f"compiled {compiled}\npriced {priced}")
    event("axes traded" if not named else "sums left" if plan.leaves_sums() else "exact")
    if not plan.leaves_sums():
        more = Sent() if named else split_gathers(plan.resolved)
        assert priced <= compiled <= priced + more
        return
    compiled, priced = sent_by_compiled(hlo, priced_mesh), sent_by_price(plan.resolved)
    if named:
        every = set(plan.names)
        pairs = [(kind, axis) for kind, axis in compiled if kind != PERMUTE]
        sent = {one for _, axis in pairs for one in ({axis} if axis in every else every)}
        assert sent <= {axis for _, axis in priced} | plan.taken()
    sums = ({axis for kind, axis in one if kind == SUM} for one in (compiled, priced))
    assert next(sums) == next(sums)


@few(40)
@given(text=programs(AS_ELSEWHERE), mesh=st.sampled_from(XLA_MESHES), chosen=picks)
def test_xla_sends_what_was_priced(xla: Xla, text: Text, mesh: str, chosen: list[int]) -> None:
    check_sent(xla, text, mesh, chosen)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@many(1500)
@given(text=programs(AS_ELSEWHERE, most=10), mesh=st.sampled_from(XLA_MESHES), chosen=picks)
def test_xla_sends_what_was_priced_of_long_chains(
    xla: Xla, text: Text, mesh: str, chosen: list[int]
) -> None:
    check_sent(xla, text, mesh, chosen)


PRODUCT = "stablehlo.dot_general %a0, %a1, batching_dims = [1] x [0], contracting_dims = [0] x [1]"
INNER = "stablehlo.dot_general %a0, %a1, contracting_dims = [0] x [0]"
SPLIT = (
    "stablehlo.negate %a0 : tensor<4x8xf32>",
    f"{PRODUCT} : (tensor<4x8xf32>, tensor<8x4x1xf32>) -> tensor<8x1xf32>",
    "stablehlo.reshape %v1 : (tensor<4x8xf32>) -> tensor<32xf32>",
)
TURNED = (
    "stablehlo.negate %a0 : tensor<8x8xf32>",
    f"{PRODUCT} : (tensor<8x8xf32>, tensor<8x8x1xf32>) -> tensor<8x1xf32>",
    "stablehlo.transpose %v1, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>",
    "stablehlo.add %v1, %v3 : tensor<8x8xf32>",
)


SCATTERED = (
    f"{INNER} : (tensor<8xf32>, tensor<8x2xf32>) -> tensor<2xf32>",
    "stablehlo.negate %a1 : tensor<8x2xf32>",
)
EXCHANGED = (
    "stablehlo.transpose %a0, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>",
    "stablehlo.add %a0, %v1 : tensor<8x8xf32>",
)
HALVED = ("stablehlo.reshape %a0 : (tensor<4xf32>) -> tensor<2x2xf32>",)
ONCE = (
    (HALVED, ((4,),), {"%v1": (2, 2)}, "x=2,y=4", [1, 0]),
    (SPLIT, ((4, 8), (8, 4, 1)), {"%v2": (8, 1), "%v3": (32,)}, "x=2,y=4", [2, 0, 1]),
    (TURNED, ((8, 8), (8, 8, 1)), {"%v2": (8, 1), "%v4": (8, 8)}, "x=2,y=2,z=2", [0, 3]),
    (EXCHANGED, ((8, 8),), {"%v2": (8, 8)}, "x=2,y=4", [0, 3]),
    (SCATTERED, ((8,), (8, 2)), {"%v1": (2,), "%v2": (8, 2)}, "x=2,y=2,z=2", [0, 1, 3]),
)
"""In turn: an axis of four is traded for one of two; XLA splits an axis between dimensions; a sum
is left to it beside a trade of axes; axes of different sizes trade places; it makes a sum in parts
over an axis that is free."""


@few(10)
@given(case=st.sampled_from(ONCE))
def test_what_was_once_counted_otherwise(
    xla: Xla, case: tuple[tuple[str, ...], tuple[Shape, ...], dict[str, Shape], str, list[int]]
) -> None:
    lines, shapes, results, mesh, chosen = case
    text = Text(arguments=[(shape, None, 0) for shape in shapes])
    for line in lines:
        text.raw(line)
    text.values = [Value(name, shape, 1.0) for name, shape in results.items()]
    check_sent(xla, text, mesh, chosen)
