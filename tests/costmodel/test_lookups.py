"""Rows that are looked up and added up: what of them is stored, and how it lies in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.costmodel.profiles import GPU, TPU, holding
from tests.modules import analysed, argument_group
from toast.costmodel.compilers.profile import CompilerProfile
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.explain import HeldMemory, explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.fusion import fuse
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.journal import Entry

V5E = "tpu-v5e"
ROWS = 4096


def lowered(of: Callable[..., Any], *given: tuple[tuple[int, ...], str]) -> bytes:
    structs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in given]
    return jax.jit(of).lower(*structs).as_text().encode()


def rows_of(table: Any, indices: Any) -> Any:
    return table.at[indices].get(mode="clip")


def evaluator_of(module: bytes, mesh: str = "a=2") -> Evaluator:
    profile = holding(V5E, 0, tiled=True)
    return Evaluator(analysed(module), Mesh.parse(mesh), find(V5E), profile=profile)


def held(evaluator: Evaluator, state: tuple[Action, ...] = ()) -> list[HeldMemory]:
    return list(explain(resolve(evaluator, state)).held)


@pytest.mark.parametrize("policy", [TPU, GPU])
def test_a_tpu_stores_the_table_and_the_rows(policy: CompilerProfile) -> None:
    def step(x: Any, i: Any) -> Any:
        return jnp.tanh(rows_of(jnp.exp(x), i))

    program = analysed(lowered(step, ((64, 64), "float32"), ((ROWS,), "int32"))).program
    written = np.flatnonzero(fuse(program, policy).written)
    kinds = {program.kind(program.makers[value]) for value in written.tolist()}
    between = {"stablehlo.exponential", "stablehlo.gather"}
    assert between & kinds == (between if policy is TPU else set())


def test_one_row_is_a_slice_that_is_part_of_what_reads_it() -> None:
    def step(x: Any, i: Any) -> Any:
        return jnp.tanh(rows_of(jnp.exp(x), i))

    program = analysed(lowered(step, ((64, 64), "float32"), ((1,), "int32"))).program
    written = np.flatnonzero(fuse(program, TPU).written)
    assert "stablehlo.gather" not in {program.kind(program.makers[v]) for v in written.tolist()}


@pytest.mark.parametrize("wide", [64, 128, 192])
def test_rows_that_are_looked_up_fill_lanes(wide: int) -> None:
    """Though the other way round they would fill tiles: thousands of rows are whole tiles."""

    def step(x: Any, i: Any) -> Any:
        return jnp.tanh(rows_of(jnp.exp(x), i)) * 2.0

    evaluator = evaluator_of(lowered(step, ((512, wide), "float32"), ((ROWS,), "int32")))
    rows = [one for one in held(evaluator) if one.shape == (ROWS, wide) and one.why is Entry.LIVE]
    lanes = -(-wide // 128) * 128
    assert {one.bytes for one in rows} == {4.0 * ROWS * lanes, 4.0 * ROWS * wide}


@pytest.mark.parametrize(("wide", "copied"), [(192, True), (256, False)])
def test_a_table_is_copied_to_rows_where_it_lies_otherwise(wide: int, copied: bool) -> None:
    table = ((ROWS, wide), "float32")
    evaluator = evaluator_of(lowered(rows_of, table, ((512,), "int32")))
    tables = [one for one in held(evaluator) if one.shape == (ROWS, wide)]
    assert [one.bytes for one in tables if one.why is Entry.BASE] == [4.0 * ROWS * wide]
    copies = [one.bytes for one in tables if one.why is Entry.LIVE]
    assert copies == ([4.0 * ROWS * 256] if copied else [])


def written(of: Callable[..., Any], *given: tuple[tuple[int, ...], str]) -> Counter[str]:
    """The types of what a TPU stores in the shape of the first argument, less the arguments."""
    program = analysed(lowered(of, *given)).program
    values = np.flatnonzero(fuse(program, TPU).written).tolist()
    kinds = [program.kind(program.makers[value]) for value in values]
    shape = given[0][0]
    return Counter(
        program.dtype(value)
        for value, kind in zip(values, kinds, strict=True)
        if kind != "argument" and program.shape(value) == shape
    )


def test_a_table_that_is_only_widened_is_stored_for_the_lookup_alone() -> None:
    """All others widen what it is made of themselves; so the table is let go of at once."""

    def step(x: Any, w: Any, i: Any) -> Any:
        made = (x @ w).astype(jnp.float32)
        rows = rows_of(made, i)
        later = jnp.sin(made).sum(axis=0).astype(w.dtype) @ w  # multiplied, so no update
        return rows, jnp.tanh(jnp.exp(made).sum(axis=1)), later

    given = ((512, 256), "bfloat16"), ((256, 256), "bfloat16"), ((ROWS,), "int32")
    assert written(step, *given) == {"bf16": 1, "f32": 1}
    tables = [one for one in held(evaluator_of(lowered(step, *given))) if one.shape == (512, 256)]
    wide = [one for one in tables if one.bytes == 4.0 * 512 * 256]
    narrow = [one for one in tables if one.why is Entry.LIVE and one not in wide]
    assert [one.last < narrow[0].last for one in wide] == [True]


def test_a_table_that_is_narrower_than_what_it_is_made_of_is_read_by_all() -> None:
    def step(x: Any, w: Any, i: Any) -> Any:
        narrow = (x + 1.0).astype(jnp.bfloat16)
        return rows_of(narrow, i), narrow @ w

    given = ((512, 256), "float32"), ((256, 128), "bfloat16"), ((ROWS,), "int32")
    program = analysed(lowered(step, *given)).program
    fusion = fuse(program, TPU)
    (dot,) = (op for op in range(program.ops) if program.kind(op) == "stablehlo.dot_general")
    read = {program.sources[use] for root in fusion.roots if root.op == dot for use in root.reads}
    assert {program.dtype(value) for value in read} == {"bf16"}


def tied(table: Any, i: Any, j: Any) -> Any:
    """A loss that looks a table up twice and multiplies by it, as tied embeddings do."""
    return jnp.sum(jnp.tanh(jnp.tanh(rows_of(table, i) + rows_of(table, j)) @ table.T) ** 2)


def test_sums_that_are_added_before_they_are_summed_stay_whole_until_then() -> None:
    """All three gradients of a table are there at once, each as large as on one device.

    Their sum is written over one of them.
    """
    size = 4.0 * ROWS * 256
    gradient = jax.grad(tied)
    given = ((ROWS, 256), "float32"), ((512,), "int32"), ((512,), "int32")
    evaluator = evaluator_of(lowered(gradient, *given))
    batch = Action(group=argument_group(evaluator.analysis, 1, 0), axis=0)
    sums = [one for one in held(evaluator, (batch,)) if one.shape == (ROWS, 256)]
    program = evaluator.analysis.program
    scattered = [
        one
        for one in sums
        if program.kind(program.makers[one.value]) == "stablehlo.scatter" and one.bytes == size
    ]
    assert len(scattered) == 2
    last = max(one.first for one in scattered)
    arguments = {argument.value for argument in program.arguments}
    there = [one for one in sums if one.first <= last <= one.last and one.value not in arguments]
    assert [one.bytes for one in there] == [size] * 3


def tied_once(table: Any, i: Any) -> Any:
    """A loss that looks a table up once and multiplies by it."""
    return jnp.sum(jnp.tanh(jnp.tanh(rows_of(table, i)) @ table.T) ** 2)


def test_what_a_product_reads_waits_for_what_is_added_to_it_unless_devices_sum_it() -> None:
    """The product of a tied table's gradient is part of the sum with the lookups' gradient.

    Devices sum it by itself, as soon as it is there.
    """
    given = ((ROWS, 256), "float32"), ((512,), "int32")
    evaluator = evaluator_of(lowered(jax.grad(tied_once), *given))
    batch = Action(group=argument_group(evaluator.analysis, 1, 0), axis=0)
    program = evaluator.analysis.program
    (scatter,) = program.ops_named("stablehlo.scatter")
    ends = []
    for state in ((), (batch,)):
        found = [one for one in held(evaluator, state) if one.shape[1:] == (ROWS,)]
        ends.append(max(one.last for one in found))
    assert ends[0] >= scatter > ends[1]
