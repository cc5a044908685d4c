"""A product of which only a slice is read: what is made of it, priced and stored."""

from __future__ import annotations

import pytest

from tests.modules import evaluator_of
from toast.costmodel.evaluator import Cost

X, W, H = "8x512x1536xf32", "1536x65536xf32", 512
LAST, WHOLE = "8x1x65536xf32", "8x512x65536xf32"


def cost(*lines: str, result: str = LAST, device: str = "tpu-v5e") -> Cost:
    """The cost of what is made of a product `%p`."""
    product = (
        "%p = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0]"
        f" : (tensor<{X}>, tensor<{W}>) -> tensor<{WHOLE}>"
    )
    body = "\n".join([product, *lines, f"return %r : tensor<{result}>"])
    main = f"func.func @main(%x: tensor<{X}>, %w: tensor<{W}>) -> tensor<{result}>"
    return evaluator_of(f"{main} {{\n{body}\n}}".encode(), "a=2", device).cost(())


def last(value: str, name: str = "r", at: int = H - 1) -> str:
    """The slice of one token."""
    return (
        f"%{name} = stablehlo.slice %{value} [0:8, {at}:{at + 1}, 0:65536]"
        f" : (tensor<{WHOLE}>) -> tensor<{LAST}>"
    )


TANH = f"%r = stablehlo.tanh %p : tensor<{WHOLE}>"
ADDED = f"%s = stablehlo.add %p, %p : tensor<{WHOLE}>"
ROWS = f"%r = stablehlo.add %q, %s : tensor<{LAST}>"


def test_a_product_costs_what_is_read_of_it() -> None:
    whole, cut = (
        cost(TANH, result=WHOLE),
        cost(last("p")),
    )
    assert cut.peak < whole.peak / 2
    assert cut.compute < whole.compute / 5


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((ADDED, last("s")), id="something is made of it first"),
        pytest.param((last("p", "q"), last("p", "s", 0), ROWS), id="two slices"),
    ],
)
def test_a_product_is_made_whole_for_all_else(lines: tuple[str, ...]) -> None:
    assert cost(*lines).compute > 3 * cost(last("p")).compute


def test_a_gpu_makes_the_whole() -> None:
    cut = cost(last("p"), device="a100-80gb")
    whole = cost(
        "%r = stablehlo.tanh %p : tensor<8x512x65536xf32>", result=WHOLE, device="a100-80gb"
    )
    assert cut.compute > whole.compute / 2
