"""What is made once and shared: layouts of equal ops, tables of several meshes."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from examples import gemma
from tests.costmodel.records import assert_equal_columns
from tests.laws.chains import Text
from tests.laws.programs import programs
from tests.laws.states import single_states
from tests.modules import text
from toast.analysis.analyse import Analysis, analyse
from toast.analysis.load import load
from toast.analysis.program import Ints, Program
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.program import sharding_units as rooms
from toast.costmodel.program.pins import NO_PINS, Pins
from toast.costmodel.program.sharding_units import Layouts, first_equal, lay_out
from toast.costmodel.resolved import resolve


@cache
def layered() -> Analysis:
    """Two equal layers of attention and feed-forward, with their gradients."""
    data = gemma.lower(gemma.PRESETS["tiny"]).as_text().encode()
    return analyse(load(data).program)


@cache
def squares() -> Analysis:
    """Equal products of rows with rows, each in a conflict of its own."""

    def step(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.sum(jnp.sin(x @ x.T)), jnp.sum(jnp.sin(y @ y.T))

    shapes = [jax.ShapeDtypeStruct((8, 4), "float32")] * 2
    return analyse(load(jax.jit(step).lower(*shapes).as_text().encode()).program)


def one_by_one(analysis: Analysis, pins: Pins) -> Layouts:
    """The layouts of every op by itself."""

    def none_equal(program: Program, *_: object) -> Ints:
        return np.arange(program.ops)

    def each_use(*given: Any) -> tuple[Ints, list[int]]:
        uses = given[-1]
        return np.array(uses, dtype=np.int64), list(uses)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rooms, "first_equal", none_equal)
        patch.setattr(rooms, "equal_uses", each_use)
        return lay_out(analysis, pins)


def assert_equal_layouts(one: Layouts, other: Layouts) -> None:
    for column in fields(Layouts):
        left, right = getattr(one, column.name), getattr(other, column.name)
        assert np.array_equal(left, right) if isinstance(left, np.ndarray) else left == right


def pins_of(program: Program) -> Pins:
    """Pins of the first argument, of a value in the middle and of the last use."""
    first, middle = program.arguments[0].value, program.values // 2
    last = len(program.use_value) - 1
    return Pins(
        values={middle: ((0,), *(() for _ in program.shape(middle)[1:]))},
        uses={last: tuple(() for _ in program.shape(program.sources[last]))},
        forbidden={first: 2},
    )


@pytest.mark.parametrize("make", [layered, squares])
@pytest.mark.parametrize("pinned", [False, True])
def test_equal_ops_are_laid_out_as_each_by_itself(make: object, pinned: bool) -> None:
    assert callable(make)
    analysis = make()
    pins = pins_of(analysis.program) if pinned else NO_PINS
    assert_equal_layouts(lay_out(analysis, pins), one_by_one(analysis, pins))


@given(module=programs())
def test_sharing_layouts_changes_none(module: Text) -> None:
    analysis = analyse(load(module.module().encode()).program)
    assert_equal_layouts(lay_out(analysis), one_by_one(analysis, NO_PINS))


def test_layers_are_equal_and_what_is_apart_is_not() -> None:
    analysis = layered()
    program = analysis.program
    group = np.append(analysis.groups.of_colour, -1)[analysis.colours.colour].tolist()
    none = np.zeros((0, 5), dtype=np.int64), np.zeros(program.ops + 1, dtype=np.int64)
    first = first_equal(program, group, none, none[1][:0])
    assert (first <= np.arange(program.ops)).all()
    assert (first[first] == first).all()
    assert (program.op_signature[first] == program.op_signature).all()
    shared = np.flatnonzero(first < np.arange(program.ops))
    assert len(shared) > program.ops / 4
    apart = first_equal(program, group, none, shared[:1])
    assert apart[shared[0]] == shared[0]


def test_ops_whose_conflicts_are_resolved_otherwise_are_not_equal() -> None:
    analysis = layered()
    program = analysis.program
    group = np.append(analysis.groups.of_colour, -1)[analysis.colours.colour].tolist()
    starts = np.zeros(program.ops + 1, dtype=np.int64)
    none = np.zeros((0, 5), dtype=np.int64)
    first = first_equal(program, group, (none, starts), starts[:0])
    one = int(np.flatnonzero(first < np.arange(program.ops))[0])
    for ops, expected in (([one], one), ([int(first[one]), one], int(first[one]))):
        rows = np.array([[0, 1, 0, 0, 1]] * len(ops), dtype=np.int64)
        resolved = rows, np.searchsorted(ops, np.arange(program.ops + 1))
        assert first_equal(program, group, resolved, starts[:0])[one] == expected


@pytest.mark.parametrize("name", ["attention", "mlp"])
@pytest.mark.parametrize("pins", [NO_PINS, Pins(forbidden={0: 1})])
def test_tables_of_the_next_mesh_are_those_made_anew(name: str, pins: Pins) -> None:
    analysis, device = analyse(load(text(name)).program), find("tpu-v3")
    meshes = [Mesh.parse(mesh) for mesh in ("d0=8", "d0=2,d1=4", "d0=2,d1=2,d2=2", "d0=4")]
    evaluator = Evaluator(analysis, meshes[0], device)
    for mesh in meshes[1:]:
        evaluator, fresh = evaluator.on(mesh, pins), Evaluator(analysis, mesh, device, pins)
        assert evaluator.mesh == mesh
        assert_equal_columns(evaluator.tables, fresh.tables)
        for state in single_states(fresh)[:20]:
            assert evaluator.cost(state) == fresh.cost(state)


def test_an_evaluator_stays_on_its_mesh_when_another_is_made_of_it() -> None:
    analysis = analyse(load(text("mlp")).program)
    evaluator = Evaluator(analysis, Mesh.parse("a=2,b=2"), find("cpu"))
    states = single_states(evaluator)
    before = [evaluator.cost(state) for state in states]
    other = evaluator.on(Mesh.parse("a=4,b=4"), NO_PINS)
    assert [other.cost(state) for state in states] != before
    assert [evaluator.cost(state) for state in states] == before
    assert other.listing is evaluator.listing


def test_an_explanation_makes_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = Evaluator(layered(), Mesh.parse("data=2,model=4"), find("tpu-v5e"))
    for name in (
        "passes.buffer_assignment.copied_beside",
        "terms.fusions.copied_values",
        "terms.halos.factors_by_op",
        "terms.listing.edges",
        "terms.partial_sums.reassociate_sums",
        "terms.reshards.distinct_rows",
    ):
        monkeypatch.delattr(f"toast.costmodel.{name}")
    state = single_states(evaluator)[0]
    assert explain(resolve(evaluator, state)).cost == evaluator.cost(state)
