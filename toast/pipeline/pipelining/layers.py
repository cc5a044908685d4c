"""The costs of each layer of a step on any mesh; the step is cut once for all meshes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from toast.analysis.forms import decode
from toast.pipeline.pipelining.costs import PricedPipeline
from toast.pipeline.pipelining.priced import ModulePricer
from toast.request.pipeline_request import PipelineRequest
from toast.schedules.timeline import ChunkCosts
from toast.stages.cut import CutProgram, Cutting, count_layers, cut_program

_ROLLOUTS = 200
"""For the plan of a layer; only the pipeline that is chosen is planned with more."""


@dataclass(slots=True)
class LayerPricer:
    """Prices a step whose every layer is a stage of its own; equal layers are priced once."""

    request: PipelineRequest
    cut: CutProgram
    planned: int = 0
    _known: dict[str | None, Sequence[ChunkCosts]] = field(default_factory=dict)

    @property
    def layers(self) -> int:
        """How many layers the step has."""
        return self.cut.program.stages

    def costs(self, mesh: str | None) -> Sequence[ChunkCosts]:
        """The costs of each layer on the mesh of a stage."""
        if mesh not in self._known:
            self._known[mesh] = self._priced(mesh).chunk_costs()
        return self._known[mesh]

    def _priced(self, mesh: str | None) -> PricedPipeline:
        rollouts = self.request.rollouts or _ROLLOUTS
        pricer = ModulePricer(self.request.model_copy(update={"mesh": mesh, "rollouts": rollouts}))
        cut = self.cut
        with cut.modules[0].context:
            made = tuple(
                pricer.price(wiring, module)
                for wiring, module in zip(cut.program.modules, cut.modules, strict=True)
            )
        self.planned += pricer.planned
        program = replace(cut.program, modules=tuple(one.wiring for one in made))
        return PricedPipeline(program=program, modules=made)


def cut_by_layers(module: bytes, names: Sequence[str], request: PipelineRequest) -> LayerPricer:
    """Cut a step at each of its layers."""
    loaded, count = decode(module).module, request.count
    cutting = Cutting(stages=count_layers(loaded, names, count), microbatches=count)
    return LayerPricer(request, cut_program(decode(module).module, names, cutting))
