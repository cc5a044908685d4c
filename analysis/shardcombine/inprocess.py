"""Discovery in this process. An op that makes XLA abort takes the process along."""

from __future__ import annotations

from jax.interpreters import mlir
from jaxlib.mlir import ir

from toast.analysis.shardcombine.findings import Discovery
from toast.analysis.shardcombine.lab import Lab
from toast.analysis.shardcombine.opcopy import parse
from toast.analysis.shardcombine.runner import Request
from toast.analysis.shardcombine.search import Search
from toast.analysis.shardcombine.shrink import shrink


class InProcess:
    """A runner in this process. Ops that shrink to the same small op are searched once."""

    def __init__(self) -> None:
        self.lab = Lab()
        self._context = mlir.make_ir_context()
        self._known: dict[str, Discovery | None] = {}

    def run(self, request: Request) -> Discovery | None:
        """What is found for the op, None when it cannot be run."""
        with self._context, ir.Location.unknown():
            op = parse(request.text)
            small = None if op is None else shrink(op)
            if small is None:
                return None
            text = small.module.operation.get_asm(print_generic_op_form=True)
            if text not in self._known:
                self._known[text] = Search(self.lab, small, request.hints).run()
            return self._known[text]

    def close(self) -> None:
        """Forget nothing: there is no process to end."""
