"""The cost model with one thing left out: each pass, and each constant that can be made neutral."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toast.costmodel.compilers.profile import CompilerProfile
from toast.costmodel.passes.registry import PASSES, without

AS_IS = "as it is"
NEVER = 1e18

NEUTRAL: Mapping[str, Mapping[str, float]] = {
    "fusion": {
        "operand_cost": 1.0,
        "element_cost": 1.0,
        "reducing_cost": 0.0,
        "narrowing_cost": 1.0,
        "stores_repeated": False,
        "walks_broadcasts": False,
        "packs_comparisons": False,
    },
    "reduction_fusion": {"joins_passes": False},
    "dot_tiling": {"least_rows": 1, "launch": 1.0},
    "convolution_tiling": {"hands_over": False},
    "all_reduce_combiner": {"max_bytes": NEVER},
    "constant_folding": {"most_elements": 0},
    "layout_assignment": {
        "column_bytes": 1,
        "parts_groups": False,
        "lays_matrices": False,
        "turns_tables": False,
        "turns_added": False,
        "copies_parts": False,
        "most_padding": NEVER,
    },
    "multi_output_fusion": {"merges_readers": False},
    "space_to_batch": {"forms": 0, "blocking_cost": 1.0},
    "memory_space_assignment": {
        "streamed_from": 0.0,
        "stay_ratio": NEVER,
        "table_bytes": 0.0,
    },
    "rematerialization": {"least_bytes": 0},
}
"""By pass the constants that have a value at which they say nothing, and that value.

Rates and factors are then 1, limits are never or always reached, and reductions take no longer than
other fusions do. What only switches a pass on is left out with the pass.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A name, and the section and key that are neutral; of a whole pass no key."""

    name: str
    section: str = ""
    key: str = ""

    def of(self, profile: CompilerProfile) -> CompilerProfile:
        """What the compiler is then taken to do."""
        if not self.section:
            return profile
        if not self.key:
            return without(profile, [self.section])
        return profile.changed({self.section: {self.key: NEUTRAL[self.section][self.key]}})


def variations() -> list[Variation]:
    """The model as it is, each pass left out, then each constant made neutral."""
    found = [Variation(name=AS_IS)]
    found += [Variation(name=name, section=name) for name in PASSES]
    for section, keys in NEUTRAL.items():
        found += [Variation(name=f"{section}.{key}", section=section, key=key) for key in keys]
    return found
