"""The step rewritten so that it fits the chips at hand: its batch in parts, layers recomputed."""

from __future__ import annotations

from toast.pipeline.mesh_search import MeshSearch, Searched
from toast.pipeline.variant_rows import is_of, rows_of
from toast.pipeline.variant_space import VariantSpace
from toast.pipeline.variants import Variant, Variants
from toast.plans.time import RewritingTried
from toast.search.progress import Control


def rewritings(
    module: bytes, job: MeshSearch, best: Searched, control: Control
) -> tuple[list[RewritingTried], list[str]]:
    """Rewritings that were planned, the best one chosen, and why others could not be had.

    It is the search that `--fit` does, with less time, and without the step as it is.
    """
    request = job.request
    space = VariantSpace(
        variants=Variants(module=module, request=request, arguments=job.source.program.arguments),
        whole=best,
        job=job,
        layers=not request.recompute,
        parts=request.microbatches is None,
    )
    search = space.search(Variant(), control)
    found = search.run().rewriting
    rows = rows_of(search.planned[1:], space.refused)
    chosen = [row.model_copy(update={"chosen": is_of(row, found)}) for row in rows]
    return chosen, space.notices
