"""Ops as text, and what is found for them in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from jax.interpreters import mlir
from jaxlib.mlir import ir

from toast.analysis import rules
from toast.analysis.rules import Rule
from toast.analysis.shardcombine.extract import text_of
from toast.analysis.shardcombine.findings import Discovery
from toast.analysis.shardcombine.inprocess import InProcess
from toast.analysis.shardcombine.runner import Request
from toast.analysis.shardcombine.torule import rule_of

SUM = "^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32>"
MAX = SUM.replace("add", "maximum")
RETURN = "stablehlo.return %r : tensor<f32>"


@cache
def runner() -> InProcess:
    """One runner for all tests of a process: starting XLA takes longer than most of them."""
    return InProcess()


class Counting:
    """A runner that counts what it is asked to run."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.closed = 0

    def run(self, request: Request) -> Discovery | None:
        self.requests.append(request)
        return runner().run(request)

    def close(self) -> None:
        self.closed += 1


@contextmanager
def ops_of(body: str, *, functions: str = "") -> Iterator[list[ir.Operation]]:
    """The ops of a `main` with this body, Shardy's rules attached; constants are left out."""
    with mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(f"module {{ func.func @main{body} {functions} }}")
        rules.populate(module)
        block = module.body.operations[0].regions[0].blocks[0]
        skipped = ("func.return", "stablehlo.constant")
        yield [view.operation for view in block.operations if view.operation.name not in skipped]


def signature(operands: list[str]) -> str:
    """`(%0: tensor<..>, ...)` for types like `4x6xf32`."""
    return ", ".join(f"%{index}: tensor<{kind}>" for index, kind in enumerate(operands))


def one_op(op: str, operands: list[str]) -> str:
    """The body of a function that runs `op` on its arguments `%0`, `%1` ..."""
    return f"({signature(operands)}) {{ {op} return }}"


def discovery(op: str, *operands: str, functions: str = "") -> Discovery:
    """What is found for one op, given as text on `%0`, `%1` ..."""
    with ops_of(one_op(op, list(operands)), functions=functions) as ops:
        text = text_of(ops[0])
        assert text is not None
        found = runner().run(Request(name=ops[0].name, text=text))
    assert found is not None
    return found


def strategies(found: Discovery) -> dict[tuple[int, ...], tuple[Any, ...]]:
    """Findings by the dimensions they split: how each result combines, and where."""
    return {
        finding.dims: tuple(
            f"{c.how.value} {c.dim}" if c.dim >= 0 else c.reduce for c in finding.combines
        )
        for finding in found.findings
    }


def shardy_rule(op: ir.Operation) -> Rule:
    """The rule that Shardy attached to `op`."""
    return rules.RuleReader().read(op.attributes[rules.RULE])


def found_rule(op: ir.Operation) -> Rule:
    """The rule that is found for `op`, nothing cached."""
    text = text_of(op)
    assert text is not None
    found = runner().run(Request(name=op.name, text=text))
    assert found is not None
    return rule_of(found, _shapes(op.operands), _shapes(op.results))


def _shapes(values: Any) -> list[tuple[int, ...]]:
    return [tuple(ir.RankedTensorType(value.type).shape) for value in values]


def files_in(folder: Path) -> list[Path]:
    """All files under `folder`."""
    return sorted(path for path in folder.rglob("*") if path.is_file())
