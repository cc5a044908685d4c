"""What is handed back for a pipeline: its modules, and which values go from which to which.

A value has a name: `argument:3` of the step, `kept:2` that is made of arguments before the first
microbatch, `sum:5` that every microbatch adds to, `value:17` of one microbatch, `end:4` after the
last one; `time` is the number of the microbatch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

TIME = "time"


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

    @property
    def name(self) -> str:
        """The name of its file without the suffix; `number` is that of the chunk or round."""
        what = f"round{self.number}" if self.phase is Phase.AFTER else f"chunk{self.number}"
        where = f"stage{self.stage}"
        return f"{where}-{self.phase}" if self.phase is Phase.BEFORE else f"{where}-{self.phase}-{what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineProgram:
    """The modules of a pipeline; `results` are the names of the step's results, in order.

    `donated` are arguments of which a result takes the place, `layers` the first layer of each
    chunk with its path, `sent` the values that go from stage to stage in each microbatch.
    """

    stages: int
    chunks: int
    microbatches: int
    training: bool
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    layers: tuple[str, ...]
    modules: tuple[StageModule, ...]

    def of(self, phase: Phase) -> list[StageModule]:
        """The modules of a phase, in the order in which they run."""
        return [module for module in self.modules if module.phase is phase]
