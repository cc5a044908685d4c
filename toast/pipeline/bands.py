"""The bands around a prediction, by what held-out programs of its kind took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from toast.costmodel.bands.kinds import Kind, kind_of
from toast.costmodel.bands.spreads import FIGURES, Figure, Spread, SpreadTable, held_out
from toast.costmodel.evaluator import Action, Cost, Evaluator, Refinement
from toast.plans.costs import Band, Bands, BandSource, PredictedCost, fit_verdict


@dataclass(frozen=True)
class Predictor:
    """Makes the record of a price, with the bands for one program on one kind of device."""

    evaluator: Evaluator
    memory: int
    table: SpreadTable

    @classmethod
    def of(cls, evaluator: Evaluator, memory: int) -> Predictor:
        """By the bands that are shipped; a plan fits that needs at most `memory` bytes."""
        return cls(evaluator, memory, held_out())

    @cached_property
    def kind(self) -> Kind:
        """What the program is for."""
        return kind_of(self.evaluator.analysis.program)

    @cached_property
    def spreads(self) -> dict[Figure, Spread]:
        """How far off each figure may be, where that is known."""
        found = {one: self.table.find(one, self.evaluator.device, self.kind) for one in FIGURES}
        return {figure: spread for figure, spread in found.items() if spread is not None}

    def sources(self) -> list[BandSource]:
        """The programs behind the band of each figure."""
        return [
            BandSource(
                figure=figure,
                chips=spread.chips,
                kind=spread.kind,
                cases=spread.cases,
                programs=spread.programs,
            )
            for figure, spread in self.spreads.items()
        ]

    def predicted(
        self,
        state: Sequence[Action | Refinement],
        priced: Cost | None = None,
        evaluator: Evaluator | None = None,
    ) -> PredictedCost:
        """The record of a state, `priced` already or not; refinements need their `evaluator`."""
        evaluator = evaluator or self.evaluator
        cost = priced or evaluator.cost(state)
        room, pressed = evaluator.room_bytes(state), evaluator.pressed_bytes(state)
        bands = self._bands(cost, room, pressed)
        return predicted_cost(cost, self.memory).model_copy(
            update={
                "room_bytes": int(room),
                "pressed_bytes": int(pressed),
                "bands": bands,
                "verdict": fit_verdict(cost.peak, bands.peak_bytes, self.memory),
            }
        )

    def _bands(self, cost: Cost, room: float, pressed: float) -> Bands:
        room_band, pressed_band = self._memory("room", room), self._memory("pressed", pressed)
        return Bands(
            step_seconds=self._around("step", cost.seconds),
            compute_seconds=self._around("compute", cost.compute),
            communication_seconds=self._around("communication", cost.communication),
            peak_bytes=self._laid_out(room_band, pressed_band),
            room_bytes=room_band,
            pressed_bytes=pressed_band,
        )

    def _memory(self, figure: Figure, size: float) -> Band | None:
        return self._around(figure, size) if size >= self.table.least_bytes else None

    def _around(self, figure: Figure, value: float) -> Band | None:
        spread = self.spreads.get(figure)
        return None if spread is None else Band(low=value * spread.low, high=value * spread.high)

    def _laid_out(self, room: Band | None, pressed: Band | None) -> Band | None:
        """The ends of the peak: what the compiler lays out for a chip, of either end of the two."""
        if room is None or pressed is None:
            return room
        laid_out = self.evaluator.laid_out
        return Band(low=laid_out(room.low, pressed.low), high=laid_out(room.high, pressed.high))


def predicted_cost(priced: Cost, memory: int) -> PredictedCost:
    """A price as the record has it, without bands; a plan fits that needs at most `memory`."""
    return PredictedCost(
        step_seconds=priced.seconds,
        compute_seconds=priced.compute,
        communication_seconds=priced.communication,
        overlapped_seconds=priced.hidden,
        peak_bytes=int(priced.peak),
        room_bytes=int(priced.room),
        fits=priced.peak <= memory,
    )
