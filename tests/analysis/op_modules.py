"""A small module for every op of StableHLO and CHLO that text can be written for."""

from __future__ import annotations

F = "tensor<8x16xf32>"
I = "tensor<8x16xi32>"  # noqa: E741
P = "tensor<8x16xi1>"
C = "tensor<8x16xcomplex<f32>>"


def module(arguments: str, results: str, body: str, extra: str = "") -> str:
    """A module with one `main`; `body` ends in its return."""
    return f"func.func public @main({arguments}) -> ({results}) {{\n{body}\n}}\n{extra}\n"


def single_op(line: str, given: str, made: str, count: int = 1) -> str:
    arguments = ", ".join(f"%{'abcde'[i]}: {given}" for i in range(count))
    return module(arguments, made, f"  %r = {line}\n  return %r : {made}")


def _unary(name: str, given: str = F, made: str = "") -> str:
    made = made or given
    return single_op(f'"{name}"(%a) : ({given}) -> {made}', given, made)


def _binary(name: str, given: str = F, made: str = "", attributes: str = "") -> str:
    made = made or given
    return single_op(
        f'"{name}"(%a, %b) {attributes} : ({given}, {given}) -> {made}', given, made, 2
    )


def _named(dialect: str, names: str) -> list[str]:
    return [f"{dialect}.{name}" for name in names.split()]


_UNARY = (
    "abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic "
    "negate round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan tanh"
)
_BINARY = "add atan2 divide maximum minimum multiply power remainder subtract"
_INTEGERS = "and or xor shift_left shift_right_arithmetic shift_right_logical"
_CHLO_UNARY = (
    "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv "
    "erfc lgamma sinh square tan"
)
_CHLO_BINARY = "next_after polygamma zeta"
_CHLO_BROADCAST = (
    "add atan2 divide maximum minimum multiply next_after polygamma power remainder subtract zeta"
)
_CHLO_BROADCAST_INTEGERS = "and or xor shift_left shift_right_arithmetic shift_right_logical"


def _elementwise() -> dict[str, str]:
    found = {name: _unary(name) for name in _named("stablehlo", _UNARY)}
    found |= {name: _unary(name) for name in _named("chlo", _CHLO_UNARY)}
    found |= {name: _unary(name, F, P) for name in _named("chlo", "is_inf is_neg_inf is_pos_inf")}
    found |= {name: _binary(name) for name in _named("stablehlo", _BINARY)}
    found |= {name: _binary(name, I) for name in _named("stablehlo", _INTEGERS)}
    found |= {name: _binary(name) for name in _named("chlo", _CHLO_BINARY)}
    found |= {
        f"chlo.broadcast_{n}": _binary(f"chlo.broadcast_{n}") for n in _CHLO_BROADCAST.split()
    }
    for name in _CHLO_BROADCAST_INTEGERS.split():
        found[f"chlo.broadcast_{name}"] = _binary(f"chlo.broadcast_{name}", I)
    return found | _other_elementwise()


def _other_elementwise() -> dict[str, str]:
    greater = "{comparison_direction = #stablehlo<comparison_direction GT>}"
    chlo_greater = "{comparison_direction = #chlo<comparison_direction GT>}"
    quantized = "tensor<8x16x!quant.uniform<i8:f32, 1.0:0>>"
    select = f"({P}, {F}, {F}) -> {F}"
    chosen = f"%p: {P}, %a: {F}, %b: {F}"
    return {
        "stablehlo.not": _unary("stablehlo.not", I),
        "stablehlo.popcnt": _unary("stablehlo.popcnt", I),
        "stablehlo.count_leading_zeros": _unary("stablehlo.count_leading_zeros", I),
        "chlo._asin_acos_kernel": _unary("chlo._asin_acos_kernel", C),
        "stablehlo.is_finite": _unary("stablehlo.is_finite", F, P),
        "stablehlo.real": _unary("stablehlo.real", C, F),
        "stablehlo.imag": _unary("stablehlo.imag", C, F),
        "stablehlo.complex": _binary("stablehlo.complex", F, C),
        "stablehlo.convert": _unary("stablehlo.convert", F, I),
        "stablehlo.compare": _binary("stablehlo.compare", F, P, greater),
        "stablehlo.reduce_precision": single_op(
            f"stablehlo.reduce_precision %a, format = e5m10 : {F}", F, F
        ),
        "stablehlo.clamp": single_op(f"stablehlo.clamp %a, %b, %c : {F}", F, F, 3),
        "stablehlo.select": module(
            chosen, F, f'  %r = "stablehlo.select"(%p, %a, %b) : {select}\n  return %r : {F}'
        ),
        "stablehlo.map": single_op(
            '"stablehlo.map"(%a, %b) ({^bb0(%x: tensor<f32>, %y: tensor<f32>):\n'
            "    %s = stablehlo.add %x, %y : tensor<f32>\n    stablehlo.return %s : tensor<f32>})"
            f" {{dimensions = array<i64: 0, 1>}} : ({F}, {F}) -> {F}",
            *(F, F, 2),
        ),
        "stablehlo.uniform_quantize": _unary("stablehlo.uniform_quantize", F, quantized),
        "stablehlo.uniform_dequantize": _unary("stablehlo.uniform_dequantize", quantized, F),
        "chlo.broadcast_compare": _binary("chlo.broadcast_compare", F, P, chlo_greater),
        "chlo.broadcast_complex": _binary("chlo.broadcast_complex", F, C),
        "chlo.broadcast_select": module(
            chosen, F, f'  %r = "chlo.broadcast_select"(%p, %a, %b) : {select}\n  return %r : {F}'
        ),
        "chlo.mulhi": _binary("chlo.mulhi", I),
        "chlo.constant": module(
            f"%a: {F}",
            F,
            f'  %k = "chlo.constant"() {{value = dense<1.0> : {F}}} : () -> {F}\n'
            f"  %r = stablehlo.add %a, %k : {F}\n  return %r : {F}",
        ),
        "chlo.constant_like": single_op(
            f'"chlo.constant_like"(%a) {{value = 1.0 : f32}} : ({F}) -> {F}', F, F
        ),
    }


ELEMENTWISE = _elementwise()
