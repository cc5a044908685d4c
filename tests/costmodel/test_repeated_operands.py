"""Keys and values that several heads share: stored for each head where products read them."""

from __future__ import annotations

import pytest

from benchmarks.probes.few_rows import PROBE
from benchmarks.probes.figures import TARGETS, golden
from tests.costmodel.profiles import TPU
from tests.modules import analysed
from toast.aot.target import CHIPS
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.fusion import fuse
from toast.costmodel.passes.lone_broadcasts import lone_broadcasts
from toast.costmodel.resolved import resolve

SHARED = sorted(name for name in PROBE.cases if "shared keys" in name)


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p", "tpu-v3"])
@pytest.mark.parametrize("name", SHARED)
def test_shared_keys_are_stored_for_each_head_where_the_compiler_does(
    name: str, device: str
) -> None:
    """By each product that has several queries; none is stored for a single query."""
    program = analysed(PROBE.cases[name].module(TARGETS[device])).program
    found = fuse(program, profile_of(find(device)))
    wide = [
        value
        for product in program.ops_named("stablehlo.dot_general")
        for value in (program.sources[use] for use in program.uses_of(product))
        if found.written[value] and program.elements[value] == 8 * 2048 * 16 * 128
    ]
    assert len(wide) == (2 if "broadcast" in golden("few_rows", name, device) else 0)
    assert all(found.narrow[value] or "bf16" in name for value in wide)


@pytest.mark.parametrize("name", SHARED)
def test_what_is_repeated_takes_its_time(name: str) -> None:
    module = PROBE.cases[name].module(TARGETS["tpu-v5e"])
    priced = Evaluator(analysed(module), Mesh.parse("all=8"), find("tpu-v5e")).cost(()).compute
    cycles = sum(golden("few_rows", name).values())
    part = priced * (CHIPS["tpu-v5e"].clock or 0.0) / cycles
    assert 3 / 5 < part < 4 / 3


@pytest.mark.parametrize(
    ("device", "within"), [("tpu-v5e", 0.1), ("tpu-v5p", 0.35), ("tpu-v3", 0.35)]
)
@pytest.mark.parametrize("name", [name for name in SHARED if "of 1," not in name])
def test_what_is_repeated_is_made_tile_by_tile(name: str, device: str, within: float) -> None:
    """As long in 16 bits as in 32."""
    module = analysed(PROBE.cases[name].module(TARGETS[device]))
    resolved = resolve(Evaluator(module, Mesh.parse("all=8"), find(device)), ())
    repeating = resolved.evaluator.tables.fusions.repeating > 0
    spent = float(resolved.scratch.fusions.seconds[repeating].sum())
    given = golden("few_rows", name, device)["broadcast"]
    assert spent * (CHIPS[device].clock or 0.0) == pytest.approx(given, rel=within)


def test_a_broadcast_that_computes_or_spreads_one_number_is_a_pass() -> None:
    def lone(made: str) -> bool:
        lines = f"""
    func.func public @main(%x: tensor<256x128xf32>, %s: tensor<f32>) -> tensor<256x64x128xf32> {{
      %e = stablehlo.exponential %x : tensor<256x128xf32>
      {made}
      return %y : tensor<256x64x128xf32>
    }}
    """
        program = analysed(lines.encode()).program
        return bool(lone_broadcasts(program, fuse(program, TPU)).any())

    spread = (
        "%y = stablehlo.broadcast_in_dim %{}, dims = {} : (tensor<{}>) -> tensor<256x64x128xf32>"
    )
    assert lone(spread.format("x", "[0, 2]", "256x128xf32"))
    assert not lone(spread.format("e", "[0, 2]", "256x128xf32"))
    assert not lone(spread.format("s", "[]", "f32"))


def test_what_is_spread_of_one_number_is_no_operand_that_is_stored() -> None:
    """Ones that a product sums with stay inside it."""
    text = """
    func.func public @main(%x: tensor<256x512xf32>, %s: tensor<f32>) -> tensor<256x256xf32> {
      %ones = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<512x256xf32>
      %y = stablehlo.dot_general %x, %ones, contracting_dims = [1] x [0]
        : (tensor<256x512xf32>, tensor<512x256xf32>) -> tensor<256x256xf32>
      return %y : tensor<256x256xf32>
    }
    """
    program = analysed(text.encode()).program
    (spread,) = program.ops_named("stablehlo.broadcast_in_dim")
    assert not fuse(program, TPU).written[program.values_of(spread)[0]]
