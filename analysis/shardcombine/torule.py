"""From findings to a sharding rule: factors, as Shardy has them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from toast.analysis.program import FactorKind
from toast.analysis.rules import Dims, Rule, Shape
from toast.analysis.shardcombine.findings import Discovery, Finding, How


def rule_of(
    discovery: Discovery,
    operands: list[Shape],
    results: list[Shape],
    counts: Mapping[str, int] | None = None,
) -> Rule:
    """The rule for operands and results of these shapes; `counts` are the op's counts of groups.

    An id becomes a factor. Where its dimensions differ in size (a reshape), the factor is what
    they have in common and the rest of each is a minor factor that nobody can split. Dimensions
    without an id get a blocked factor of their own, as do those that are gathered in blocks: local
    results of such a split lie interleaved.
    """
    return _Maker(operands, results, counts or {}).make(discovery)


class _Maker:
    def __init__(
        self, operands: list[Shape], results: list[Shape], counts: Mapping[str, int]
    ) -> None:
        self._counts = counts
        self._operands = len(operands)
        self._shapes = [*operands, *results]
        self._dims: list[list[tuple[int, ...]]] = [[()] * len(shape) for shape in self._shapes]
        self._sizes: list[int] = []
        self._kinds: list[FactorKind] = []

    def make(self, discovery: Discovery) -> Rule:
        for finding in discovery.findings:
            self._add(finding)
        for tensor, shape in enumerate(self._shapes):
            for dim, size in enumerate(shape):
                if not self._dims[tensor][dim]:
                    self._dims[tensor][dim] = (self._factor(size, FactorKind.BLOCKED),)
        tensors: list[Dims] = [tuple(dims) for dims in self._dims]
        return Rule(
            sizes=tuple(self._sizes),
            kinds=tuple(self._kinds),
            operands=tuple(tensors[: self._operands]),
            results=tuple(tensors[self._operands :]),
        )

    def _add(self, finding: Finding) -> None:
        places = [(operand, dim) for operand, dim in enumerate(finding.dims) if dim >= 0]
        places += [
            (self._operands + result, combine.dim)
            for result, combine in enumerate(finding.combines)
            if combine.dim >= 0
        ]
        sizes = [self._shapes[tensor][dim] for tensor, dim in places]
        kind = kind_of(finding)
        whole = kind in (FactorKind.HALO, FactorKind.BLOCKED) or finding.halo != (0, 0)
        groups = [self._counts[finding.divided]] if finding.divided in self._counts else []
        size = sizes[0] if whole else math.gcd(*sizes, *groups)
        factor = self._factor(size, kind)
        for (tensor, dim), extent in zip(places, sizes, strict=True):
            rest = () if whole or extent == size else (extent // size,)
            minor = tuple(self._factor(part, FactorKind.BLOCKED) for part in rest)
            self._dims[tensor][dim] = (factor, *minor)

    def _factor(self, size: int, kind: FactorKind) -> int:
        self._sizes.append(size)
        self._kinds.append(kind)
        return len(self._sizes) - 1


def kind_of(finding: Finding) -> FactorKind:
    """What splitting the id means for the op."""
    hows = {combine.how for combine in finding.combines}
    if hows == {How.REDUCE}:
        return FactorKind.REDUCTION
    if How.BLOCKS in hows:
        return FactorKind.BLOCKED
    if finding.halo != (0, 0) or How.HALO in hows:
        return FactorKind.HALO
    return FactorKind.PARALLEL
