"""A module whose layers are recomputed in the backward pass: one of its variants.

What is written is StableHLO that XLA runs as it is, with the arguments and results of the module
that came in, and makes the same numbers. The module is changed in place, its calls are inlined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxlib.mlir import ir

from toast.analysis.argument_names import argument_names
from toast.analysis.calls import resolve_calls
from toast.analysis.dead_code import sweep
from toast.recompute.directions import Directions
from toast.recompute.find import Finder, Group
from toast.recompute.names import flatten_with_names
from toast.recompute.policy import GroupAccount, Policy
from toast.recompute.scans import Scan
from toast.request.patterns import path


class Recomputer:
    """The groups of layers of one module, outer ones only."""

    def __init__(self, module: ir.Module, names: Sequence[str] | None = None) -> None:
        """`names` are those of the arguments where they came beside the module."""
        self._module = module
        with module.context, ir.Location.unknown():
            self._main = flatten_with_names(resolve_calls(module))
            block = self._main.regions[0].blocks[0]
            paths = map(path, argument_names(self._main, names))
            given = dict(zip(block.arguments, paths, strict=True))
            found = list(Finder(directions=Directions()).groups(block, given))
        self.groups: dict[str, Group] = dict(
            zip(_distinct([g.name for g in found]), found, strict=True)
        )

    def rewrite(self, policies: Mapping[str, Policy]) -> list[GroupAccount]:
        """Recompute the groups named by their policies; what is not named stays as it is."""
        accounts = []
        with self._module.context, ir.Location.unknown():
            # Loops last: they are written anew, and what was read of a block has the old ones.
            for name, group in sorted(
                self.groups.items(), key=lambda one: isinstance(one[1], Scan)
            ):
                policy = policies.get(name, Policy.KEEP)
                if policy != Policy.KEEP:
                    accounts.append(group.rewrite(policy))
            if accounts:
                sweep(self._main.regions[0].blocks[0])
        return accounts


def _distinct(names: Sequence[str]) -> list[str]:
    """Names, a repeated one with its number behind it."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return found
