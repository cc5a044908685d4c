"""From bytes to a `Program`, with what is needed to write the module back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from toast.analysis import rules
from toast.analysis.calls import Calls, resolve_calls
from toast.analysis.chosen_branches import take_chosen_branches
from toast.analysis.facts import Facts, take_facts
from toast.analysis.flatten import flatten_calls, ops_in_order
from toast.analysis.forms import Form, Loaded, decode
from toast.analysis.gc_pause import collector_paused
from toast.analysis.limits import ModuleLimits
from toast.analysis.manual import Regions, stated_collectives, take_regions
from toast.analysis.program import Ints, Program, Region
from toast.analysis.size import check_size
from toast.analysis.template import Place
from toast.analysis.types import check_static
from toast.analysis.walk import Walk


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """The MLIR of a program: `main` without calls, and what is behind each op.

    That is an operation, for an argument its value, for pseudo ops what they stand for.
    """

    main: ir.Operation
    handles: list[Any]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A loaded module: the arrays and the MLIR behind them.

    `places` has for each op the number of its location among `locations`, which are distinct; a
    location comes with the number of that of the call that it is within, -1 for none. `seconds`
    are the times of the stages `parse`, `calls`, `rules` and `walk`.
    """

    loaded: Loaded
    program: Program
    places: Ints
    locations: tuple[Place, ...]
    facts: Facts
    seconds: dict[str, float]
    calls: Calls
    regions: Regions

    @property
    def main(self) -> ir.Operation:
        """The operation of `main`; its calls are inlined when it is first asked for."""
        return self._flat.main

    @property
    def handles(self) -> list[Any]:
        """What is behind each op: an operation, or the value of an argument."""
        return self._flat.handles

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know of how the program was read."""
        return self.program.warnings

    @cached_property
    def _flat(self) -> Flat:
        with collector_paused(), self.loaded.module.context:
            main = flatten_calls(self.calls)
            handles = list(ops_in_order(main))
        assert len(handles) == self.program.ops
        return Flat(main=main, handles=handles)


def load(data: bytes, limits: ModuleLimits | None = None) -> Source:
    """Read a module in any form. May abort the process: MLIR checks by ending it.

    Raises `ModuleTooLarge` for one above the `limits`.
    """
    with collector_paused():
        return _load(data, limits)


def _load(data: bytes, limits: ModuleLimits | None) -> Source:
    seconds: dict[str, float] = {}
    clock = time.perf_counter()

    def lap(stage: str) -> None:
        nonlocal clock
        now = time.perf_counter()
        seconds[stage] = now - clock
        clock = now

    loaded = decode(data)
    if limits is not None:
        check_size(loaded.module, limits)
    lap("parse")
    return _read(loaded, seconds, lap)


def _read(loaded: Loaded, seconds: dict[str, float], lap: Callable[[str], None]) -> Source:
    with loaded.module.context:
        take_chosen_branches(loaded.module)
        regions = take_regions(loaded.module)
        calls = resolve_calls(loaded.module)
        check_static(calls)
        facts, stated = take_facts(loaded.module, calls)
        lap("calls")
        rules.populate(loaded.module)
        lap("rules")
        program, template = Walk(calls, stated, loaded.argument_names).run()
        program = replace(program, regions=tuple(map(_region, regions.local_modules)))
        facts.constraints.update(template.shardings)
        rules.drop(loaded.module)
        lap("walk")
    return Source(
        loaded=loaded,
        program=program,
        places=template.place.astype(np.int64),
        locations=template.places,
        facts=facts,
        seconds=seconds,
        calls=calls,
        regions=regions,
    )


def _region(module: ir.Module) -> Region:
    """The program of one device of a region of `shard_map`, and what it sends."""
    source = _read(Loaded(form=Form.TEXT, module=module), {}, lambda _: None)
    return Region(program=source.program, collectives=tuple(stated_collectives(source.handles)))
