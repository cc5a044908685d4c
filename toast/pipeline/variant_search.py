"""Which rewriting of a program to plan: layers recomputed, its batch in parts, or as it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from toast.costmodel.hardware.quantities import format_bytes
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.least_memory import least_bytes
from toast.pipeline.mesh_search import MeshAnswer, MeshSearch, Searched, pressing_into
from toast.pipeline.stages import Stages
from toast.pipeline.variant_rows import is_of, rows_of, with_cost
from toast.pipeline.variant_space import Made, VariantSpace
from toast.pipeline.variants import Variant, Variants
from toast.plans.recomputation import RecomputedPlan
from toast.plans.time import RewritingTried, TimeAxes
from toast.search.progress import Control
from toast.search.rewritings import PlannedRewriting

WHOLE_SHARE, VARIANTS_SHARE = 0.4, 0.9
"""Of the time that is left: for the program as it is, and for its variants."""
_VARIANTS = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The variant that is planned: its module, its search, what that found, and the record."""

    variant: Variant
    module: bytes
    job: MeshSearch
    answer: MeshAnswer
    time: TimeAxes | None
    recompute: RecomputedPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSearch:
    """Plans a program as it is, and then rewritten in the ways that the request asks for.

    `base` is the variant that `module` is and that `whole` searches.
    """

    variants: Variants
    base: Variant
    module: bytes
    whole: MeshSearch
    stages: Stages

    def run(self, meshes: Sequence[Mesh]) -> Chosen:
        """The variant of least time among those that fit, else the one that comes closest."""
        control = self.whole.control()
        first = self.whole.find(meshes, control.share(WHOLE_SHARE))
        space = self._space(first)
        if space.layers or space.parts:
            self.stages.enter("variants", _VARIANTS)
        best, rows = self._searched(space, control)
        does = "is faster" if best.badness()[0] <= 0 else "comes closer to fitting"
        if space.roomy and best.badness()[0] > 0:
            space.roomy = False
            if first.badness()[0] > 0:
                best, rows = self._searched(space, control)
            else:
                best, does = space.root(self.base, control), "has room for all"
        notices = self.whole.notices
        notices += space.notices
        if best.rewriting == self.base:
            notices += _in_vain(rows, does)
        return self._chosen(first, best, space, rows, control)

    def _searched(
        self, space: VariantSpace, control: Control
    ) -> tuple[PlannedRewriting[Variant], list[RewritingTried]]:
        """The best of the variants, and all that were tried."""
        search = space.search(self.base, control.share(VARIANTS_SHARE))
        best = search.run()
        return best, rows_of(search.planned, space.refused)

    def _space(self, first: Searched) -> VariantSpace:
        """What is tried: what the request asks for; by `fit` all there is, where nothing fits.

        What fits only where the compiler presses it may be refused, so `fit` looks for more.
        """
        request = self.variants.request
        wanted = request.fit and first.lacks_room and self._may_fit(first)
        layers = "auto" in request.recompute or (wanted and "none" not in request.recompute)
        parts = request.microbatches == "auto" or wanted
        return VariantSpace(
            variants=self.variants,
            whole=first,
            job=self.whole,
            layers=layers and not self.base.recompute,
            parts=parts and self.base.microbatches == 1,
            roomy=wanted and math.isfinite(first.problem.evaluator.pressed_into),
        )

    def _may_fit(self, first: Searched) -> bool:
        """Whether the arguments leave room for anything; the user is told where they do not."""
        least = least_bytes(self.whole.source.program, first.mesh.devices)
        if least <= first.problem.reward.memory:
            return True
        self.whole.notices.append(
            "No rewriting was tried: however they are laid out, arguments and results alone take "
            f"{format_bytes(round(least))} of each device."
        )
        return False

    def _chosen(
        self,
        first: Searched,
        best: PlannedRewriting[Variant],
        space: VariantSpace,
        rows: Sequence[RewritingTried],
        control: Control,
    ) -> Chosen:
        variant = best.rewriting
        if variant == self.base:
            made = Made(module=self.module, job=self.whole, demands=first.demands)
        else:
            made = space.made[variant]
        known = replace(first, problem=best.problem, demands=made.demands, found=best.found)
        answer = self._finished(made.job, known, first.problem.evaluator.pressed_into, control)
        rows = [
            with_cost(row, answer.best.cost, answer.best.badness()[0] <= 0).model_copy(
                update={"chosen": True}
            )
            if is_of(row, variant)
            else row
            for row in rows
        ]
        return Chosen(
            variant=variant,
            module=made.module,
            job=made.job,
            answer=answer,
            time=self.variants.record(variant, self.variants.arguments, rows),
            recompute=self.variants.record_layers(variant, rows),
        )

    def _finished(
        self, job: MeshSearch, known: Searched, memory: float, control: Control
    ) -> MeshAnswer:
        """What comes after the search of the chosen variant, which the compiler presses again."""
        job.stages, job.tried = self.stages, self.whole.tried
        job.notices = self.whole.notices
        answer = job.finish(known, control)
        best = replace(answer.best, problem=pressing_into(memory, answer.best.problem))
        return replace(answer, best=best)


def _in_vain(rows: Sequence[RewritingTried], does: str) -> Iterator[str]:
    """That rewritings were tried, and the step as it is remains the best."""
    others = sum(row.step_seconds is not None for row in rows) - 1
    if others > 0:
        tried = (
            f"None of the {others} rewritings that were" if others > 1 else "No rewriting that was"
        )
        yield f"{tried} tried {does}; the step stays as it is."


def asked_variant(variants: Variants) -> Variant:
    """The variant that the request asks for; what it leaves open is as the program has it."""
    count = variants.request.microbatches
    parts = count if isinstance(count, int) else 1
    return Variant(microbatches=parts, recompute=variants.policies())


def given_variant(
    variants: Variants,
    variant: Variant,
    job_of: Callable[[bytes, Stages], MeshSearch],
    stages: Stages,
) -> tuple[bytes, MeshSearch]:
    """The module rewritten, and its search.

    Nobody reads the module as it came but who rewrites it.
    """
    stages.enter("variants", _REWRITING)
    module = variants.written(variant)
    stages.enter("load", _LOAD)
    return module, job_of(module, stages)


_REWRITING, _LOAD = 0.05, 0.15
