"""What a module for a TPU constrains of products that are matrices but for dimensions of 1."""

from __future__ import annotations

import pytest

from tests.modules import argument_group, evaluator_of
from tests.toast.propagation import deviating
from toast.costmodel.evaluator import Action
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs


def with_ones(result: str, first: str = "64x1x32") -> bytes:
    """A product whose operand, and so its result, has a dimension of 1, and what is made of it."""
    return f"""
func.func public @main(%x: tensor<{first}xf32>, %w: tensor<32x16xf32>) -> tensor<{result}xf32> {{
  %y = stablehlo.dot_general %x, %w, contracting_dims = [{first.count("x")}] x [0]
    : (tensor<{first}xf32>, tensor<32x16xf32>) -> tensor<{result}xf32>
  %t = stablehlo.tanh %y : tensor<{result}xf32>
  return %t : tensor<{result}xf32>
}}
""".encode()


MATRIX, STACK = with_ones("64x1x16"), with_ones("8x64x1x16", "8x64x1x32")
NONE: list[list[str]] = [[], [], []]


@pytest.mark.parametrize(("device", "constrained"), [("tpu-v5e", False), ("a100-40gb", True)])
def test_for_a_tpu_the_result_of_a_matrix_with_ones_is_not_constrained_before_its_sum(
    device: str, constrained: bool
) -> None:
    """It would sum the rows whole; with its operands constrained instead, it scatters."""
    evaluator = evaluator_of(MATRIX, "a=2,b=2", device)
    rows, summed = (argument_group(evaluator.analysis, 0, dim) for dim in (0, 2))
    state = (Action(group=summed, axis=1), Action(group=rows, axis=1))
    pins = Specs(resolve(evaluator, state)).constraints()
    made = [(pin.spec, pin.through) for pin in pins if not pin.uses]
    assert made == [([["b"], [], []], (NONE,) if constrained else ())]
    operands = [pin.spec for pin in pins if pin.uses]
    assert operands == ([] if constrained else [[[], [], ["b"]], [["b"], []]])
    assert deviating(MATRIX, evaluator, state) == []


def test_a_result_that_a_chip_sums_whole_in_any_case_is_constrained() -> None:
    """A TPU v3 scatters nothing over all of its devices."""
    evaluator = evaluator_of(MATRIX, "a=2", "tpu-v3")
    rows, summed = (argument_group(evaluator.analysis, 0, dim) for dim in (0, 2))
    state = (Action(group=summed, axis=0), Action(group=rows, axis=0))
    (pin,) = (pin for pin in Specs(resolve(evaluator, state)).constraints() if not pin.uses)
    assert (pin.spec, pin.through) == ([["a"], [], []], (NONE,))


def test_a_result_that_is_summed_over_several_axes_is_constrained() -> None:
    """Else it would scatter block by block while it multiplies."""
    evaluator = evaluator_of(MATRIX, "a=2,b=2", "tpu-v5e")
    rows, summed = (argument_group(evaluator.analysis, 0, dim) for dim in (0, 2))
    state = tuple(Action(group=group, axis=axis) for group in (summed, rows) for axis in (0, 1))
    (pin,) = (pin for pin in Specs(resolve(evaluator, state)).constraints() if not pin.uses)
    assert (pin.spec, pin.through) == ([["a", "b"], [], []], (NONE,))


def test_columns_of_such_a_matrix_and_stacks_of_them_are_constrained() -> None:
    evaluator = evaluator_of(MATRIX, "a=2,b=2", "tpu-v5e")
    summed = argument_group(evaluator.analysis, 0, 2)
    columns = argument_group(evaluator.analysis, 1, 1)
    state = (Action(group=summed, axis=1), Action(group=columns, axis=1))
    (pin,) = (pin for pin in Specs(resolve(evaluator, state)).constraints() if not pin.uses)
    assert (pin.spec, pin.through) == ([[], [], ["b"]], (NONE,))
    evaluator = evaluator_of(STACK, "a=2,b=2", "tpu-v5e")
    first, summed = (argument_group(evaluator.analysis, 0, dim) for dim in (0, 3))
    state = (Action(group=summed, axis=1), Action(group=first, axis=1))
    (pin,) = (pin for pin in Specs(resolve(evaluator, state)).constraints() if not pin.uses)
    assert (pin.spec, pin.through) == ([["b"], [], [], []], ([[], [], [], []],))
