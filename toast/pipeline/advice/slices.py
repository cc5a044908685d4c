"""How a program does on so many chips of one kind: the best plan on the best of a few meshes."""

from __future__ import annotations

from collections.abc import Sequence

from toast.analysis.analyse import Analysis
from toast.analysis.errors import InvalidMesh, InvalidRequest
from toast.analysis.load import Source
from toast.costmodel.evaluator import Cost, Evaluator
from toast.costmodel.hardware.devices import Device
from toast.costmodel.hardware.quantities import format_bytes
from toast.costmodel.network.auto_mesh import MAX_DEVICES, meshes
from toast.costmodel.network.mesh import Axis, Mesh
from toast.pipeline.mesh_search import MeshSearch, Searched
from toast.pipeline.stages import Stages
from toast.pipeline.user_constraints import Demands
from toast.plans.advice import Slice
from toast.request.request import PlanRequest
from toast.search.progress import Control

ROLLOUTS = 200
"""Of the search on each mesh; beams and local searches come on top."""
MOST_MESHES = 4
"""Meshes tried of each number of chips: the most even ones."""
_STALLED = 2
"""Doublings that gain nothing, after which no more are tried."""
_AXES = {2: 0, 3: 1, 1: 2}
"""Two axes come first: what fits at all mostly fits with them."""


class SliceSearch:
    """Plans one program for slices of one chip; most tables are made once for all of them."""

    def __init__(
        self,
        source: Source,
        analysis: Analysis,
        device: Device,
        request: PlanRequest,
        evaluator: Evaluator | None = None,
    ) -> None:
        quick = {"rollouts": ROLLOUTS, "budget": None, "prove": False, "refine": False}
        asked = request.model_copy(update=quick | {"decisions": None, "device": device.name})
        free = asked.model_copy(update={"pins": (), "forbid": ()})
        self._device = device
        self._memory = request.memory or device.plannable_bytes
        self._asked, self._free = (
            MeshSearch(
                source=source,
                analysis=analysis,
                device=device,
                request=one,
                stages=Stages(None),
                evaluator=evaluator,
            )
            for one in (asked, free)
        )
        self._whole: Cost | None = None

    def on_mesh(self, mesh: Mesh, control: Control) -> Slice:
        """The best plan on one mesh, under the layouts that the request demands."""
        bare = Mesh(axes=tuple(Axis(name=axis.name, size=axis.size) for axis in mesh.axes))
        return self._best_of([bare], self._asked, control, first_fit=False)

    def best(self, devices: int, control: Control, *, first_fit: bool = False) -> Slice:
        """The best plan of those on a few meshes; with `first_fit` the first one that fits.

        Meshes are made for the purpose, so layouts that the request demands are left out.
        """
        if devices == 1:
            return self._row(1, "one chip", self.unsharded)
        least = self.unsharded.peak / devices
        if least > self._memory + self._device.on_chip_bytes:
            said = f"takes at least {format_bytes(least)} a chip"
            return self._row(devices, fits=False, reason=said)
        try:
            found = meshes(f"auto:{devices}", self._device)
        except InvalidMesh as error:
            return self._row(devices, reason=error.message)
        return self._best_of(_few(found), self._free, control, first_fit=first_fit)

    def fewest(self, devices: int, control: Control) -> list[Slice]:
        """Slices by rising number of chips, from the largest that does not fit to one that does.

        The number is doubled from `devices` on, or halved where that many fit.
        """
        rows = {devices: self._quick(devices, control)}
        if rows[devices].fits:
            count = devices
            while rows[count].fits and count % 2 == 0:
                count //= 2
                rows[count] = self._quick(count, control)
        else:
            count = devices
            while self._worth_more(rows) and count * 2 <= MAX_DEVICES:
                count *= 2
                rows[count] = self._quick(count, control)
        return [rows[count] for count in sorted(rows)]

    @property
    def unsharded(self) -> Cost:
        """What one chip takes."""
        if self._whole is None:
            one = Mesh(axes=(Axis(name="d0", size=1),))
            self._whole = self._free.problem(one, Demands()).evaluator.cost(())
        return self._whole

    def _worth_more(self, rows: dict[int, Slice]) -> bool:
        """Whether more chips may fit: the last row does not, and its peak is still falling."""
        *before, last = (rows[count] for count in sorted(rows))
        if last.fits is not False:
            return False
        peaks = [row.peak_bytes for row in before[-2:] if row.peak_bytes is not None]
        return last.peak_bytes is None or len(peaks) < _STALLED or last.peak_bytes < min(peaks)

    def _quick(self, devices: int, control: Control) -> Slice:
        return self.best(devices, control.share(0.5), first_fit=True)

    def _best_of(
        self, found: Sequence[Mesh], job: MeshSearch, control: Control, *, first_fit: bool
    ) -> Slice:
        best: Searched | None = None
        reason = "there was no time for it"
        for number, mesh in enumerate(found):
            if control.stop_reason() is not None:
                break
            try:
                searched = job.searched(mesh, control.share(1 / (len(found) - number)))
            except (InvalidMesh, InvalidRequest) as error:
                reason = error.message
                continue
            if best is None or searched.badness() < best.badness():
                best = searched
            if first_fit and best.badness()[0] <= 0:
                break
        if best is None:
            return self._row(found[0].devices, reason=reason)
        return self._row(best.mesh.devices, str(best.mesh), best.cost)

    def _row(
        self,
        devices: int,
        mesh: str = "",
        cost: Cost | None = None,
        *,
        fits: bool | None = None,
        reason: str = "",
    ) -> Slice:
        row = Slice(
            device=self._device.name,
            devices=devices,
            memory_bytes=self._memory,
            fits=fits,
            reason=reason,
        )
        if cost is None:
            return row
        return row.model_copy(
            update={
                "mesh": mesh,
                "fits": cost.peak <= self._memory,
                "step_seconds": cost.seconds,
                "peak_bytes": round(cost.peak),
                "chip_seconds": cost.seconds * devices,
            }
        )


def _few(found: Sequence[Mesh]) -> list[Mesh]:
    """The most even meshes: one of each number of axes before a second one of any."""
    ranks: dict[int, int] = {}
    keyed = []
    for mesh in found:
        axes = len(mesh.axes)
        keyed.append(((ranks.setdefault(axes, 0), _AXES[axes]), mesh))
        ranks[axes] += 1
    return [mesh for _, mesh in sorted(keyed, key=lambda pair: pair[0])][:MOST_MESHES]
