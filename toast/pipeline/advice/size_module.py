"""`toast size`: what a program takes on slices of several chips."""

from __future__ import annotations

import time
from collections.abc import Callable

from toast.analysis.analyse import analyse
from toast.analysis.gc_pause import collector_paused
from toast.analysis.load import load
from toast.costmodel.hardware.devices import find
from toast.pipeline.advice.slices import SliceSearch
from toast.pipeline.stages import Stages
from toast.plans.advice import Slice, SliceTable
from toast.request.size_request import SizeRequest
from toast.search.kernel_cache import warm_kernels
from toast.search.progress import Control, Progress

_LOAD, _ANALYSE, _BEGIN = 0.02, 0.05, 0.1


@collector_paused()
def size_module(
    module: bytes,
    request: SizeRequest,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> SliceTable:
    """Plan `module` for every slice of the request; raises `ToastError`.

    Each slice may take its part of the time left; what there was no time for has that as its
    reason.
    """
    start = time.perf_counter()
    devices = [find(name) for name in request.devices]
    stages = Stages(on_progress)
    stages.enter("kernels", 0.01)
    warm_kernels(stages.compiling)
    stages.enter("load", _LOAD)
    source = load(module)
    stages.enter("analyse", _ANALYSE)
    analysis = analyse(source.program)
    stages.enter("search", _BEGIN, 1.0)
    control = Control(on_progress=stages.report, budget=request.budget)
    if cancelled is not None:
        control.cancelled = cancelled
    rows: list[Slice] = []
    whole = len(devices) * len(request.counts)
    for device in devices:
        search = SliceSearch(source, analysis, device, request.plan_request(device.name))
        for count in request.counts:
            control.on_progress(Progress(stage="search", fraction=len(rows) / whole))
            part = control.share(1 / (whole - len(rows)))
            rows.append(search.best(count, part.quiet()))
    return SliceTable(
        slices=sorted(rows, key=_order),
        seconds=round(time.perf_counter() - start, 6),
        warnings=list(source.warnings),
    )


def _order(row: Slice) -> tuple[int, float, int]:
    """What fits by chip-seconds, then what does not fit, then what nobody knows."""
    rank = {True: 0, False: 1, None: 2}[row.fits]
    return rank, row.chip_seconds or 0.0 if row.fits else 0.0, row.devices
