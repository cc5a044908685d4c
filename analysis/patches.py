"""Convolutions whose windows do not overlap: an image cut into patches."""

from __future__ import annotations

from dataclasses import replace

from toast.analysis.program import FactorKind
from toast.analysis.rules import Rule
from toast.analysis.windows import Windows


def patches_outside(rule: Rule, windows: Windows) -> Rule:
    """The rule with the number of a patch before the place in it, for windows that are patches.

    That is how the elements lie. Shardy puts the larger of the two factors first (for an image of
    224 pixels in patches of 16 the place in the patch), as if the first rows of all patches were
    the first rows of the image.
    """
    dims, kinds = list(rule.operands[0]), list(rule.kinds)
    made = {factor for factors in rule.results[0] for factor in factors}
    for dim, (window, _) in windows.items():
        big = [factor for factor in dims[dim] if rule.sizes[factor] > 1]
        if window is None or window.stride < window.reach or len(big) != 2:
            continue
        place, patch = big
        if patch in made and place not in made:
            dims[dim] = (patch, place)
            kinds[patch], kinds[place] = FactorKind.HALO, FactorKind.BLOCKED
    return replace(rule, operands=(tuple(dims), *rule.operands[1:]), kinds=tuple(kinds))
