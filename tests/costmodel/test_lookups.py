"""Rows that are looked up and added up: what of them is stored, and how it lies in memory."""

from __future__ import annotations

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


def tied(table: Any, i: Any, j: Any) -> Any:
    """A loss that looks a table up twice and multiplies by it, as tied embeddings do."""
    return jnp.sum(jnp.tanh(jnp.tanh(rows_of(table, i) + rows_of(table, j)) @ table.T) ** 2)


def test_sums_that_are_added_before_they_are_summed_stay_whole_until_then() -> None:
    """All three gradients of a table are there at once, each as large as on one device."""
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
    assert max(one.first for one in scattered) <= min(one.last for one in scattered)
