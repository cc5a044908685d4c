"""Rules compared: what splits what, and what that means, whatever the factors are called."""

from __future__ import annotations

from toast.analysis.program import FactorKind
from toast.analysis.rules import Rule, major

Place = tuple[int, int]
"""Tensor (operands, then results) and dimension."""
Split = tuple[FactorKind, frozenset[Place]]
"""A factor that can be split: its kind and the dimensions that it is the major factor of."""


def splits(rule: Rule) -> frozenset[Split]:
    """All ways to split an op. Factors of size 1 and blocked ones are none."""
    places: dict[int, set[Place]] = {}
    for tensor, dims in enumerate(rule.operands + rule.results):
        for dim, factors in enumerate(dims):
            places.setdefault(major(rule.sizes, factors), set()).add((tensor, dim))
    return frozenset(
        (rule.kinds[factor], frozenset(found))
        for factor, found in places.items()
        if factor >= 0 and rule.kinds[factor] is not FactorKind.BLOCKED
    )
