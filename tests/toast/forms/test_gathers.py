"""No gather could stand further down: the op behind it wants the dimension whole."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.chains import Text
from tests.laws.examples import few, many
from tests.laws.programs import picks, programs
from tests.laws.states import prepared, state_of
from tests.toast.forms.lowered import pair
from tests.toast.planned import gemma_text
from toast.analysis.program import FactorKind
from toast.costmodel.explain import explain
from toast.costmodel.network.collectives import Kind
from toast.costmodel.resolved import ResolvedPlan, resolve
from toast.costmodel.terms.journal import Entry
from toast.emit.specs import Specs

MESHES = ("x=2,y=4", "x=2,y=2,z=2", "x=8")


def gathered(resolved: ResolvedPlan) -> Iterator[int]:
    """The uses that want something whole that is kept in parts."""
    program, specs = resolved.evaluator.analysis.program, Specs(resolved)
    for row in explain(resolved).collectives:
        if row.why is not Entry.EDGE or row.kind is not Kind.ALL_GATHER:
            continue
        for value, ops, _ in row.sources:
            uses = [use for op in ops for use in program.uses_of(op)]
            yield from (
                use
                for use in uses
                if program.sources[use] == value and specs.use(use) != specs.value(value)
            )


def could_move(resolved: ResolvedPlan, use: int) -> bool:
    """Whether the op could run on the parts, and its result be gathered in place of this operand.

    So it is where the dimension is one that the op computes in parts and passes on, and long enough
    for these: a window over all of it leaves one element. The axes are on nothing else that the op
    works on.
    """
    program, specs = resolved.evaluator.analysis.program, Specs(resolved)
    op = program.user(use)
    made = {
        int(name): size
        for value in program.values_of(op)
        for name, size in zip(program.def_names(value), program.shape(value), strict=True)
    }
    sizes = {axis.name: axis.size for axis in resolved.evaluator.mesh.axes}
    busy = {axis for one in program.uses_of(op) for axes in specs.use(one) for axis in axes}
    busy |= {a for v in program.values_of(op) for axes in specs.value(v) for a in axes}
    pairs = zip(specs.value(program.sources[use]), specs.use(use), strict=True)
    for dim, (have, want) in enumerate(pairs):
        gone, name = set(have) - set(want), int(program.use_names(use)[dim])
        parts = prod(sizes[axis] for axis in have)
        if not gone or name not in made or made[name] % parts or gone & busy:
            continue
        if program.factor_kind[name] == FactorKind.PARALLEL:
            return True
    return False


def check(resolved: ResolvedPlan) -> int:
    uses = list(gathered(resolved))
    assert not any(could_move(resolved, use) for use in uses)
    return len(uses)


def test_the_gathers_of_a_step_are_at_products_and_lookups() -> None:
    assert check(pair(gemma_text(), "data=2,model=4", "local").resolved) > 0


@few(40)
@given(text=programs(), mesh=st.sampled_from(MESHES), chosen=picks)
def test_no_gather_of_a_random_program_could_move_down(
    text: Text, mesh: str, chosen: list[int]
) -> None:
    _, evaluator = prepared(text.module(), mesh)
    check(resolve(evaluator, state_of(evaluator, chosen)))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@many(2000)
@given(text=programs(most=10), mesh=st.sampled_from(MESHES), chosen=picks)
def test_no_gather_of_a_long_random_program_could_move_down(
    text: Text, mesh: str, chosen: list[int]
) -> None:
    _, evaluator = prepared(text.module(), mesh)
    check(resolve(evaluator, state_of(evaluator, chosen)))
