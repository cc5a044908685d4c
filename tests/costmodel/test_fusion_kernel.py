"""The kernels of fusion and liveness against the same rules written down with sets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from examples import gemma
from tests.costmodel.profiles import GPU, TPU, V3
from tests.costmodel.walks import role_of
from tests.laws.chains import Text
from tests.laws.programs import programs
from tests.modules import analysed
from toast.analysis.load import load
from toast.analysis.program import Program
from toast.analysis.types import itemsize
from toast.costmodel.compilers.profile import CompilerProfile
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes import fusion as fusing
from toast.costmodel.passes.algebraic_simplifier import cutting
from toast.costmodel.passes.buffer_assignment import positions_of_ops
from toast.costmodel.passes.fusion import Fusion, fuse
from toast.costmodel.program.contractions import BATCH, CONTRACTED, LEFT, RIGHT, product_sides
from toast.costmodel.program.dataflow import flow_of
from toast.costmodel.program.lookups import looked_up
from toast.costmodel.program.op_traits import CHEAP, ERRORS, EXPENSIVE, LAYOUT, Role, role
from toast.costmodel.terms.fusions import FUSIONS

POLICIES = (TPU, V3, GPU)


@dataclass(kw_only=True)
class Needs:
    """What computing a fused value needs."""

    uses: set[int]
    contractions: set[int]
    expensive: bool
    once: bool
    light: bool
    cheap: bool


class BySets:
    """Fusion op by op, as its rules say."""

    def __init__(self, program: Program, policy: CompilerProfile, stored: set[int]) -> None:
        self.program, self.policy, self.stored = program, policy, stored
        self.needs: list[Needs] = []
        self.written: set[int] = set()
        self.tables: set[int] = set()
        self.roots: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
        self.sides = product_sides(program)
        self.users: dict[int, list[int]] = {}
        for use, value in enumerate(program.sources):
            self.users.setdefault(value, []).append(use)
        for op in range(program.ops):
            self.add(op)

    def role(self, op: int) -> Role:
        return role_of(self.program, op, self.policy)

    def bytes(self, value: int) -> float:
        size = itemsize(self.program.dtype(value))
        return float(np.prod(self.program.shape(value), dtype=np.float64) * size)

    def elements(self, value: int) -> float:
        return float(np.prod(self.program.shape(value), dtype=np.float64))

    def add(self, op: int) -> None:
        program, name = self.program, self.program.kind(op)
        dots = {op} if self.role(op) is Role.CONTRACTION else set()
        found = Needs(
            uses=set(),
            contractions=dots,
            expensive=name in EXPENSIVE,
            once=name in ERRORS and self.policy.fusion.stores_narrow_erf,
            light=name in LAYOUT,
            cheap=name in CHEAP | LAYOUT,
        )
        for use in program.uses_of(op):
            value = program.sources[use]
            if value in self.written and (value not in self.tables or self.is_table(use)):
                found.uses.add(use)
            else:
                inner = self.needs[program.makers[value]]
                found.uses |= inner.uses
                found.contractions |= inner.contractions
                found.expensive |= inner.expensive
                found.once |= inner.once
                found.light &= inner.light
                found.cheap &= inner.cheap
        self.needs.append(found)
        values = program.values_of(op)
        stores = {v for v in values if not program.constant[v] and not self.fuses(v, found)}
        looked_up = {v for v in values if any(self.is_table(use) for use in self.users.get(v, []))}
        looked_up = {v for v in looked_up if not program.constant[v]}
        self.tables |= {v for v in looked_up - stores if self.copied(v, found)}
        stores |= looked_up
        self.written |= stores
        if stores or self.role(op) is Role.NOTHING:
            self.roots.append((op, tuple(sorted(found.uses)), tuple(sorted(found.contractions))))

    def is_table(self, use: int) -> bool:
        op = self.program.user(use)
        rows = bool(looked_up(self.program)[op]) and self.policy.fusion.stores_looked_up
        return rows and use == self.program.uses_of(op).start

    def copied(self, value: int, needs: Needs) -> bool:
        sources = {self.program.sources[use] for use in needs.uses}
        read = [self.bytes(n) * min(1.0, self.elements(value) / self.elements(n)) for n in sources]
        return not needs.contractions and max(read, default=0.0) <= self.bytes(value)

    def fuses(self, value: int, needs: Needs) -> bool:
        program = self.program
        users = [use for use in self.users.get(value, []) if not self.is_table(use)]
        kind = self.role(program.makers[value])
        if kind not in (Role.FUSIBLE, Role.CONTRACTION) or value in self.stored or not users:
            return False
        if not all(self.absorbs(value, use, needs) for use in users):
            return False
        narrow = itemsize(program.dtype(value)) == 2
        if needs.once and narrow and len({program.user(use) for use in users}) > 1:
            return False
        if needs.contractions:
            return True
        if needs.expensive and len(users) > 1 and not self.policy.fusion.repeats_costly:
            return False
        own, count = self.bytes(value), len({program.user(use) for use in users})
        sources = {program.sources[use] for use in needs.uses}
        part = {n: min(1.0, self.elements(value) / self.elements(n)) for n in sources}
        read = sum(part[source] * self.bytes(source) for source in sources)
        return count * read <= read + (count + 1) * own

    def repeated(self, value: int, needs: Needs) -> bool:
        own = self.bytes(value)
        sizes = [self.bytes(source) for source in {self.program.sources[u] for u in needs.uses}]
        large = [size for size in sizes if 2.0 * size >= own]
        wide = self.program.dtype(value) != "f32"
        return needs.cheap and not wide and len(large) <= 1 and all(s <= own for s in large)

    def absorbs(self, value: int, use: int, needs: Needs) -> bool:
        program, op = self.program, self.program.user(use)
        kind = self.role(op)
        same = program.op_trips[op] == program.op_trips[program.makers[value]]
        if kind in (Role.NOTHING, Role.OPAQUE) or not same:
            return False
        if self.policy.fusion.stores_repeated and self.reads_repeated(use):
            return False
        if self.reads_stored(value, use) and not needs.light:
            return False
        if kind is Role.CONTRACTION and not self.policy.fusion.fuses_into_dot and not needs.light:
            return program.kind(op) == "stablehlo.dot_general" and self.repeated(value, needs)
        return kind is not Role.UPDATE or use != program.uses_of(op).start

    def reads_repeated(self, use: int) -> bool:
        """Whether a product of rows and columns reads what was repeated, and then laid out."""
        program = self.program
        sizes = self.sides.get(program.user(use), ())
        rows, columns, batch = (
            math.prod(n for side, n in sizes if side == one) for one in (LEFT, RIGHT, BATCH)
        )
        if not sizes or (batch > 1 and min(rows, columns) == 1):
            return False
        value = program.sources[use]
        while program.kind(maker := program.makers[value]) in LAYOUT:
            source = program.sources[program.uses_of(maker).start]
            spread = program.kind(maker) == "stablehlo.broadcast_in_dim"
            if spread and 1 < self.elements(source) < self.elements(value):
                return True
            value = source
        return False

    def reads_stored(self, value: int, use: int) -> bool:
        """Whether an op reads this operand as it is stored."""
        program, op, rules = self.program, self.program.user(use), self.policy.fusion
        first, kind = use == program.uses_of(op).start, program.kind(op)
        if kind == "stablehlo.scatter":
            return rules.stores_looked_up and self.role(op) is Role.UPDATE
        strided = rules.stores_strided and program.op_strided[op] > 0
        padded = rules.stores_padded and kind == "stablehlo.pad"
        shared = kind == "stablehlo.slice" and len(self.users[value]) > 1
        return bool(first and (strided or padded or (shared and rules.stores_sliced)))


def assert_fused_by_the_rules(program: Program, policy: CompilerProfile) -> None:
    found = fuse(program, policy)
    ends = fusing.chain_ends(program, flow_of(program), policy.fusion, cutting(program, found.cut))
    stored = set(np.flatnonzero(ends).tolist())
    expected = BySets(program, policy, stored)
    assert set(np.flatnonzero(found.written).tolist()) == expected.written
    assert [(r.op, r.reads, r.contractions) for r in found.roots] == expected.roots
    for value in range(program.values):
        inside = value not in expected.written and expected.needs[program.makers[value]].light
        assert found.light[value] == (program.constant[value] or inside)


@cache
def step() -> Program:
    return load(gemma.lower(gemma.PRESETS["tiny"]).as_text().encode()).program


@pytest.mark.parametrize("policy", POLICIES)
def test_a_training_step_is_fused_by_the_rules(policy: CompilerProfile) -> None:
    assert_fused_by_the_rules(step(), policy)


@given(module=programs())
def test_any_program_is_fused_by_the_rules(module: Text) -> None:
    program = load(module.module().encode()).program
    for policy in POLICIES:
        assert_fused_by_the_rules(program, policy)


STRIDES = """
func.func public @main(%x: tensor<16x64x512xf32>) -> (tensor<8x64x512xf32>, tensor<16x32x512xf32>,
    tensor<16x127x512xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.exponential %x : tensor<16x64x512xf32>
  %1 = stablehlo.slice %0 [0:16:2, 0:64, 0:512] : (tensor<16x64x512xf32>) -> tensor<8x64x512xf32>
  %2 = stablehlo.tanh %1 : tensor<8x64x512xf32>
  %3 = stablehlo.slice %0 [0:16, 0:64:2, 0:512] : (tensor<16x64x512xf32>) -> tensor<16x32x512xf32>
  %4 = stablehlo.tanh %3 : tensor<16x32x512xf32>
  %5 = stablehlo.pad %0, %zero, low = [0, 0, 0], high = [0, 0, 0], interior = [0, 1, 0]
    : (tensor<16x64x512xf32>, tensor<f32>) -> tensor<16x127x512xf32>
  %6 = stablehlo.tanh %5 : tensor<16x127x512xf32>
  return %2, %4, %6 : tensor<8x64x512xf32>, tensor<16x32x512xf32>, tensor<16x127x512xf32>
}
"""


def test_what_strides_over_tiles_runs_by_itself() -> None:
    program = load(STRIDES.encode()).program
    for policy in POLICIES:
        assert_fused_by_the_rules(program, policy)
    written = np.flatnonzero(fuse(program, TPU).written)
    names = {program.kind(program.makers[value]) for value in written.tolist()}
    shapes = {program.shape(value) for value in written.tolist() if is_slice(program, value)}
    assert "stablehlo.pad" in names
    assert "stablehlo.exponential" in names
    assert shapes == {(16, 32, 512)}


def is_slice(program: Program, value: int) -> bool:
    return program.kind(program.makers[value]) == "stablehlo.slice"


def test_pools_that_are_too_short_are_made_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms, whole = [], fuse(step(), TPU)
    make = fusing.new_needs

    def short(program: Program, room: int) -> Any:
        rooms.append(room)
        return make(program, room // 64 + 1)

    monkeypatch.setattr(fusing, "new_needs", short)
    found = fuse(step(), TPU)
    assert len(rooms) > 1
    assert found.roots == whole.roots
    assert np.array_equal(found.written, whole.written)


def spans_by_walking(program: Program, fusion: Fusion) -> tuple[list[int], list[int]]:
    """From the last op to the first: what is not stored is computed where its users are."""
    low, high = [program.ops] * program.ops, [-1] * program.ops
    stored = {root.op for root in fusion.roots}
    for op in range(program.ops - 1, -1, -1):
        if op in stored or low[op] > high[op]:
            low[op] = min(low[op], int(fusion.position[op]))
            high[op] = max(high[op], int(fusion.position[op]))
        for use in program.uses_of(op):
            if fusion.inside[use]:
                maker = program.makers[program.sources[use]]
                low[maker], high[maker] = min(low[maker], low[op]), max(high[maker], high[op])
    return low, high


@given(module=programs())
def test_an_op_runs_from_its_first_fusion_to_its_last(module: Text) -> None:
    program = load(module.module().encode()).program
    fusion = fuse(program, TPU)
    low, high = positions_of_ops(program, fusion, fusion.position)
    assert (low.tolist(), high.tolist()) == spans_by_walking(program, fusion)


def read_by_walking(program: Program, fusion: Fusion, value: int) -> float:
    """All that an operand is computed of inside its product, each once."""
    found, left, own = dict[int, float](), [value], program.elements[value]
    while left:
        source = left.pop()
        if source in found or program.constant[source]:
            continue
        op, found[source] = program.makers[source], 0.0
        if fusion.written[source] or role(program.kind(op)) is Role.CONTRACTION:
            part = min(own / max(program.elements[source], 1), 1.0)
            stored = 0.5 if fusion.narrow[source] else 1.0
            found[source] = max(fusion.bytes[source], 1.0) * part * stored
        else:
            left += [program.sources[use] for use in program.uses_of(op)]
    return sum(found.values())


def test_operands_are_read_with_all_that_they_are_computed_of() -> None:
    data = gemma.lower(gemma.PRESETS["tiny"]).as_text().encode()
    evaluator = Evaluator(analysed(data), Mesh.parse("a=2"), find("tpu-v5e"))
    program, fusion = evaluator.analysis.program, evaluator.fusion
    unequal = 0
    rows = evaluator.listing.of(FUSIONS)
    for row, (numbers, _) in zip(rows, rows.grouped(), strict=True):
        dots = [dot for number in numbers for dot in fusion.launched[int(number)].contractions]
        for dot, op in zip(row[2], dots, strict=False):
            for operand, use in zip(dot.operands, program.uses_of(op), strict=True):
                value = program.sources[use]
                expected = read_by_walking(program, fusion, value) / max(fusion.bytes[value], 1.0)
                assert operand[2] == expected
                unequal += expected != 1.0
    assert unequal


@given(module=programs())
def test_the_sides_of_every_product(module: Text) -> None:
    program = load(module.module().encode()).program
    sides = product_sides(program)
    assert list(sides) == program.ops_named("stablehlo.dot_general", "stablehlo.dot")
    kinds = {(1, 1, 0): CONTRACTED, (1, 0, 1): LEFT, (0, 1, 1): RIGHT}
    for op, found in sides.items():
        left, right = (set(program.use_names(use).tolist()) for use in program.uses_of(op))
        made = set(program.def_names(program.values_of(op).start).tolist())
        for name, (side, size) in zip(program.factors_of(op), found, strict=True):
            there = (int(name in left), int(name in right), int(name in made))
            assert side == kinds.get(there, BATCH)
            assert size == program.factor_size[name]
