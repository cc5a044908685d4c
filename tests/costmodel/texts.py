"""Modules of a few ops as text, and what their states cost, for tests that count by hand."""

from __future__ import annotations

from tests.costmodel.profiles import holding
from tests.modules import analysed, argument_group
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.journal import Entry

TPU, GPU = "tpu-v5e", "a100-40gb"

Dim = tuple[int, int]
"""Number of an argument and of one of its dimensions."""


def tensor(shape: str) -> str:
    """The type of a shape as MLIR writes it: `8x4xf32`."""
    return f"tensor<{shape}>"


def main(arguments: str, lines: list[str], results: str) -> bytes:
    """A module; arguments and results are named shapes such as `x:8x4xf32 w:4x4xf32`."""
    given = [name.split(":") for name in arguments.split()]
    made = [name.split(":") for name in results.split()]
    inputs = ", ".join(f"%{name}: {tensor(shape)}" for name, shape in given)
    types = ", ".join(tensor(shape) for _, shape in made)
    values = ", ".join(f"%{name}" for name, _ in made)
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f"func.func @main({inputs}) -> ({types}) {{\n{body}\n  return {values} : {types}\n}}"
    ).encode()


def product(made: str, left: str, right: str, over: tuple[int, int] = (1, 0)) -> str:
    """`made = left @ right` of named shapes, over one dimension of each."""
    (a, ashape), (b, bshape), (c, cshape) = (x.split(":") for x in (left, right, made))
    return (
        f"%{c} = stablehlo.dot_general %{a}, %{b}, contracting_dims = [{over[0]}] x [{over[1]}]"
        f" : ({tensor(ashape)}, {tensor(bshape)}) -> {tensor(cshape)}"
    )


def maps(op: str, made: str, *sources: str) -> str:
    """An elementwise op on values of one named shape."""
    name, shape = made.split(":")
    operands = ", ".join(f"%{source}" for source in sources)
    return f"%{name} = stablehlo.{op} {operands} : {tensor(shape)}"


def moves(op: str, made: str, source: str, attributes: str = "") -> str:
    """An op from one named shape to another."""
    (name, shape), (old, before) = made.split(":"), source.split(":")
    return f"%{name} = stablehlo.{op} %{old}{attributes} : ({tensor(before)}) -> {tensor(shape)}"


def sums(made: str, source: str, dim: int) -> list[str]:
    """A named shape summed over one dimension."""
    (name, shape), (old, before) = made.split(":"), source.split(":")
    dtype = tensor(shape.split("x")[-1])
    zero = f"%zero_{name} = stablehlo.constant dense<0.0> : {dtype}"
    reduce = f"%{name} = stablehlo.reduce(%{old} init: %zero_{name}) applies stablehlo.add across"
    types = f"({tensor(before)}, {dtype}) -> {tensor(shape)}"
    return [zero, f"{reduce} dimensions = [{dim}] : {types}"]


class Priced:
    """An evaluator of a module, with states given by dimensions of arguments.

    The chip itself holds `buffers` bytes: as many as a TPU has would hold all of a small module.
    Values take the bytes of their elements, where they are not `tiled`.
    """

    def __init__(
        self,
        module: bytes,
        mesh: str,
        device: str = "cpu",
        buffers: int = 0,
        *,
        tiled: bool = False,
    ) -> None:
        profile = holding(device, buffers, tiled)
        self.evaluator = Evaluator(
            analysed(module), Mesh.parse(mesh), find(device), profile=profile
        )

    def state(self, *actions: tuple[Dim, int]) -> tuple[Action, ...]:
        """For each dimension of an argument the axis that shards its colour."""
        analysis = self.evaluator.analysis
        return tuple(
            Action(group=argument_group(analysis, *dim), axis=axis) for dim, axis in actions
        )

    def peak(self, *actions: tuple[Dim, int]) -> float:
        """Peak bytes of a state."""
        return self.evaluator.cost(self.state(*actions)).peak

    def made(self, *actions: tuple[Dim, int]) -> float:
        """Peak bytes of a state but for those of arguments, which may be padded."""
        breakdown = explain(resolve(self.evaluator, self.state(*actions)))
        return breakdown.cost.peak - sum(
            one.bytes for one in breakdown.held if one.why is Entry.BASE
        )

    def sent(self, *actions: tuple[Dim, int]) -> dict[tuple[str, tuple[int, ...]], float]:
        """(kind, axes) -> bytes on the wire of each device."""
        rows = resolve(self.evaluator, self.state(*actions)).totals()
        return {(row.kind.name, row.axes): row.bytes for row in rows}
