"""Each pass can be left out, and then prices the program that it was made for otherwise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.probes.convolution_tiling import CONVOLUTIONS
from benchmarks.probes.nets import chain
from benchmarks.probes.programs import lowered
from benchmarks.probes.scatter_fusion import SUMS
from benchmarks.probes.while_loop_invariant_code_motion import MADE
from benchmarks.probes.while_loop_invariant_code_motion import module as loop_of
from tests.costmodel.pressed import sorted_twice
from tests.costmodel.profiles import holding
from tests.costmodel.texts import GPU, TPU, Dim, main, maps, product, sums
from tests.ground.repository import ROOT
from tests.modules import analysed, argument_group
from toast.analysis.errors import InvalidRequest
from toast.costmodel.compilers.profile import CompilerProfile, profile_of
from toast.costmodel.evaluator import Action, Cost, Evaluator
from toast.costmodel.hardware.devices import catalogue, find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.registry import PASSES, without

S = "64x64xf32"
X, W, V = f"x:{S}", f"w:{S}", f"v:{S}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A program for one device, and the dimensions of arguments that are split in two."""

    module: Callable[[], bytes]
    device: str = TPU
    split: tuple[Dim, ...] = ()
    on_chip: bool = False

    @property
    def profile(self) -> CompilerProfile:
        """What the compiler does; with no buffers on the chip that hide what is in main memory."""
        return (
            profile_of(find(self.device)) if self.on_chip else holding(self.device, 0, tiled=True)
        )

    def cost(self, left_out: tuple[str, ...]) -> Cost:
        """What the program costs with what the compiler does, but for some passes."""
        profile = without(self.profile, left_out)
        analysis = analysed(self.module())
        evaluator = Evaluator(analysis, Mesh.parse("a=2"), find(self.device), profile=profile)
        groups = [argument_group(analysis, *dim) for dim in self.split]
        return evaluator.cost(tuple(Action(group=group, axis=0) for group in groups))


def text(arguments: str, lines: list[str], results: str) -> Callable[[], bytes]:
    return lambda: main(arguments, lines, results)


@cache
def accumulated() -> bytes:
    """Gradients of batch after batch, added up by a loop."""

    def run(x: Any, y: Any) -> Any:
        def add(total: Any, batch: Any) -> Any:
            return total + batch[0].T @ batch[1], None

        return jax.lax.scan(add, jnp.zeros((32, 32)), (x, y))[0]

    shape = jax.ShapeDtypeStruct((4, 64, 32), jnp.float32)
    return jax.jit(run).lower(shape, shape).as_text().encode()


@cache
def updated() -> bytes:
    """A buffer that may lie on the chip, read behind rows that are written."""

    def attend(buffer: Any, rows: Any, at: Any) -> Any:
        buffer = jax.lax.dynamic_update_slice(buffer, rows, (at, 0))
        return buffer, (rows @ buffer.T) @ buffer

    bf16 = jnp.bfloat16
    shapes = [((8192, 1024), bf16), ((8, 1024), bf16), ((), jnp.int32)]
    structs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    return jax.jit(attend, donate_argnums=0).lower(*structs).as_text().encode()


@cache
def looked_up() -> bytes:
    """The gradient of a loss that looks a label up in each row."""

    def loss(logits: Any, labels: Any) -> Any:
        scores = jax.nn.log_softmax(jnp.tanh(logits))
        return -jnp.take_along_axis(scores, labels[:, None], axis=1).sum()

    logits = jax.ShapeDtypeStruct((1024, 4096), jnp.float32)
    labels = jax.ShapeDtypeStruct((1024,), jnp.int32)
    return jax.jit(jax.grad(loss)).lower(logits, labels).as_text().encode()


LARGE = "16384x8192xf32"
TWO_PRODUCTS = text(f"{X} {W}", [product(f"p:{S}", X, W), product(f"q:{S}", f"p:{S}", W)], f"q:{S}")
NUMBERS = np.arange(64.0 * 64.0, dtype=np.float32).reshape(64, 64)
CASES = {
    "constant_folding": Case(module=lambda: lowered(lambda x: x + NUMBERS, (64, 64))),
    "scatter_expander": Case(module=looked_up),
    "fusion": Case(
        module=text(X, [maps("tanh", f"a:{S}", "x"), maps("abs", f"b:{S}", "a")], f"b:{S}")
    ),
    "multi_output_fusion": Case(
        module=text(X, [maps("tanh", f"a:{S}", "x"), maps("abs", f"b:{S}", "a")], f"a:{S} b:{S}")
    ),
    "reduction_fusion": Case(
        module=text(
            f"{X} {W}", [product(f"p:{S}", X, W), *sums("r:64xf32", f"p:{S}", 1)], f"p:{S} r:64xf32"
        )
    ),
    "algebraic_simplifier": Case(
        module=text(
            f"{X} {W}",
            [
                product(f"p:{S}", X, W),
                f"%r = stablehlo.slice %p [0:1, 0:8] : (tensor<{S}>) -> tensor<1x8xf32>",
            ],
            "r:1x8xf32",
        )
    ),
    "dot_strength_reduction": Case(
        module=text(
            "q:64x128xbf16 k:64x2048x128xbf16",
            [
                (
                    "%p = stablehlo.dot_general %k, %q, batching_dims = [0] x [0], "
                    "contracting_dims = [2] x [1] : (tensor<64x2048x128xbf16>, "
                    "tensor<64x128xbf16>) -> tensor<64x2048xbf16>"
                )
            ],
            "p:64x2048xbf16",
        )
    ),
    "dot_tiling": Case(
        module=text(
            f"x:{LARGE} w:8192x16384xf32",
            [product("p:16384x16384xf32", f"x:{LARGE}", "w:8192x16384xf32")],
            "p:16384x16384xf32",
        )
    ),
    "convolution_tiling": Case(module=CONVOLUTIONS["160 to 256"].module),
    "fourier_transforms": Case(
        module=lambda: lowered(lambda x: jnp.abs(jnp.fft.rfft(x)), (64, 4096))
    ),
    "scatter_fusion": Case(module=SUMS["as looked up"].module),
    "cse": Case(
        module=text(f"{X} {W}", [product(f"p:{S}", X, W), product(f"q:{S}", X, W)], f"p:{S} q:{S}")
    ),
    "all_reduce_combiner": Case(
        module=text(
            f"{X} {W}",
            [product(f"g:{S}", X, W, (0, 0)), product(f"h:{S}", W, X, (0, 0))],
            f"g:{S} h:{S}",
        ),
        split=((0, 0),),
    ),
    "all_reduce_reassociate": Case(
        module=text(
            f"{X} {W} {V}",
            [
                product(f"p:{S}", X, W),
                product(f"q:{S}", X, V),
                maps("add", f"r:{S}", "p", "q"),
                maps("tanh", f"t:{S}", "r"),
                product(f"u:{S}", f"t:{S}", W, (1, 1)),
            ],
            f"u:{S}",
        ),
        split=((0, 1),),
    ),
    "while_loop_all_reduce_motion": Case(module=accumulated, split=((0, 1),)),
    "while_loop_invariant_code_motion": Case(module=partial(loop_of, MADE["joined"])),
    "reduce_scatter_creator": Case(
        module=text(f"{X} {W}", [product(f"p:{S}", X, W)], f"p:{S}"), split=((0, 1), (1, 1))
    ),
    "bf16_narrowing": Case(module=TWO_PRODUCTS),
    "layout_assignment": Case(
        module=text("x:64x3xf32", [maps("tanh", "a:64x3xf32", "x")], "a:64x3xf32")
    ),
    "space_to_batch": Case(module=lambda: chain(4, 32, (64, 64, 64))),
    "buffer_assignment": Case(
        module=text(
            f"{X} {W}",
            [
                product(f"p:{S}", X, W),
                maps("tanh", f"t:{S}", "p"),
                product(f"q:{S}", f"t:{S}", W),
            ],
            f"q:{S}",
        ),
        device=GPU,
    ),
    "dynamic_update_slice": Case(module=updated, on_chip=True),
    "memory_space_assignment": Case(module=TWO_PRODUCTS, on_chip=True),
    "rematerialization": Case(module=sorted_twice),
    "spmd_partitioner": Case(module=TWO_PRODUCTS, split=((0, 1),)),
}


def test_every_pass_has_a_program() -> None:
    assert set(CASES) == set(PASSES)


def test_every_section_of_a_profile_is_a_pass() -> None:
    sections = [field.name for field in dataclasses.fields(CompilerProfile)]
    assert ["name", *PASSES] == sections


def test_every_file_of_the_passes_belongs_to_one() -> None:
    files = {path.stem.removesuffix("_kernel") for path in (ROOT / "costmodel/passes").glob("*.py")}
    assert files == {
        *PASSES,
        "__init__",
        "registry",
        "fusion_chains",
        "output_fusion",
        "repeated_operands",
        "blocked_images",
        "convolution_chains",
        "error_functions",
        "convolution_groups",
        "grouped_images",
        "lone_broadcasts",
        "matrix_layouts",
        "row_layouts",
        "transposed_parts",
        "window_layouts",
    }


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_that_is_left_out_changes_the_price_of_its_program(name: str) -> None:
    case = CASES[name]
    assert case.cost(()) != case.cost((name,))


@pytest.mark.parametrize("device", sorted(catalogue()))
def test_a_compiler_that_leaves_nothing_out_does_what_it_does(device: str) -> None:
    profile = profile_of(find(device))
    assert without(profile, ()) == profile


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_left_out_by_keys_of_its_own_that_some_compiler_sets(name: str) -> None:
    one = PASSES[name]
    done = set()
    for device in catalogue().values():
        section = getattr(profile_of(device), name)
        done |= {key for key, off in one.off.items() if getattr(section, key) != off}
        left = getattr(without(profile_of(device), [name]), name)
        assert all(getattr(left, key) == off for key, off in one.off.items())
    assert done == set(one.off)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_one_file_and_has_its_section(name: str) -> None:
    assert PASSES[name].name == name
    assert (ROOT / PASSES[name].file).is_file()
    assert f"\n## {name}\n" in (ROOT / "docs/compilers.md").read_text()


def test_leaving_out_what_is_no_pass_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(InvalidRequest, match="no pass 'twins' to leave out") as caught:
        without(profile_of(find(TPU)), ["cse", "twins"])
    assert "cse, all_reduce_combiner" in caught.value.hint
