"""Where layers are cut, so that the slowest chunk takes as little as it can.

Each layer is priced as a chunk of its own; what is before the first layer and behind the last one
is part of those. The best cut of n layers into k runs is found by dynamic programming.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from toast.analysis.forms import decode
from toast.pipeline.pipelining.priced import ModulePricer
from toast.request.pipeline_request import PipelineRequest
from toast.stages.cut import Cutting, count_layers, cut_program
from toast.stages.homes import even_cuts
from toast.stages.wiring import Phase


def balanced_cuts(module: bytes, names: Sequence[str], request: PipelineRequest) -> tuple[int, ...]:
    """The first layers of all chunks but the first, for chunks of about equal time."""
    seconds = layer_seconds(module, names, request)
    chunks = request.stages * request.chunks
    even_cuts(len(seconds), chunks)  # refuses more chunks than layers
    return least_longest(seconds, chunks)


def layer_seconds(module: bytes, names: Sequence[str], request: PipelineRequest) -> list[float]:
    """The seconds of each layer for one microbatch, forward and backward, on one chip."""
    loaded = decode(module).module
    layers = count_layers(loaded, names, request.count)
    cutting = Cutting(stages=layers, microbatches=request.count)
    cut = cut_program(decode(module).module, names, cutting)
    pricer = ModulePricer(request.model_copy(update={"mesh": None}))
    found = [0.0] * layers
    with cut.modules[0].context:
        for wiring, one in zip(cut.program.modules, cut.modules, strict=True):
            if wiring.phase in (Phase.FORWARD, Phase.BACKWARD):
                found[wiring.number] += pricer.price(wiring, one).seconds
    return found


def least_longest(seconds: Sequence[float], parts: int) -> tuple[int, ...]:
    """Where to cut a row into so many runs, none empty, that the longest is shortest."""
    count = len(seconds)
    until = [0.0, *itertools.accumulate(seconds)]
    best = list(until)
    cuts: list[tuple[int, ...]] = [()] * (count + 1)
    for part in range(2, parts + 1):
        new = [float("inf")] * (count + 1)
        new_cuts: list[tuple[int, ...]] = [()] * (count + 1)
        for end in range(part, count + 1):
            longest, start = min(
                (max(best[start], until[end] - until[start]), start)
                for start in range(part - 1, end)
            )
            new[end], new_cuts[end] = longest, (*cuts[start], start)
        best, cuts = new, new_cuts
    return cuts[count]
