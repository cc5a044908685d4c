"""From bytes to a `Program`, with what is needed to write the module back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from toast.analysis import rules
from toast.analysis.facts import Facts, take_facts
from toast.analysis.flatten import flatten
from toast.analysis.forms import Loaded, decode
from toast.analysis.gc_pause import collector_paused
from toast.analysis.program import Program
from toast.analysis.types import check_static
from toast.analysis.walk import Walk


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A loaded module: the arrays, the flattened MLIR behind them, and op number -> operation.

    `places[op]` is the number of an op's location among `locations`, which are distinct.
    `seconds` are the times of the stages `parse`, `flatten`, `rules` and `walk`.
    """

    loaded: Loaded
    main: ir.Operation
    program: Program
    handles: list[Any]
    places: list[int]
    locations: list[Any]
    facts: Facts
    warnings: tuple[str, ...]
    seconds: dict[str, float]


def load(data: bytes) -> Source:
    """Read a module in any form. May abort the process: MLIR checks by ending it."""
    with collector_paused():
        return _load(data)


def _load(data: bytes) -> Source:
    seconds: dict[str, float] = {}
    clock = time.perf_counter()

    def lap(stage: str) -> None:
        nonlocal clock
        now = time.perf_counter()
        seconds[stage] = now - clock
        clock = now

    loaded = decode(data)
    lap("parse")
    with loaded.module.context:
        main = flatten(loaded.module)
        check_static(main)
        facts = take_facts(loaded.module, main)
        lap("flatten")
        rules.populate(loaded.module)
        lap("rules")
        walk = Walk(main, loaded.argument_names)
        program = walk.run()
        rules.drop(loaded.module)
        lap("walk")
    return Source(
        loaded=loaded,
        main=main,
        program=program,
        handles=walk.builder.handles,
        places=walk.builder.places,
        locations=list(walk.builder.locations),
        facts=facts,
        warnings=program.warnings,
        seconds=seconds,
    )
