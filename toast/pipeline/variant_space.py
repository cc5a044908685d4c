"""The variants that a search may choose from: which follow on which, and the problem of each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from toast.analysis.errors import ToastError
from toast.analysis.load import load
from toast.costmodel.hardware.quantities import format_bytes
from toast.pipeline.least_memory import least_bytes, least_bytes_in_parts
from toast.pipeline.mesh_search import MeshSearch, Searched, pressing_into
from toast.pipeline.user_constraints import Demands, demands
from toast.pipeline.variants import Variant, Variants
from toast.search.infeasible import closest_to_fitting
from toast.search.problem import Problem
from toast.search.progress import Control
from toast.search.rewritings import PlannedRewriting, RewritingSearch, RewritingSpace

POLICIES = ("all", "products")
_KEEP = "keep"
_WORK = {_KEEP: 0, "products": 1, "all": 2}
"""How much of a layer each policy makes again: each does what the one before it does."""
MOST_GROUPS = 4
"""Groups of layers that may have a policy of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A variant that was made, and what the user demands of it."""

    module: bytes
    job: MeshSearch
    demands: Demands


@dataclass(kw_only=True)
class VariantSpace:
    """Variants of a program on the mesh where `job` found `whole` for it as it is.

    `layers` and `parts` say whether layers may be recomputed and the batch cut. Where `roomy`, the
    compiler is not expected to press a program into less memory than it wants.
    """

    variants: Variants
    whole: Searched
    job: MeshSearch
    layers: bool
    parts: bool
    roomy: bool = False
    notices: list[str] = field(default_factory=list)
    made: dict[Variant, Made] = field(default_factory=dict)
    refused: dict[Variant, str] = field(default_factory=dict)

    def search(self, base: Variant, control: Control) -> RewritingSearch[Variant]:
        """A search from the program as it is, which is the variant `base`."""
        root = self.root(base, control)
        space = RewritingSpace(
            moves=self.moves,
            problem=self.problem,
            joins=self.joins,
            covers=covers,
            patience=max(3, len(self.moves(root))),
        )
        return RewritingSearch(root, space, self.job.settings(), control)

    def root(self, base: Variant, control: Control) -> PlannedRewriting[Variant]:
        """The program as it is, with the plan that is known of it."""
        problem, found = self._priced(self.whole.problem), self.whole.found
        if self.roomy:
            found = closest_to_fitting(problem, found, control, self.job.settings().threads)
        return PlannedRewriting(rewriting=base, problem=problem, found=found)

    def moves(self, planned: PlannedRewriting[Variant]) -> list[Variant]:
        """The variants that one more decision makes of this one."""
        layers = list(self._other_layers(planned.rewriting)) if self.layers else []
        parts = self._more_parts(planned) if self.parts else []
        return [*parts, *layers]

    def joins(self, variant: Variant) -> tuple[Variant, Variant] | None:
        """Microbatches alone and recomputation alone, of a variant that has both."""
        if variant.microbatches == 1 or not variant.recompute:
            return None
        return replace(variant, recompute=()), replace(variant, microbatches=1)

    def problem(self, variant: Variant) -> Problem | None:
        """Write a variant and analyse it; None where it cannot be had, which is noted."""
        mesh, known = self.whole.mesh, self.made.get(variant)
        if known is not None:
            return self._priced(known.job.problem(mesh, known.demands))
        try:
            module = self.variants.written(variant)
            job = self.job.of_other(load(module))
            demanded = demands(job.source, mesh, job.request.pins, job.request.forbid)
            problem = job.problem(mesh, demanded)
        except ToastError as error:
            self.refused[variant] = error.message
            return None
        self.made[variant] = Made(module=module, job=job, demands=demanded)
        return self._priced(problem)

    def _priced(self, problem: Problem) -> Problem:
        if not self.roomy:
            return problem
        return pressing_into(math.inf, problem)

    def _more_parts(self, planned: PlannedRewriting[Variant]) -> list[Variant]:
        """The next number of parts, or the first that may fit where this one does not.

        At best all but arguments, state and sums is divided by the number of parts.
        """
        now, peak = planned.rewriting.microbatches, planned.cost.peak
        more = [count for count in self._counts if count > now]
        least = min(self._whole_bytes, peak) if more else 0.0
        memory = planned.problem.reward.memory
        may_fit = (count for count in more if least + (peak - least) * now / count <= memory)
        chosen = [next(may_fit, more[-1])] if more else []
        return [replace(planned.rewriting, microbatches=count) for count in chosen]

    def _other_layers(self, variant: Variant) -> Iterator[Variant]:
        """One policy for all groups of layers; then another one for a single group."""
        now = dict(variant.recompute)
        if not now:
            for policy in POLICIES:
                yield self._with(variant, dict.fromkeys(self._groups, policy))
        elif len(self._groups) > 1:
            for name in self._groups[:MOST_GROUPS]:
                for policy in (_KEEP, *POLICIES):
                    if policy != now.get(name, _KEEP):
                        yield self._with(variant, {**now, name: policy})

    def _with(self, variant: Variant, policies: dict[str, str]) -> Variant:
        kept = [name for name in self._groups if policies.get(name, _KEEP) != _KEEP]
        return replace(variant, recompute=tuple((name, policies[name]) for name in kept))

    @cached_property
    def _counts(self) -> list[int]:
        """Numbers of microbatches, rising; none where the batch cannot be cut."""
        try:
            counts = self.variants.counts()
        except ToastError as error:
            self.notices.append(error.message)
            return []
        least = self.least_in_parts()
        if not counts or least <= self.whole.problem.reward.memory:
            return counts
        self.notices.append(
            f"Microbatches were not tried: their sums and the state that these change take "
            f"{format_bytes(round(least))} of each device, however they are laid out."
        )
        return []

    def least_in_parts(self) -> float:
        """Bytes that any number of parts needs of each device."""
        sums = self.variants.cut(1).sums(self.variants.request.accumulate)
        return least_bytes_in_parts(self.job.source.program, sums, self.whole.mesh.devices)

    @cached_property
    def _whole_bytes(self) -> float:
        """Bytes of each device that are as many in any number of parts."""
        given = least_bytes(self.job.source.program, self.whole.mesh.devices)
        return max(given, self.least_in_parts())

    @cached_property
    def _groups(self) -> list[str]:
        found = self.variants.layer_groups()
        if not found:
            self.notices.append("No layer of this program can be recomputed.")
        return found


def covers(one: Variant, other: Variant) -> bool:
    """Whether a variant makes all again that another does, in as many parts.

    More parts are more work, yet may be faster: values of small parts stay on the chip.
    """
    own, theirs = dict(one.recompute), dict(other.recompute)
    again = all(_WORK[own.get(name, _KEEP)] >= _WORK[theirs[name]] for name in theirs)
    return again and one.microbatches == other.microbatches
