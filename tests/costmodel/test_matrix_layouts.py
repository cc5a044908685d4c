"""Batches of matrices lie matrix by matrix, whatever else would fill tiles better."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.matrices import ATTENTION
from benchmarks.probes.programs import lowered_of
from tests.costmodel.profiles import GPU, TPU
from tests.modules import analysed, evaluator_of
from toast.costmodel.passes.matrix_layouts import matrices

WIDE = [name for name, one in ATTENTION.items() if one.positions >= 49]
"""Scores of fewer positions lie by the batch at times."""


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p", "tpu-v3"])
@pytest.mark.parametrize("name", WIDE)
def test_scores_lie_as_libtpu_lays_them_out(name: str, device: str) -> None:
    one, laid_out = ATTENTION[name], golden("matrices", name, device)
    shape = (one.batch, one.heads, one.positions, one.positions)
    found = matrices(analysed(one.module()).program, TPU.layout_assignment)
    assert list(found[shape]) == laid_out[",".join(map(str, shape))]


def test_scores_fill_the_tiles_of_their_matrices() -> None:
    """49 by 49 take the room of 56 by 128, and the largest is what the gradient keeps."""
    evaluator = evaluator_of(ATTENTION["49 positions"].module(), "all=8", "tpu-v5p")
    scratch = evaluator.new_scratch()
    evaluator.cost((), scratch)
    assert max(scratch.tensors.stored) == 1024 * 4 * 56 * 128 * 4


def test_the_two_dimensions_of_a_matrix_are_those_of_no_batch() -> None:
    x = jax.ShapeDtypeStruct((8, 50, 4, 32), jnp.float32)
    program = analysed(lowered_of(lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), x, x)).program
    found = matrices(program, TPU.layout_assignment)
    assert found == {(8, 50, 4, 32): (1, 3), (8, 4, 50, 50): (2, 3)}
    assert matrices(program, GPU.layout_assignment) == {}


def test_a_product_without_a_batch_lies_as_it_fills_tiles() -> None:
    x = jax.ShapeDtypeStruct((50, 32), jnp.float32)
    program = analysed(lowered_of(lambda x, y: x @ y.T, x, x)).program
    assert matrices(program, TPU.layout_assignment) == {}
