"""Reductions that a TPU computes beside what they read, in one kernel with several results.

A reduction of what a matrix product makes runs while its blocks are still on the chip. So does one
that needs the result of another over the same rows, as the sum of a softmax needs its maximum, if
whole rows fit there; XLA does so for products of 16 bits that are widened behind. Reductions of
one stored value share a pass over it.
"""

from __future__ import annotations

import math

from analysis.program import Program
from analysis.types import itemsize
from costmodel.kernelmerge import Kernel
from costmodel.roles import Role, role

LONGEST_ROW = 8192
"""Elements of a row that a kernel keeps on the chip until the whole of it is reduced."""
LANES = 128
"""Rows that a TPU's vector unit reduces side by side."""


def merge_reductions(program: Program, kernels: list[Kernel]) -> list[Kernel]:
    """Each reduction that reads a product's result, or what one before it reads, in its kernel."""
    return _Reductions(program, kernels).run()


class _Reductions:
    def __init__(self, program: Program, kernels: list[Kernel]) -> None:
        self._program = program
        self._kernels: list[Kernel | None] = list(kernels)
        self._kernel_of = {op: n for n, kernel in enumerate(kernels) for op in kernel.ops}
        self._passes: dict[int, int] = {}

    def run(self) -> list[Kernel]:
        for number, kernel in enumerate(self._kernels):
            if kernel is not None and self._is_reduction(kernel):
                self._merge(number, kernel)
        return [kernel for kernel in self._kernels if kernel is not None]

    def _is_reduction(self, kernel: Kernel) -> bool:
        roles = {role(self._program.kind(op)) for op in kernel.ops}
        return roles == {Role.REDUCE} and not kernel.contractions

    def _merge(self, number: int, kernel: Kernel) -> None:
        """Into the product that makes what it reads, or else into an earlier pass over that."""
        source = self._reduced_value(kernel)
        if source is None:
            return
        maker = self._kernel_of.get(self._program.makers[source])
        for host in (maker, self._passes.get(source)):
            if host is not None and host != number and self._fits(host, kernel, source):
                self._join(host, number)
                return
        self._passes.setdefault(source, number)

    def _reduced_value(self, kernel: Kernel) -> int | None:
        """The stored value of which a reduction reads every element, one at a time."""
        program = self._program
        first = program.sources[program.op_uses[kernel.ops[0]]]
        values = [program.sources[use] for use in kernel.reads]
        return next((value for value in values if self._size(value) == self._size(first)), None)

    def _fits(self, host: int, kernel: Kernel, source: int) -> bool:
        """Whether all else that it reads is there before the host runs, or is made in its rows."""
        program, into = self._program, self._kernels[host]
        if into is None or program.op_trips[into.ops[0]] != program.op_trips[kernel.ops[0]]:
            return False
        if not into.contractions and not self._is_reduction(into):
            return False
        makers = {program.makers[program.sources[use]] for use in kernel.reads}
        makers.discard(program.makers[source])
        inside = makers & set(into.ops)
        if inside and not (into.contractions and self._keeps_rows(into, kernel, source)):
            return False
        return max(makers - inside, default=-1) < min(into.ops)

    def _keeps_rows(self, host: Kernel, kernel: Kernel, source: int) -> bool:
        """Whether rows stay until they are reduced: short ones, that fill the lanes."""
        program = self._program
        result = program.values_of(kernel.ops[0])[0]
        row = self._size(source) / self._size(result)
        made = [program.values_of(dot)[0] for dot in host.contractions]
        narrow = all(self._width(value) < self._width(source) for value in made)
        side = program.shape(result)[-1] if program.shape(result) else 1
        return narrow and row <= LONGEST_ROW and side >= LANES

    def _join(self, host: int, number: int) -> None:
        into, kernel = self._kernels[host], self._kernels[number]
        assert into is not None
        assert kernel is not None
        program, ops = self._program, into.ops + kernel.ops
        inside = {value for op in ops for value in program.values_of(op)}
        reads: dict[int, int] = {}
        for use in into.reads + kernel.reads:
            reads.setdefault(program.sources[use], use)
        kept = tuple(sorted(use for value, use in reads.items() if value not in inside))
        self._kernels[host] = Kernel(ops=ops, reads=kept, contractions=into.contractions)
        self._kernels[number] = None
        for op in kernel.ops:
            self._kernel_of[op] = host

    def _size(self, value: int) -> int:
        return math.prod(self._program.shape(value))

    def _width(self, value: int) -> float:
        return itemsize(self._program.dtype(value))
