"""One module of a pipeline, planned for the mesh of its stage, or priced for one chip."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.analyse import analyse
from toast.analysis.errors import InvalidRequest
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import Device, find
from toast.costmodel.network.mesh import Mesh
from toast.microbatch.colour import bits_of
from toast.pipeline.plan_module import make_plan
from toast.plans.plan import Tensor
from toast.request.pipeline_request import PipelineRequest
from toast.request.request import PlanRequest
from toast.stages.wiring import Layout, StageModule

ROLLOUTS = 2000
_ALIAS = "tf.aliasing_output"
_PAIR = Mesh.parse("one=2")
"""On it a program that is not sharded takes what it takes on one chip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedModule:
    """A module as it is handed back, with the seconds and bytes of one run on one device.

    `working_bytes` are what it needs beside what it reads and makes.
    """

    text: str
    wiring: StageModule
    seconds: float
    input_bytes: tuple[float, ...]
    output_bytes: tuple[float, ...]
    working_bytes: float

    def bytes_by_name(self) -> dict[str, float]:
        """The bytes on one device of all that it reads and makes."""
        names = (*self.wiring.inputs, *self.wiring.outputs)
        sizes = (*self.input_bytes, *self.output_bytes)
        return dict(zip(names, sizes, strict=True))


@dataclass(frozen=True, slots=True)
class _Found:
    """What is known of a text under pins, whatever its values are called.

    The results that are `lent` lie where arguments lay.
    """

    text: str
    seconds: float
    peak: float
    input_specs: tuple[Layout, ...]
    output_specs: tuple[Layout, ...]
    lent: frozenset[int] = frozenset()


Running = tuple[tuple[int, int], ...]
"""The numbers of an argument and of a result that is its next value: a sum that is added to."""


@dataclass(slots=True)
class ModulePricer:
    """Plans modules, equal ones once; `layouts` are those of values that modules share."""

    request: PipelineRequest
    layouts: dict[str, Layout] = field(default_factory=dict)
    _known: dict[tuple[str, tuple[str, ...], Running], _Found] = field(default_factory=dict)
    _device: Device = field(init=False)

    def __post_init__(self) -> None:
        self._device = find(self.request.device)

    @property
    def planned(self) -> int:
        """How many modules were planned or priced."""
        return len(self._known)

    def take(
        self, text: str, layouts: Sequence[Layout | None]
    ) -> tuple[float, float, tuple[Layout, ...]]:
        """Seconds and peak of a module whose arguments have these layouts, None any.

        With them come the layouts of its results, if it has a mesh.
        """
        if self.request.mesh is None:
            found = self._unsharded(text)
        else:
            given = enumerate(layouts)
            pins = tuple(pin(number, one) for number, one in given if one is not None)
            found = self._planned(text, pins)
        return found.seconds, found.peak, found.output_specs

    def price(self, wiring: StageModule, module: ir.Module) -> PricedModule:
        """Plan a module; a value that was laid out by a module before keeps that layout."""
        text, running = str(module), running_sums(wiring)
        pins = self._pins(wiring)
        if (text, pins, running) not in self._known:
            self._known[text, pins, running] = self._find(text, pins, running)
        found = self._known[text, pins, running]
        wired = StageModule(
            phase=wiring.phase,
            stage=wiring.stage,
            number=wiring.number,
            inputs=wiring.inputs,
            outputs=wiring.outputs,
            input_specs=found.input_specs,
            output_specs=found.output_specs,
        )
        if self.request.mesh is not None:
            self.layouts |= dict(zip(wired.inputs, wired.input_specs, strict=True))
            self.layouts |= dict(zip(wired.outputs, wired.output_specs, strict=True))
        given, made = self._sizes(module, wired)
        own = [size for number, size in enumerate(made) if number not in found.lent]
        return PricedModule(
            text=found.text,
            wiring=wired,
            seconds=found.seconds + self._device.buffer_start * (len(given) + len(made)),
            input_bytes=given,
            output_bytes=made,
            working_bytes=max(0.0, found.peak - sum(given) - sum(own)),
        )

    def _pins(self, wiring: StageModule) -> tuple[str, ...]:
        """The layouts of what others have laid out, as pins of a request.

        Not those of sums: zeros have any layout, and what is added up decides which is best.
        """
        return tuple(
            pin(number, self.layouts[name])
            for number, name in enumerate(wiring.inputs)
            if self.layouts.get(name) and name not in wiring.outputs
        )

    def _find(self, text: str, pins: tuple[str, ...], running: Running) -> _Found:
        if self.request.mesh is None:
            return self._unsharded(text)
        try:
            return self._in_place(text, pins, running)
        except InvalidRequest:
            # Layouts of several modules may be at odds in this one: then its values are sent anew.
            return self._planned(text, ())

    def _in_place(self, text: str, pins: tuple[str, ...], running: Running) -> _Found:
        """A plan in which sums stay where they are from one microbatch to the next."""
        found = self._planned(text, pins)
        if all(found.input_specs[one] == found.output_specs[other] for one, other in running):
            return found
        layouts = (pin(one, found.output_specs[other]) for one, other in running)
        again = self._planned(lent(text, running), (*pins, *layouts))
        return replace(again, lent=frozenset(other for _, other in running))

    def _unsharded(self, text: str) -> _Found:
        program = analyse(load(text.encode()).program)
        cost = Evaluator(program, _PAIR, find(self.request.device)).cost(())
        return _Found(text, cost.seconds, cost.peak, (), ())

    def _planned(self, text: str, pins: tuple[str, ...]) -> _Found:
        assert self.request.mesh is not None
        request = PlanRequest(
            mesh=self.request.mesh,
            device=self.request.device,
            memory=self.request.memory,
            seed=self.request.seed,
            rollouts=self.request.rollouts or ROLLOUTS,
            pins=pins,
            advice=False,
        )
        result = make_plan(text.encode(), request)
        predicted = result.plan.predicted
        return _Found(
            text=result.module.decode(),
            seconds=predicted.step_seconds,
            peak=predicted.peak_bytes,
            input_specs=layouts_of(result.plan.arguments),
            output_specs=layouts_of(result.plan.results),
        )

    def _sizes(
        self, module: ir.Module, wired: StageModule
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The bytes on one device of what a module reads and makes."""
        main: Any = ir.SymbolTable(module.operation)["main"]
        axes = {} if self.request.mesh is None else _axes(self.request.mesh)
        inputs = local_bytes(main.type.inputs, wired.input_specs, axes)
        return inputs, local_bytes(main.type.results, wired.output_specs, axes)


def running_sums(wiring: StageModule) -> Running:
    """What a module both reads and makes."""
    made = {name: number for number, name in enumerate(wiring.outputs)}
    names = enumerate(wiring.inputs)
    return tuple((number, made[name]) for number, name in names if name in made)


def lent(text: str, running: Running) -> str:
    """A module in whose buffers of arguments their next values are returned.

    Arguments of a stage have no other attributes.
    """
    module = ir.Module.parse(text)
    main: Any = ir.SymbolTable(module.operation)["main"]
    integer = ir.IntegerType.get_signless(32)
    results = {argument: ir.IntegerAttr.get(integer, result) for argument, result in running}
    rows = [
        ir.DictAttr.get({_ALIAS: results[number]} if number in results else {})
        for number in range(len(main.type.inputs))
    ]
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(rows)
    return str(module)


def pin(number: int, layout: Layout) -> str:
    """The layout of an argument as a pin of a request."""
    return f"{number}=" + ",".join("+".join(axes) or "None" for axes in layout)


def _axes(mesh: str) -> dict[str, int]:
    return {axis.name: axis.size for axis in Mesh.parse(mesh).axes}


def layouts_of(tensors: Sequence[Tensor]) -> tuple[Layout, ...]:
    """The layouts that a plan has for arguments or results."""
    return tuple(tuple(tuple(axes) for axes in tensor.spec) for tensor in tensors)


def local_bytes(
    kinds: Sequence[ir.Type], specs: Sequence[Layout], axes: Mapping[str, int]
) -> tuple[float, ...]:
    """The bytes on one device of tensors of these types and layouts."""
    found: list[float] = []
    for number, kind in enumerate(kinds):
        tensor = ir.RankedTensorType(kind)
        size = math.prod(tensor.shape) * bits_of(tensor.element_type) / 8
        used = [axis for some in (specs[number] if specs else ()) for axis in some]
        found.append(size / math.prod(axes[axis] for axis in used))
    return tuple(found)
