"""Where the compilers for TPUs and for GPUs fuse differently."""

from __future__ import annotations

import pytest

from tests.costmodel.profiles import GPU, TPU, V3
from tests.costmodel.texts import main, maps, moves, product, sums
from tests.modules import program_of, value_named
from toast.analysis.program import Program
from toast.costmodel.compilers.profile import CompilerProfile, profile_of
from toast.costmodel.hardware.devices import catalogue
from toast.costmodel.passes.fusion import Fusion, fuse

BOTH = pytest.mark.parametrize("policy", [TPU, GPU])
F, B = "8x8xf32", "8x8xbf16"
X, W = f"x:{F}", f"w:{F}"
PRODUCT = product(f"p:{F}", X, W)


def fused(lines: list[str], results: str, policy: CompilerProfile) -> tuple[Program, Fusion]:
    program = program_of(main(f"{X} {W} m:{F} b:{B} c:{B} row:8xf32", lines, results).decode())
    return program, fuse(program, policy)


def stored(lines: list[str], results: str, policy: CompilerProfile) -> list[str]:
    """The kinds of op whose values reach memory, less the arguments; types of converts too."""
    program, fusion = fused(lines, results, policy)
    values = [int(value) for value in fusion.written.nonzero()[0]]
    kinds = [program.kind(int(program.value_op[value])) for value in values]
    return [
        f"{kind.removeprefix('stablehlo.')} {program.dtype(value)}"
        for kind, value in zip(kinds, values, strict=True)
        if kind != "argument"
    ]


def test_each_kind_of_device_has_its_compiler() -> None:
    found = {name: profile_of(device) for name, device in catalogue().items()}
    stores = {name for name, profile in found.items() if not profile.fusion.stores_reduced}
    assert stores == {"tpu-v3"}
    inside = {name for name, profile in found.items() if profile.fusion.fuses_into_dot}
    assert inside == {name for name in found if name.startswith("tpu-")}


def test_only_an_early_tpu_stores_a_product_that_is_reduced_as_the_product_makes_it() -> None:
    x, w, p = f"b:{B}", f"c:{B}", f"p:{B}"
    lines = [
        product(p, x, w),
        moves("convert", f"f:{F}", p),
        maps("sine", f"e:{F}", "f"),
        *sums("r:8xf32", f"e:{F}", 1),
        maps("tanh", f"t:{F}", "e"),
    ]
    results = f"r:8xf32 t:{F}"
    assert "sine f32" in stored(lines, results, TPU)
    assert "sine f32" not in stored(lines, results, V3)


def test_what_a_reduction_reads_is_stored_before_it_is_only_widened() -> None:
    x, w, p = f"b:{B}", f"c:{B}", f"p:{B}"
    lines = [
        product(p, x, w),
        maps("sine", f"s:{B}", "p"),
        moves("convert", f"e:{F}", f"s:{B}"),
        *sums("r:8xf32", f"e:{F}", 1),
        maps("tanh", f"t:{F}", "e"),
    ]
    assert stored(lines, f"r:8xf32 t:{F}", TPU)[0] == "sine bf16"


def test_a_tpu_computes_what_feeds_a_product_inside_it() -> None:
    lines = [maps("tanh", f"t:{F}", "x"), product(f"p:{F}", f"t:{F}", W)]
    assert stored(lines, f"p:{F}", TPU) == ["dot_general f32"]
    assert stored(lines, f"p:{F}", GPU) == ["tanh f32", "dot_general f32"]
    program, fusion = fused(lines, f"p:{F}", TPU)
    (root,) = [root for root in fusion.roots if root.contractions]
    assert [int(program.use_value[use]) for use in root.reads] == [0, 1]


LIGHT = [
    [moves("convert", f"t:{B}", X)],
    [moves("transpose", f"t:{B}", f"b:{B}", ", dims = [1, 0]")],
    [moves("reshape", "r:64xbf16", f"b:{B}"), moves("reshape", f"t:{B}", "r:64xbf16")],
    [moves("convert", f"n:{B}", X), moves("transpose", f"t:{B}", f"n:{B}", ", dims = [1, 0]")],
]


@BOTH
@pytest.mark.parametrize("lines", LIGHT)
def test_both_change_layouts_and_types_inside_a_product(
    policy: CompilerProfile, lines: list[str]
) -> None:
    lines = [*lines, product(f"p:{B}", f"t:{B}", f"c:{B}")]
    assert stored(lines, f"p:{B}", policy) == ["dot_general bf16"]
    _, fusion = fused(lines, f"p:{B}", policy)
    assert all(fusion.light[~fusion.written])


def test_arithmetic_before_a_change_of_type_is_arithmetic() -> None:
    lines = [
        maps("negate", f"n:{F}", "x"),
        moves("convert", f"t:{B}", f"n:{F}"),
        product(f"p:{B}", f"t:{B}", f"c:{B}"),
    ]
    # of negate and convert a GPU stores what the product reads
    assert stored(lines, f"p:{B}", GPU) == ["convert bf16", "dot_general bf16"]
    assert stored(lines, f"p:{B}", TPU) == ["dot_general bf16"]
    program, fusion = fused(lines, f"p:{B}", TPU)
    assert not fusion.light[value_named(program, "stablehlo.negate")]
    assert not fusion.light[value_named(program, "stablehlo.convert")]


BIASED = [moves("broadcast_in_dim", f"c1:{F}", "row:8xf32", ", dims = [1]")]
"""A vector over the rows of a matrix."""


@pytest.mark.parametrize(
    ("fed", "inside"),
    [
        ([maps("maximum", f"t:{F}", "x", "x")], True),
        ([*BIASED, maps("add", f"a:{F}", "x", "c1"), maps("maximum", f"t:{F}", "a", "a")], True),
        ([maps("multiply", f"t:{F}", "x", "m")], False),
        ([maps("negate", f"a:{F}", "x"), maps("add", f"t:{F}", "a", "x")], False),
        ([moves("convert", f"t:{F}", f"b:{B}")], True),
        ([moves("convert", f"a:{F}", f"b:{B}"), maps("add", f"t:{F}", "a", "a")], True),
    ],
)
def test_a_gpu_repeats_cheap_arithmetic_of_one_tensor_in_every_product(
    fed: list[str], inside: bool
) -> None:
    lines = [*fed, product(f"p:{F}", f"t:{F}", W), product(f"q:{F}", W, f"t:{F}")]
    made = stored(lines, f"p:{F} q:{F}", GPU)
    assert made[-2:] == ["dot_general f32"] * 2
    assert len(made) == (2 if inside else 3)
    assert stored(lines, f"p:{F} q:{F}", TPU) == made[-2:]


def test_a_gpu_stores_what_feeds_a_product_of_16_bits() -> None:
    lines = [maps("maximum", f"t:{B}", "b", "b"), product(f"p:{B}", f"t:{B}", f"c:{B}")]
    assert stored(lines, f"p:{B}", GPU) == ["maximum bf16", "dot_general bf16"]


def test_a_gpu_stores_a_product_and_a_tpu_what_is_made_of_it() -> None:
    lines = [PRODUCT, maps("sine", f"s:{F}", "p")]
    assert stored(lines, f"s:{F}", TPU) == ["sine f32"]
    assert stored(lines, f"s:{F}", GPU) == ["dot_general f32", "sine f32"]


@pytest.mark.parametrize("op", ["tanh", "sine", "logistic", "power"])
def test_a_gpu_stores_what_is_costly_where_several_want_it(op: str) -> None:
    sources = ("x", "x") if op == "power" else ("x",)
    lines = [
        maps(op, f"t:{F}", *sources),
        maps("negate", f"u:{F}", "t"),
        maps("abs", f"v:{F}", "t"),
    ]
    results = f"u:{F} v:{F}"
    assert stored(lines, results, TPU) == ["negate f32", "abs f32"]
    assert stored(lines, results, GPU) == [f"{op} f32", "negate f32", "abs f32"]


@BOTH
def test_what_is_cheap_or_wanted_once_is_computed_again(policy: CompilerProfile) -> None:
    cheap = [
        maps("exponential", f"t:{F}", "x"),
        maps("negate", f"u:{F}", "t"),
        maps("abs", f"v:{F}", "t"),
    ]
    assert stored(cheap, f"u:{F} v:{F}", policy) == ["negate f32", "abs f32"]
    once = [maps("tanh", f"t:{F}", "x"), maps("negate", f"u:{F}", "t")]
    assert stored(once, f"u:{F}", policy) == ["negate f32"]


def test_costly_arithmetic_stays_costly_inside_cheap() -> None:
    lines = [
        maps("tanh", f"t:{F}", "x"),
        maps("negate", f"n:{F}", "t"),
        maps("abs", f"u:{F}", "n"),
        maps("floor", f"v:{F}", "n"),
    ]
    results = f"u:{F} v:{F}"
    assert stored(lines, results, GPU) == ["negate f32", "abs f32", "floor f32"]
    assert stored(lines, results, TPU) == ["abs f32", "floor f32"]


def softmax_of(source: str) -> list[str]:
    """What a reduction over the last dimension and another op read."""
    return [*sums("s:8xf32", f"{source}:{F}", 1), maps("sine", f"e:{F}", source)]


NARROW = [product(f"p:{B}", f"b:{B}", f"c:{B}"), moves("convert", f"q:{F}", f"p:{B}")]
RESULTS = f"s:8xf32 e:{F}"


MASKED = [*NARROW, maps("add", f"k:{F}", "q", "m")]


def test_masked_scores_are_stored_as_their_reduction_reads_them() -> None:
    lines = [*MASKED, *softmax_of("k")]
    assert stored(lines, RESULTS, TPU) == ["add f32", "reduce f32", "sine f32"]
    # a GPU does where the reduction is one of three
    assert stored(lines, RESULTS, GPU) == ["dot_general bf16", "reduce f32", "sine f32"]
    lines.append(maps("cosine", f"f:{F}", "k"))
    rest = ["reduce f32", "sine f32", "cosine f32"]
    assert stored(lines, f"{RESULTS} f:{F}", GPU) == ["add f32", *rest]


@BOTH
def test_logits_stay_narrow_where_there_is_only_a_convert_between(policy: CompilerProfile) -> None:
    lines = [*NARROW, *softmax_of("q")]
    assert stored(lines, RESULTS, policy) == ["dot_general bf16", "reduce f32", "sine f32"]


@BOTH
def test_what_no_reduction_reads_is_stored_where_it_is_narrow(policy: CompilerProfile) -> None:
    lines = [
        *NARROW,
        maps("add", f"k:{F}", "q", "m"),
        maps("sine", f"s:{F}", "k"),
        maps("cosine", f"e:{F}", "k"),
    ]
    made = stored(lines, f"s:{F} e:{F}", policy)
    assert made == ["dot_general bf16", "sine f32", "cosine f32"]


@BOTH
def test_what_only_a_reduction_reads_is_computed_inside_it(policy: CompilerProfile) -> None:
    lines = [*NARROW, maps("add", f"k:{F}", "q", "m"), *sums("s:8xf32", f"k:{F}", 1)]
    product = [] if policy.fusion.fuses_into_reduction else ["dot_general bf16"]
    assert stored(lines, "s:8xf32", policy) == [*product, "reduce f32"]
