"""A product that sums over nothing is elementwise, as compilers make it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from tests.modules import analysed
from toast.analysis.program import OUTER_PRODUCT


@pytest.mark.parametrize(
    ("equation", "shapes", "outer"),
    [
        ("bhqk,h->bhqk", ((8, 4, 16, 16), (4,)), True),
        ("bi,bj->bij", ((8, 16), (8, 32)), True),
        ("bi,ij->bj", ((8, 16), (16, 32)), False),
    ],
)
def test_a_product_without_a_sum_is_an_outer_product(
    equation: str, shapes: tuple[tuple[int, ...], ...], outer: bool
) -> None:
    structs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    text = jax.jit(lambda *given: jnp.einsum(equation, *given)).lower(*structs).as_text()
    program = analysed(text.encode()).program
    assert "stablehlo.dot_general" in text
    assert (OUTER_PRODUCT in program.names) == outer
    assert ("stablehlo.dot_general" in program.names) != outer
