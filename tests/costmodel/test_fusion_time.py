"""What a TPU's fusions cost besides their own roofline, counted by hand on small programs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.dot_tiling import PROBE as TILING
from benchmarks.probes.figures import golden
from benchmarks.probes.fusion_rates import LAYOUTS
from benchmarks.probes.nets import conv
from benchmarks.probes.programs import lowered
from benchmarks.probes.small_fusions import LAYOUTS as SMALL
from benchmarks.probes.small_fusions import RUNS
from tests.costmodel.texts import GPU, TPU, main, maps, moves, product, sums
from tests.costmodel.updates import ARGUMENTS, GRADIENT, RESULTS, TRANSPOSED, UPDATE, W
from tests.modules import analysed, argument_group
from toast.aot.target import CHIPS
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.explain import FusionTime, explain
from toast.costmodel.hardware.devices import catalogue, find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.journal import Bound
from toast.costmodel.terms.partial_sums import passes_over_sums

DEVICE = find(TPU)
CLOCK = CHIPS[TPU].clock or 0.0
"""Cycles in a second."""
RATE = DEVICE.bandwidth * DEVICE.stream_efficiency
ELEMENTS = DEVICE.element_rate


def evaluator(data: bytes, device: str = TPU, mesh: str = "a=2,b=2") -> Evaluator:
    return Evaluator(analysed(data), Mesh.parse(mesh), find(device), floored=False)


def over(found: Evaluator, *places: tuple[int, int, int]) -> tuple[Action, ...]:
    """For each (argument, dimension, axis) an action."""
    analysis = found.analysis
    return tuple(
        Action(group=argument_group(analysis, argument, dim), axis=axis)
        for argument, dim, axis in places
    )


def reading(found: Evaluator, state: tuple[Action, ...], kind: str) -> list[FusionTime]:
    """The fusions whose first op is of a kind."""
    program = found.analysis.program
    rows = explain(resolve(found, state)).fusions
    return [row for row in rows if program.kind(row.sources[0][0][0]) == f"stablehlo.{kind}"]


@pytest.mark.parametrize("scale", [16, 512])
def test_an_update_pays_for_its_copies_into_the_gradients_layout(scale: int) -> None:
    """Three arguments there and three results back, beside the update with its gradient."""
    larger, wide = W.replace("8x", f"{8 * scale}x", 1), 8 * scale

    def update(*gradient: str) -> float:
        lines = [
            line.replace(W, larger).replace("x8xf32", f"x{wide}xf32")
            for line in (*gradient, *UPDATE)
        ]
        given = ARGUMENTS.replace(W, larger).replace("32x8xf32", f"32x{wide}xf32")
        found = evaluator(main(given, lines, RESULTS.replace(W, larger)))
        (row,) = explain(resolve(found, ())).fusions
        return row.seconds

    copied = update(GRADIENT, TRANSPOSED)
    plain = update(product(f"t:{W}", "x:32x8xf32", "d:32x16x4xf32", (0, 0)))
    copies = 6 * (wide * 16 * 4 / ELEMENTS + DEVICE.op_overhead)
    assert copied - plain == pytest.approx(copies, rel=1 / 20)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("Adam, 256 rows, 768 x 3072", 0.05),
        ("Adam, 256 rows, 4096 x 4096", 0.25),
        ("Adam, 4096 rows, 512 x 4096", 0.2),
    ],
)
def test_an_update_inside_its_gradient_takes_longer_for_what_is_not_on_the_chip(
    name: str, error: float
) -> None:
    """Arrays that wait there together take no time beside the product."""
    case = TILING.cases[name]
    analysis = analysed(case.module("tpu-v5e"))
    found = Evaluator(analysis, Mesh.parse(case.mesh), find("tpu-v5e"))
    cycles = found.cost(()).compute * (CHIPS["tpu-v5e"].clock or 0.0)
    assert cycles == pytest.approx(golden("dot_tiling", name, "tpu-v5e"), rel=error)


@pytest.mark.parametrize("name", [name for name in TILING.cases if name.startswith("likeliest")])
def test_scores_are_reduced_behind_blocks_of_a_table_that_the_chip_has_no_room_for(
    name: str,
) -> None:
    """Of 32 bits, which are rounded block by block; those of 16 bits are reduced meanwhile."""
    case = TILING.cases[name]
    found = evaluator(case.module("tpu-v5e"), mesh=case.mesh)
    cycles = found.cost(()).compute * CLOCK
    assert cycles == pytest.approx(golden("dot_tiling", name, TPU), rel=0.15)


def test_the_padding_of_images_takes_time() -> None:
    """Images of 64 channels fill half of the columns of their tiles, those of 128 all."""

    def step(x: jax.Array, filters: jax.Array) -> tuple[jax.Array, jax.Array]:
        return conv(x, filters), jnp.tanh(x)

    def seconds(channels: int, images: int) -> float:
        shapes = (images, 64, 64, channels), (3, 3, channels, channels)
        found = evaluator(lowered(step, *shapes))
        (row,) = reading(found, (), "tanh")
        return row.seconds - DEVICE.op_overhead

    assert seconds(64, 64) == pytest.approx(seconds(128, 64))


def test_copies_of_what_does_not_fit_on_the_chip_go_by_bytes() -> None:
    n = 2**18
    w = f"{n}x64x16xf32"
    lines = [
        product(f"g:64x16x{n}xf32", "d:8x64x16xf32", f"x:8x{n}xf32", (0, 0)),
        moves("transpose", f"t:{w}", f"g:64x16x{n}xf32", ", dims = [2, 0, 1]"),
        maps("add", f"m1:{w}", "m", "t"),
    ]
    found = evaluator(main(f"x:8x{n}xf32 d:8x64x16xf32 m:{w}", lines, f"m1:{w}"))
    size = n * 64 * 16 * 4
    rows = found.tables
    assert len(rows.fusions.copied) == 2
    copied = golden("fusion_rates", "transpose and add 64 Mi")["copy"] / CLOCK * size / 2**28
    assert found.cost(()).compute > 2 * copied
    other = evaluator(main(f"x:8x{n}xf32 d:8x64x16xf32 m:{w}", lines, f"m1:{w}"), GPU)
    assert len(other.tables.fusions.copied) == 0


ROWS, WIDTH = 4096, 1024
GATHERED = main(
    f"x:{ROWS}x{WIDTH}xf32 w:{WIDTH}x{WIDTH}xf32",
    [product(f"y:{ROWS}x{WIDTH}xf32", f"x:{ROWS}x{WIDTH}xf32", f"w:{WIDTH}x{WIDTH}xf32")],
    f"y:{ROWS}x{WIDTH}xf32",
)


def local_kernels(found: Evaluator, state: tuple[Action, ...]) -> list[float]:
    """Seconds of what is computed beyond the one product, by a row's bytes."""
    rows = explain(resolve(found, state)).fusions
    return [row.seconds for row in rows if row.bound is Bound.ELEMENTS and not row.unfused]


def test_an_argument_is_rounded_before_it_is_gathered_for_products() -> None:
    """Rows and columns of x on one axis: the product gives way, and gathers the columns."""
    found = evaluator(GATHERED)
    state = over(found, (0, 0, 0), (1, 1, 0))
    whole = explain(resolve(found, state))
    sent = [row for row in whole.collectives if row.kind.name == "ALL_GATHER"]
    assert len(sent) == 1
    (spent,) = local_kernels(found, state)
    elements = WIDTH * WIDTH / 2
    assert spent == pytest.approx(elements / ELEMENTS + DEVICE.op_overhead)
    compiled = golden("fusion_rates", "product, columns gathered")["loop"] / CLOCK
    assert spent == pytest.approx(compiled, rel=1 / 5)
    gpu = evaluator(GATHERED, GPU)
    assert not local_kernels(gpu, over(gpu, (0, 0, 0), (1, 1, 0)))


def test_what_a_kernel_makes_is_rounded_where_it_is_made() -> None:
    w = f"{WIDTH}x{WIDTH}xf32"
    lines = [
        maps("add", f"v:{w}", "w", "u"),
        maps("tanh", f"t:{w}", "v"),
        product(f"y:{ROWS}x{WIDTH}xf32", f"x:{ROWS}x{WIDTH}xf32", f"t:{w}"),
    ]
    found = evaluator(
        main(f"x:{ROWS}x{WIDTH}xf32 w:{w} u:{w}", lines, f"y:{ROWS}x{WIDTH}xf32 t:{w}")
    )
    journal = explain(resolve(found, over(found, (0, 0, 0), (1, 1, 0))))
    assert sum(row.seconds for row in journal.fusions) == pytest.approx(journal.cost.compute)
    ops = {ops for row in journal.fusions for ops, _ in row.sources}
    assert len(ops) == len(journal.fusions)


def test_what_is_computed_for_a_product_is_handled_element_by_element() -> None:
    """A narrow product of a large computed operand: not its arithmetic, but its exponentials."""
    case = "narrow product of exponentials"
    found = evaluator(LAYOUTS[case].program())
    (row,) = explain(resolve(found, ())).fusions
    compiled = golden("fusion_rates", case)["contraction"] / CLOCK
    assert row.seconds == pytest.approx(compiled, rel=1 / 6)
    plain = evaluator(LAYOUTS["narrow product"].program())
    assert plain.cost(()).compute < found.cost(()).compute


@pytest.mark.parametrize("case", ["add 1 Ki", "product", "product of a stream of 1 GiB"])
def test_fusions_take_what_the_compiler_estimates(case: str) -> None:
    compiled = sum(golden("fusion_rates", case).values()) / CLOCK
    found = evaluator(LAYOUTS[case].program(), mesh=LAYOUTS[case].mesh)
    assert found.cost(()).compute == pytest.approx(compiled, rel=1 / 6)


@pytest.mark.parametrize("case", [case for case in LAYOUTS if case.startswith(("pass", "updates"))])
def test_each_element_that_is_read_or_written_takes_time(case: str) -> None:
    """Passes of one to five operands and of up to three results, in 32 and in 16 bits."""
    found = evaluator(LAYOUTS[case].program())
    compiled = sum(golden("fusion_rates", case).values()) / CLOCK
    assert found.cost(()).compute == pytest.approx(compiled, rel=1 / 4)


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p", "tpu-v3"])
@pytest.mark.parametrize("case", [case for case in LAYOUTS if "of 16 Mi" in case])
def test_a_fusion_that_reduces_reads_more_slowly_and_writes_meanwhile(
    case: str, device: str
) -> None:
    """Sums of products of two and three arrays, which are stored besides or not."""
    found = evaluator(LAYOUTS[case].program(), device)
    compiled = sum(golden("fusion_rates", case, device).values()) / (CHIPS[device].clock or 0.0)
    assert found.cost(()).compute == pytest.approx(compiled, rel=1 / 10)


@pytest.mark.parametrize("device", sorted(catalogue()))
def test_a_pass_that_sums_besides_is_never_cheaper(device: str) -> None:
    def seconds(summed: bool) -> float:
        def step(x: jax.Array, y: jax.Array) -> tuple[jax.Array, ...]:
            made = x * y
            return (made, made.sum(axis=0)) if summed else (made,)

        return evaluator(lowered(step, (4096, 512), (4096, 512)), device).cost(()).compute

    assert seconds(True) >= seconds(False)


def test_a_barrier_takes_no_time() -> None:
    """Its operands are in memory, and so are its results: the compiled passes have no launch."""
    found = evaluator(LAYOUTS["passes over 2 of 1 Mi"].program())
    assert set(golden("fusion_rates", "passes over 2 of 1 Mi")) == {"loop"}
    assert not reading(found, (), "optimization_barrier")


def product_seconds(case: str) -> float:
    """What the fusion of a product takes."""
    found = evaluator(LAYOUTS[case].program())
    (row,) = reading(found, (), "dot_general")
    return row.seconds


@pytest.mark.parametrize("bits", ["", " in 16 bits"])
def test_what_is_added_to_a_product_takes_no_time_but_its_rounding_does(bits: str) -> None:
    alone, more = (f"product of 1 Mi and {count} more{bits}" for count in (0, 1))
    compiled = golden("fusion_rates", alone)["contraction"]
    assert golden("fusion_rates", more)["contraction"] == compiled
    assert product_seconds(alone) == pytest.approx(product_seconds(more), rel=1 / 20)
    rounded = golden("fusion_rates", f"product of 1 Mi and 0 more{bits}")["contraction"]
    wide = golden("fusion_rates", "product of 1 Mi and 0 more")["contraction"]
    spent = product_seconds(alone) - product_seconds("product of 1 Mi and 0 more")
    assert spent == pytest.approx((rounded - wide) / CLOCK, rel=1 / 4)


def test_an_operand_is_read_with_all_that_it_is_computed_of() -> None:
    a = "512x512xf32"
    lines = [maps("add", f"e:{a}", "x", "z"), product(f"y:{a}", f"e:{a}", f"w:{a}")]
    found = evaluator(main(f"x:{a} z:{a} w:{a}", lines, f"y:{a}"))
    assert found.tables.fusions.dot_width[0, :, 0].tolist() == [2.0, 1.0]
    assert found.tables.fusions.dot_computed[0].tolist() == [1, 0]


def updated_by_sums(rows: int) -> Evaluator:
    """A gradient of a weight of so many rows, whose own rows are split, and the update."""
    w = f"{rows}x4096xf32"
    lines = [
        product(f"g:{w}", f"x:512x{rows}xf32", "d:512x4096xf32", (0, 0)),
        maps("subtract", f"p:{w}", "w", "g"),
    ]
    return evaluator(main(f"x:512x{rows}xf32 d:512x4096xf32 w:{w}", lines, f"p:{w}"))


def pass_over_sums(rows: int) -> FusionTime:
    found = updated_by_sums(rows)
    (row,) = (row for row in explain(resolve(found, over(found, (0, 0, 0)))).fusions if row.unfused)
    return row


def test_a_product_writes_its_partial_sums_and_an_update_reads_them() -> None:
    """Sums, then one pass over gradient, weight and new weight: it takes the time of any pass."""
    program = (found := updated_by_sums(1024)).analysis.program
    (dot,) = program.ops_named("stablehlo.dot_general")
    assert passes_over_sums(program, found.fusion)[dot] == 3.0
    large, small = pass_over_sums(8192), pass_over_sums(1024)
    assert large.bytes == pytest.approx(3 * 8192 * 4096 * 4)
    assert large.seconds - DEVICE.op_overhead == pytest.approx(large.bytes / RATE)
    assert small.bytes == 0.0  # 16 MiB each: all of it waits on the chip
    (alone,) = reading(evaluator(elementwise(1024)), (), "subtract")
    assert small.seconds == pytest.approx(alone.seconds)


def elementwise(rows: int) -> bytes:
    """The same update of a gradient that is given."""
    w = f"{rows}x4096xf32"
    return main(f"g:{w} w:{w}", [maps("subtract", f"p:{w}", "w", "g")], f"p:{w}")


def test_what_others_read_needs_no_pass_of_its_own() -> None:
    y = "512x4096xf32"
    lines = [
        product(f"h:{y}", "x:512x1024xf32", "w:1024x4096xf32"),
        maps("tanh", f"t:{y}", "h"),
        product("o:512x64xf32", f"t:{y}", "v:4096x64xf32"),
    ]
    data = main("x:512x1024xf32 w:1024x4096xf32 v:4096x64xf32", lines, "o:512x64xf32")
    found = evaluator(data)
    rows = explain(resolve(found, over(found, (0, 1, 0)))).fusions
    assert not any(row.unfused for row in rows)
    program = found.analysis.program
    dots = program.ops_named("stablehlo.dot_general")
    assert passes_over_sums(program, found.fusion)[dots].tolist() == [0.0, 0.0]


def test_a_reduction_of_sums_reads_what_others_gather() -> None:
    """The rows of y are summed; another product wants y whole where it was scattered."""
    y, n = "256x2048xf32", 256 * 2048
    lines = [
        product(f"y:{y}", "x:256x512xf32", "w:512x2048xf32"),
        *sums("s:2048xf32", f"y:{y}", 0),
        product("o:256x256xf32", f"y:{y}", "v:2048x256xf32"),
    ]
    data = main("x:256x512xf32 w:512x2048xf32 v:2048x256xf32", lines, "s:2048xf32 o:256x256xf32")
    found = evaluator(data)
    tables = found.tables
    scratch = found.new_scratch()
    found.cost((), scratch)
    assert len(tables.fusions.reduced_tensor_start) - 1 == 1
    assert {float(scratch.tensors.local[k]) for k in tables.fusions.reduced_tensor} == {4.0 * n}


@pytest.mark.parametrize("rows", [32, 128, 512])
def test_products_of_what_is_on_the_chip_take_what_libtpu_estimates(rows: int) -> None:
    """On a v5e, which keeps the operands of a loop there: a fifth of any other launch, or more."""
    name = f"products of {rows} rows"
    found = evaluator(SMALL[name].program(), "tpu-v5e", SMALL[name].mesh)
    cycles = found.cost(()).compute / RUNS * (CHIPS["tpu-v5e"].clock or 0.0)
    assert cycles == pytest.approx(golden("small_fusions", name, "tpu-v5e")["contraction"], rel=0.1)


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p"])
@pytest.mark.parametrize(
    ("case", "launches"), [("products of 32 rows", 1), ("products and passes of 32 rows", 2)]
)
def test_counters_of_loops_take_no_time(case: str, launches: int, device: str) -> None:
    """In the compiled loops they take less than a tenth of a launch."""
    found = evaluator(SMALL[case].program(), device, SMALL[case].mesh)
    run = found.cost(()).compute / RUNS / found.device.op_overhead
    product = golden("small_fusions", "products of 32 rows", device)["contraction"]
    begun = min(product / (CHIPS[device].clock or 0.0) / found.device.op_overhead, 1.0)
    assert begun - 0.01 < run - (launches - 1) < begun + 0.2
    counting = golden("small_fusions", "products of 32 rows", device)["loop"]
    assert counting / (CHIPS[device].clock or 0.0) < found.device.op_overhead / 10


REDUCED = [case for case in LAYOUTS if case.startswith(("sums over rows of", "squares of"))]


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p", "tpu-v3"])
@pytest.mark.parametrize("case", REDUCED)
def test_an_element_that_is_reduced_takes_time_however_it_lies(case: str, device: str) -> None:
    """Sums over rows, columns and both, of one to three arrays that are read."""
    compiled = golden("fusion_rates", case, device)["reduce"] / (CHIPS[device].clock or 0.0)
    found = evaluator(LAYOUTS[case].program(), device, LAYOUTS[case].mesh)
    (row,) = reading(found, (), "reduce")
    assert row.seconds == pytest.approx(compiled, rel=1 / 4)
