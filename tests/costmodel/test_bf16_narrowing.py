"""Stacks of f32 that a TPU keeps in 16 bits, and arguments that it rounds whole before a loop.

What a `while` of the compiled programs carries is told by the probe `bf16_narrowing`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.bf16_narrowing import (
    INPUTS,
    LAYERS,
    NARROW,
    PROGRAMS,
    ROWS,
    TABLES,
    WIDE,
    relu,
    scaled,
    tanh,
    training,
)
from benchmarks.probes.figures import golden
from tests.costmodel.profiles import GPU, TPU, V3
from tests.costmodel.texts import TPU as V5E
from tests.costmodel.texts import Priced
from tests.modules import analysed
from toast.analysis.program import LOOP_BEGIN
from toast.costmodel.compilers.profile import CompilerProfile, profile_of
from toast.costmodel.hardware.devices import find
from toast.costmodel.passes.fusion import fuse
from toast.costmodel.passes.row_layouts import row_layouts
from toast.costmodel.program.buffers import carried_constants, loop_slots

Stack = tuple[tuple[int, ...], str]


def stacks(data: bytes, policy: CompilerProfile = TPU) -> dict[bool, set[tuple[int, ...]]]:
    """Shapes of the f32 stacks that begin as constants, by whether they are narrow."""
    program = analysed(data).program
    narrow = fuse(program, policy).narrow
    found: dict[bool, set[tuple[int, ...]]] = {True: set(), False: set()}
    for slot in loop_slots(program):
        stacked = program.kind(program.makers[slot.yielded]) == "stablehlo.dynamic_update_slice"
        if stacked and program.constant[slot.init] and program.dtype(slot.body) == "f32":
            places = (slot.condition, slot.body, slot.yielded, slot.result)
            assert len({bool(narrow[value]) for value in places}) == 1
            found[bool(narrow[slot.body])].add(program.shape(slot.body))
    return found


INPUT, HIDDEN = (LAYERS, ROWS, NARROW), (LAYERS, ROWS, WIDE)
GRADIENTS = {(LAYERS, NARROW, WIDE), (LAYERS, WIDE, NARROW)}


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p", "tpu-v3", "a100-40gb"])
@pytest.mark.parametrize("name", ["relu", "tanh", "returned"])
def test_stacks_are_as_wide_as_in_the_compiled_program(name: str, device: str) -> None:
    """Of activations: what has the shape of a weight is there as an argument as well."""
    compiled = golden("bf16_narrowing", name, device)
    found = stacks(PROGRAMS[name](), profile_of(find(device)))
    for shape in (INPUT, HIDDEN):
        widths = compiled.get(",".join(map(str, shape)), [])
        assert (shape in found[True], shape in found[False]) == ("bf16" in widths, "f32" in widths)


@pytest.mark.parametrize("policy", [TPU, V3])
def test_what_products_alone_read_is_stacked_in_16_bits(policy: CompilerProfile) -> None:
    """Not the gradients, which the update reads as they are."""
    assert stacks(training(relu), policy) == {True: {INPUT, HIDDEN}, False: GRADIENTS}


def test_what_is_stacked_for_something_else_too_stays() -> None:
    assert stacks(training(tanh)) == {True: {INPUT}, False: {HIDDEN, *GRADIENTS}}


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p", "tpu-v3", "a100-40gb"])
@pytest.mark.parametrize("name", sorted(INPUTS))
def test_inputs_of_loops_are_as_wide_as_in_the_compiled_program(name: str, device: str) -> None:
    program = analysed(INPUTS[name]()).program
    narrow = fuse(program, profile_of(find(device))).narrow
    (given,) = {slot.init for slot in loop_slots(program) if program.shape(slot.init) == INPUT}
    compiled = golden("bf16_narrowing", name, device)[",".join(map(str, INPUT))]
    assert compiled == ["bf16" if narrow[given] else "f32"]


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p", "tpu-v3"])
@pytest.mark.parametrize("name", sorted(TABLES))
def test_tables_are_copied_as_wide_as_in_the_compiled_program(name: str, device: str) -> None:
    program = analysed(TABLES[name]()).program
    layouts = row_layouts(program, fuse(program, profile_of(find(device))))
    tables = [table for table, *_ in layouts.held]
    copied = ["bf16" if table in layouts.rounded else "f32" for table in tables]
    assert copied == golden("bf16_narrowing", name, device)


def test_a_gpu_stacks_what_it_makes() -> None:
    assert stacks(training(relu), GPU)[True] == set()


def test_what_has_16_bits_already_is_as_it_is() -> None:
    data = training(relu, "bfloat16")
    assert not any(stacks(data).values())
    assert not fuse(analysed(data).program, TPU).rounded


def test_results_of_the_program_stay() -> None:
    """A stack that is returned, or sliced outside of loops for anything but a product."""
    assert stacks(PROGRAMS["returned"]()) == {True: set(), False: {INPUT}}


def test_weights_of_products_are_rounded_once_for_all_loops() -> None:
    """From the first loop to the end of the last that reads slices of them for products."""
    program = analysed(training(relu)).program
    rounded = fuse(program, TPU).rounded
    begins = program.ops_named(LOOP_BEGIN)
    ends = [program.makers[slot.result] for slot in loop_slots(program)]
    a, b, _ = (argument.value for argument in program.arguments)
    assert rounded == {a: (min(begins), max(ends)), b: (min(begins), max(ends))}
    assert not fuse(program, GPU).rounded


def test_weights_that_something_else_reads_are_not_rounded_for_it() -> None:
    program = analysed(training(scaled)).program
    _, b, _ = (argument.value for argument in program.arguments)
    assert set(fuse(program, TPU).rounded) == {b}


def test_the_peak_holds_half_of_such_stacks_and_half_of_the_weights_besides() -> None:
    wide, narrow = (Priced(training(layer), "a=2", V5E).peak() for layer in (tanh, relu))
    stacked = 4.0 * LAYERS * ROWS * WIDE
    # two stacks in 32 bits, against one in 16 and one of a byte for each element
    assert wide - narrow == pytest.approx(2 * stacked - stacked / 2 - stacked / 4, rel=0.1)


def sums_by_node(edges: Any, index: Any, nodes: Any) -> Any:
    """Nodes that take what their edges send, in every iteration: scatters into zeros."""
    zeros = jnp.zeros_like(nodes)

    def one(nodes: Any, _: Any) -> Any:
        return jnp.tanh(zeros.at[index].add(edges) + nodes), None

    return jax.lax.scan(one, nodes, None, length=LAYERS)[0]


def test_constants_that_a_loop_passes_on_are_not_sent() -> None:
    """Zeros that are scattered into are wanted whole, and made so."""
    shape = jax.ShapeDtypeStruct
    given = shape((ROWS, NARROW), jnp.float32), shape((ROWS,), jnp.int32)
    data = str(jax.jit(sums_by_node).lower(*given, given[0]).as_text()).encode()
    priced = Priced(data, "a=2", V5E)
    program = priced.evaluator.analysis.program
    constants = carried_constants(program)
    assert {program.shape(value) for value in constants} >= {(ROWS, NARROW)}
    sent = priced.sent(((0, 0), 0), ((2, 0), 0))
    assert sent == {("ALL_REDUCE", (0,)): LAYERS * 4 * ROWS * NARROW}  # narrow rows are not cut
