"""What is handed back for a pipeline: its modules, and which values go from which to which.

A value has a name: `argument:3` of the step, `kept:2` that is made of arguments before the first
microbatch, `sum:5` that every microbatch adds to, `value:17` of one microbatch, `end:4` after the
last one; `time` is the number of the microbatch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

TIME = "time"
Layout = tuple[tuple[str, ...], ...]
"""The mesh axes over which each dimension of a tensor lies."""


class Phase(StrEnum):
    """When a module of a stage runs."""

    BEFORE = "before"
    FORWARD = "forward"
    BACKWARD = "backward"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageModule:
    """A module of one stage: what it reads and makes, by name, in the order of its `main`.

    Before the first microbatch and after the last one there is a module for each stage; after the
    last one in each `round`, as what a stage makes others may read in the next. For a microbatch
    there is one for each chunk and direction.
    """

    phase: Phase
    stage: int
    number: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    input_specs: tuple[Layout, ...] = ()
    output_specs: tuple[Layout, ...] = ()

    @property
    def name(self) -> str:
        """The name of its file without the suffix; `number` is that of the chunk or round."""
        what = f"round{self.number}" if self.phase is Phase.AFTER else f"chunk{self.number}"
        where = f"stage{self.stage}"
        return (
            f"{where}-{self.phase}"
            if self.phase is Phase.BEFORE
            else f"{where}-{self.phase}-{what}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineProgram:
    """The modules of a pipeline; `results` are the names of the step's results, in order.

    `layers` is the first layer of each chunk by its path, `mesh` the axes of a stage's own mesh
    with their sizes, empty where a stage is one device.
    """

    stages: int
    chunks: int
    microbatches: int
    training: bool
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    layers: tuple[str, ...]
    modules: tuple[StageModule, ...]
    mesh: tuple[tuple[str, int], ...] = ()

    @property
    def stage_devices(self) -> int:
        """How many devices a stage has."""
        return math.prod(size for _, size in self.mesh)

    def of(self, phase: Phase) -> list[StageModule]:
        """The modules of a phase, in the order in which they run."""
        return [module for module in self.modules if module.phase is phase]
