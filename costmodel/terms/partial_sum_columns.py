"""Ops with partial sums as columns of the tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from toast.analysis.program import Floats
from toast.costmodel.listing import Listing
from toast.costmodel.program.arrays import flat, floats, ints, starts
from toast.costmodel.terms.partial_sum_rows import LOOKUP, PRODUCT, SEGMENTS


def partial_columns(listing: Listing, widened: bool) -> dict[str, Any]:
    """The columns of `Tables` that sums over devices are priced by.

    Sums behind a loop are of what it carries if `widened`, else of what the op makes.
    """
    rows = listing.partials.rows
    results = [row.results for row in rows]
    together = ints([row.together for row in rows])
    loops = np.repeat(together, [len(row) for row in results])
    return {
        "part_weight": floats(list(rows.values())),
        "part_item_start": starts([row.items for row in rows]),
        "part_item": flat([row.items for row in rows]),
        "part_result_start": starts(results),
        "part_computed": ints([a for row in results for a, _ in row]),
        "part_defined": ints([b for row in results for _, b in row]),
        "part_product": ints([row.maker == PRODUCT for row in rows]),
        "part_lookup": ints([row.maker == LOOKUP for row in rows]),
        "part_segments": ints([row.maker == SEGMENTS for row in rows]),
        "part_cut": ints([row.cut for row in rows]),
        "part_together": together,
        "loop_runs": listing.partials.runs,
        "together": np.flatnonzero(loops >= 0),
        "together_loop": loops[loops >= 0],
        "part_before": ints([row.before for row in rows]),
        "part_batch": ints([row.batch for row in rows]),
        "part_behind": floats([row.behind[0] for row in rows]),
        "part_widened": floats([row.behind[1] if widened else 1.0 for row in rows]),
        "part_passes": _passes(listing),
    }


def _passes(listing: Listing) -> Floats:
    """The mean over the ops of each row of partials."""
    partials = listing.partials
    spent = listing.passes[partials.ops] * partials.trips
    whole = np.array(list(partials.rows.values()))
    return np.bincount(partials.row, weights=spent, minlength=len(whole)) / whole
