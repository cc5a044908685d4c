"""Which constants hold more than one number repeated, and how large they are."""

from __future__ import annotations

import pytest

from tests.modules import analysed
from toast.analysis.errors import ModuleTooLarge
from toast.analysis.limits import ModuleLimits
from toast.analysis.load import load

MANY = ", ".join(f"({number}.0, 1.0)" for number in range(64))
CASES = {
    "f32, one repeated": ("dense<1.0> : tensor<64xf32>", 0),
    "f32": (f"dense<[{', '.join(f'{number}.0' for number in range(64))}]> : tensor<64xf32>", 256),
    "i1": (f"dense<[{', '.join(['true', 'false'] * 32)}]> : tensor<64xi1>", 8),
    "complex, one repeated": ("dense<(1.0, 2.0)> : tensor<64xcomplex<f32>>", 0),
    "complex": (f"dense<[{MANY}]> : tensor<64xcomplex<f32>>", 512),
}


def returning(constant: str) -> bytes:
    kind = constant.rpartition(" : ")[2]
    return f"""
func.func public @main() -> {kind} {{
  %c = stablehlo.constant {constant}
  return %c : {kind}
}}
""".encode()


@pytest.mark.parametrize(("constant", "size"), CASES.values(), ids=CASES)
def test_only_what_has_several_numbers_is_a_literal(constant: str, size: int) -> None:
    program = analysed(returning(constant)).program
    (op,) = program.ops_named("stablehlo.constant")
    assert program.op_literal[op] == (size > 0)


@pytest.mark.parametrize(("constant", "size"), CASES.values(), ids=CASES)
def test_a_module_above_a_limit_of_constants_is_refused(constant: str, size: int) -> None:
    data = returning(constant)
    load(data, limits=ModuleLimits(constant_bytes=size))
    if size:
        with pytest.raises(ModuleTooLarge, match="bytes of constants"):
            load(data, limits=ModuleLimits(constant_bytes=size - 1))
