"""Reductions that run beside the product that makes what they read."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.reduction_fusion import PROGRAMS, normed, trained
from benchmarks.probes.reduction_fusion import softmax as softmax_of
from tests.costmodel.profiles import GPU, TPU
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.analysis.program import Program
from toast.costmodel.compilers.profile import CompilerProfile, profile_of
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.fusion import fuse, fused_into_update
from toast.costmodel.program.launches import LaunchedFusion

SCORES = (4, 256, 64), (4, 512, 64)


def lowered(function: object, *shapes: tuple[int, ...], dtype: str = "bfloat16") -> Program:
    structs = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    return load(jax.jit(function).lower(*structs).as_text().encode()).program


def softmax(q: jax.Array, k: jax.Array) -> jax.Array:
    scores = jnp.einsum("bsh,bth->bst", q, k).astype(jnp.float32) * 0.125
    return jnp.einsum("bst,bth->bsh", jax.nn.softmax(scores).astype(q.dtype), k)


def fusions(program: Program, policy: CompilerProfile = TPU) -> list[LaunchedFusion]:
    """Those that reduce."""
    found = fuse(program, policy).launched
    return [k for k in found if any(is_reduction(program, op) for op in k.ops)]


def is_reduction(program: Program, op: int) -> bool:
    return program.kind(op) == "stablehlo.reduce"


def reductions(program: Program, fusion: LaunchedFusion) -> int:
    return sum(is_reduction(program, op) for op in fusion.ops)


def test_a_softmax_of_widened_scores_runs_beside_their_product() -> None:
    program = lowered(softmax, *SCORES)
    (fusion,) = fusions(program)
    assert reductions(program, fusion) == 2
    assert len(fusion.contractions) == 1


def test_what_was_written_inside_is_not_read_again() -> None:
    program = lowered(softmax, *SCORES)
    (fusion,) = fusions(program)
    made = {value for op in fusion.ops for value in program.values_of(op)}
    assert not made & {int(program.use_value[use]) for use in fusion.reads}
    assert len({int(program.use_value[use]) for use in fusion.reads}) == 2


def test_a_gpu_stores_the_scores_and_reads_them_for_each_reduction() -> None:
    program = lowered(softmax, *SCORES)
    assert [reductions(program, k) for k in fusions(program, GPU)] == [1, 1]
    assert not any(k.contractions for k in fusions(program, GPU))


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [
        (SCORES, "float32"),  # nothing is widened behind the product
    ],
)
def test_the_sum_waits_where_rows_cannot_stay(
    shapes: tuple[tuple[int, ...], ...], dtype: str
) -> None:
    program = lowered(softmax, *shapes, dtype=dtype)
    beside, alone = fusions(program)
    assert (len(beside.contractions), len(alone.contractions)) == (1, 0)
    assert reductions(program, beside) == reductions(program, alone) == 1


def test_reductions_of_one_value_share_a_pass() -> None:
    def two(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.sum(x, axis=1), jnp.sum(x * x, axis=1)

    program = lowered(two, (64, 256), dtype="float32")
    (fusion,) = fusions(program)
    assert reductions(program, fusion) == 2
    assert not fusion.contractions


@pytest.mark.parametrize("axis", [0, 1])
def test_a_sum_runs_beside_what_stores_its_operand(axis: int) -> None:
    """As the gradient of a bias does, and the sums of a batch norm's gradient."""

    def stored(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        made = x * y
        return made, jnp.sum(made, axis=axis)

    program = lowered(stored, (64, 256), (64, 256), dtype="float32")
    (fusion,), (alone,) = fusions(program), fusions(program, GPU)
    assert len(fusion.ops) == len(fusion.reads) == 2
    assert len(alone.ops) == 1


def test_a_sum_that_needs_another_of_what_a_pass_stores_waits_for_that() -> None:
    def centred(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        made = x * y
        return made, jnp.sum((made - jnp.sum(made, axis=1, keepdims=True)) ** 2, axis=1)

    program = lowered(centred, (64, 256), (64, 256), dtype="float32")
    assert [reductions(program, fusion) for fusion in fusions(program)] == [1, 1]


def test_a_reduction_of_what_another_made_of_the_value_is_a_pass_of_its_own() -> None:
    def variance(x: jax.Array) -> jax.Array:
        return jnp.sum((x - jnp.mean(x, axis=1, keepdims=True)) ** 2, axis=1)

    program = lowered(variance, (64, 256), dtype="float32")
    assert [reductions(program, fusion) for fusion in fusions(program)] == [1, 1]


def test_a_reduction_that_needs_a_later_product_does_not_run_beside_an_earlier_one() -> None:
    def both(x: jax.Array, w: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        one, two = x @ w, x @ v
        return one, two, jnp.sum(one * two, axis=1)

    program = lowered(both, (64, 64), (64, 64), (64, 64), dtype="float32")
    (fusion,) = fusions(program)
    last = max(op for op in range(program.ops) if program.kind(op) == "stablehlo.dot_general")
    assert fusion.contractions in ((), (last,))


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v3"])
def test_a_variance_over_examples_needs_a_mean_that_the_last_block_ends(device: str) -> None:
    found = fusions(load(normed()).program, profile_of(find(device)))
    beside = sum(bool(fusion.contractions) for fusion in found)
    assert golden("reduction_fusion", "batch norm", device) == {
        "beside a product": beside,
        "alone": len(found) - beside,
        "online softmax": 0,
    }


def test_partial_sums_are_reduced_behind_their_product() -> None:
    """Split over what is contracted, the sums have to be added up before there is a maximum."""
    program = lowered(softmax, *SCORES)
    tpu = find("tpu-v5e")
    evaluator = Evaluator(analyse(program), Mesh.parse("x=2"), tpu)
    tables = evaluator.tables
    rows = zip(tables.units.item_size.tolist(), tables.units.item_group.tolist(), strict=True)
    groups = {size: group for size, group in rows if group >= 0}
    scores = 4 * 256 * 512
    costs = {size: evaluator.cost((Action(group=groups[size], axis=0),)) for size in (4, 64)}
    assert costs[4].compute < evaluator.cost(()).compute
    assert costs[64].compute >= 2 * scores / tpu.element_rate


def test_scores_that_are_reduced_beside_their_product_are_in_memory_all_the_same() -> None:
    def scaled(q: jax.Array, k: jax.Array) -> jax.Array:
        scores = jnp.einsum("bsh,bth->bst", q, k).astype(jnp.float32)
        return jnp.exp(scores - scores.max(axis=-1, keepdims=True))

    program = lowered(scaled, *SCORES)
    found = fuse(program, TPU)
    (fusion,) = fusions(program)
    assert fusion.contractions
    assert not fused_into_update(program, found)


NOT_MODELLED = {
    "rows of 512 in f32": "libtpu makes one softmax of its own of it",
    "rows of 8192": "rows of 8192 are reduced in a pass of their own, the product's too",
    "rows of 16384": "rows of 8192 and more are reduced in a pass of their own",
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            marks=pytest.mark.xfail(reason=NOT_MODELLED[case]) if case in NOT_MODELLED else (),
        )
        for case in PROGRAMS
    ],
)
def test_as_many_fusions_reduce_as_in_the_compiled_program(case: str) -> None:
    found = fusions(load(softmax_of(*PROGRAMS[case])).program)
    beside = sum(bool(fusion.contractions) for fusion in found)
    assert golden("reduction_fusion", case) == {
        "beside a product": beside,
        "alone": len(found) - beside,
        "online softmax": 0,
    }


@pytest.mark.parametrize(
    ("case", "scale", "device"),
    [
        ("trained in f32", 1.0, "tpu-v5e"),
        ("trained in f32, scaled", 0.125, "tpu-v5e"),
        ("trained in f32", 1.0, "tpu-v3"),
        ("trained in f32, scaled", 0.125, "tpu-v3"),
    ],
)
def test_a_softmax_runs_beside_the_product_of_its_scores(
    case: str, scale: float, device: str
) -> None:
    """All of it on a v5e, but for the sum of scaled scores; on a v3 no sum."""
    found = fusions(load(trained(scale)).program, profile_of(find(device)))
    alone = sum(not fusion.contractions for fusion in found)
    assert alone == golden("reduction_fusion", case, device)["alone"]
