"""What would fit where a plan does not, within a budget of seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from toast.costmodel.explain import PriceBreakdown
from toast.costmodel.hardware.devices import Device, catalogue
from toast.costmodel.journal import Entry
from toast.costmodel.network.auto_mesh import is_auto
from toast.pipeline.advice.batches import BatchSizes, batch_of, largest_batch
from toast.pipeline.advice.rewritings import rewritings
from toast.pipeline.advice.slices import SliceSearch
from toast.pipeline.mesh_search import MeshSearch, Searched
from toast.plans.advice import Advice, LargestBatch, Slice
from toast.plans.time import RewritingTried
from toast.search.progress import Control, Progress

SECONDS = 10.0
"""What all of it may take; a step that has begun, such as reading a large module, is finished."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A plan that does not fit: the module, the job, and what was found."""

    module: bytes
    job: MeshSearch
    best: Searched
    terms: PriceBreakdown


@dataclass(slots=True)
class Adviser:
    """Asks one question after the other while there is time."""

    misfit: Misfit
    control: Control
    left_out: list[str] = field(default_factory=list)

    def advice(self) -> Advice:
        """The step rewritten for these chips; then other batches, more chips, other chips."""
        rewritings = self._rewritings()
        batch = self._batch()
        chips = self._ask("more chips", 0.5, self._more) or []
        others = self._ask("other chips", 1.0, self._elsewhere) or []
        fitting = [row.devices for row in chips if row.fits]
        return Advice(
            slices=[*chips, *others],
            fewest=min(fitting, default=None),
            batch=batch,
            rewritings=rewritings,
            left_out=self.left_out,
        )

    def _ask(self, what: str, share: float, question: Callable[[Control], T]) -> T | None:
        """The answer to a question that may take its share of the time left."""
        budget, elapsed = self.control.budget or SECONDS, self.control.elapsed()
        if self.control.stop_reason() is not None or budget - elapsed < least_seconds(
            self.misfit.job
        ):
            self.left_out.append(f"{what}: there was no time")
            return None
        self.control.on_progress(Progress(stage="advice", fraction=min(1.0, elapsed / budget)))
        return question(self.control.share(share).quiet())

    def _rewritings(self) -> list[RewritingTried]:
        """The step with its batch in parts, with layers recomputed, where nobody tried that yet."""
        misfit, request = self.misfit, self.misfit.job.request
        if request.fit or request.microbatches == "auto" or "auto" in request.recompute:
            self.left_out.append("rewritings: those that the request asks for were tried")
            return []
        found = self._ask(
            "rewritings",
            0.4,
            lambda control: rewritings(misfit.module, misfit.job, misfit.best, control),
        )
        rows, notices = found or ([], [])
        self.left_out += [f"rewritings: {notice.rstrip('.')}" for notice in notices]
        return rows

    def _batch(self) -> LargestBatch | None:
        """The largest batch."""
        misfit = self.misfit
        batch = batch_of(misfit.best.problem.evaluator, misfit.best.found)
        if batch is None or batch.size <= 1:
            self.left_out.append("batch: no argument is told apart as one")
            return None
        sizes = BatchSizes.of(misfit.module, misfit.job, misfit.best, batch)
        held = sum(one.bytes for one in misfit.terms.alive if one.why == Entry.BASE)
        largest = self._ask("batch", 0.5, lambda control: largest_batch(sizes, held, control))
        if sizes.why_not:
            self.left_out.append(f"batch: {sizes.why_not}")
            return None
        return largest

    def _more(self, control: Control) -> list[Slice]:
        """More of the same chips."""
        misfit = self.misfit
        search = self._slices(misfit.job.device, misfit.job.request.memory)
        return search.fewest(misfit.best.mesh.devices, control)

    def _elsewhere(self, control: Control) -> list[Slice]:
        """As many of each accelerator that has more memory, on the same mesh."""
        misfit, found = self.misfit, list[Slice]()
        memory = misfit.best.problem.reward.memory
        own = misfit.job.device
        devices = [
            one
            for one in catalogue().values()
            if one.platform != "cpu" and self._room(one) > memory and one.name != own.name
        ]
        peak = misfit.best.cost.peak  # what the plan takes here it takes there, more or less
        devices.sort(key=lambda one: (self._room(one) < peak, one.plannable_bytes))
        for number, device in enumerate(devices):
            if control.stop_reason() is not None:
                names = ", ".join(one.name for one in devices[number:])
                self.left_out.append(f"other chips: there was no time for {names}")
                break
            part = control.share(1 / (len(devices) - number))
            found.append(self._on_other(device, part))
        return found

    def _room(self, device: Device) -> int:
        """What a plan may take on another chip: of its memory the part that the request gives."""
        given, own = self.misfit.job.request.memory, self.misfit.job.device
        share = 1.0 if given is None else min(1.0, given / own.plannable_bytes)
        return int(device.plannable_bytes * share)

    def _on_other(self, device: Device, control: Control) -> Slice:
        search, best = self._slices(device, self._room(device)), self.misfit.best
        if is_auto(self.misfit.job.request.mesh):
            return search.best(best.mesh.devices, control, first_fit=True)
        return search.on_mesh(best.mesh, control)

    def _slices(self, device: Device, memory: int | None) -> SliceSearch:
        job = self.misfit.job
        request = job.request.model_copy(update={"memory": memory})
        own = device is job.device
        return SliceSearch(
            job.source, job.analysis, device, request, job.evaluator if own else None
        )


def least_seconds(job: MeshSearch) -> float:
    """What an answer takes at least: what it took to read the program and to make its tables."""
    return sum(
        seconds
        for stage, seconds in job.stages.until_now(job.source).items()
        if stage.startswith("load.") or stage in ("analyse", "tables")
    )


def advise(misfit: Misfit, control: Control) -> Advice:
    """What would fit; what there is no time for is named."""
    return Adviser(misfit, control).advice()
