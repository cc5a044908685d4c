"""Small programs that tests of every room share."""

from __future__ import annotations

from pathlib import Path

from toast.analysis.analyse import Analysis, analyse
from toast.analysis.load import load
from toast.analysis.program import Program
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh

DATA = Path(__file__).parent / "data"


def text(name: str) -> bytes:
    """The text of `tests/data/NAME.mlir`."""
    return (DATA / f"{name}.mlir").read_bytes()


def analysed(data: bytes) -> Analysis:
    """The analysis of a module."""
    return analyse(load(data).program)


def program_of(body: str) -> Program:
    """The program of a module with the functions in `body`."""
    return load(body.encode()).program


def evaluator_of(data: bytes, mesh: str, device: str = "cpu") -> Evaluator:
    """An evaluator of a module on a mesh of the round-numbered test device."""
    return Evaluator(analysed(data), Mesh.parse(mesh), find(device))


def value_named(program: Program, kind: str, nth: int = 0) -> int:
    """The first value that the nth op of a kind defines."""
    ops = [op for op in range(program.ops) if program.kind(op) == kind]
    return program.values_of(ops[nth]).start


def colours_of(analysis: Analysis, value: int) -> list[int]:
    """The colour of each dimension of a value."""
    names = analysis.program.def_names(value)
    return [int(analysis.colours.colour[name]) if name >= 0 else -1 for name in names]


def argument_group(analysis: Analysis, argument: int, dim: int) -> int:
    """The colour group of a dimension of an argument."""
    colours = colours_of(analysis, analysis.program.arguments[argument].value)
    return int(analysis.groups.of_colour[colours[dim]])
