"""A state of a program, lowered and run device by device."""

from __future__ import annotations

from tests.laws.layout import Array
from tests.laws.states import prepared
from toast.costmodel.evaluator import State
from toast.costmodel.resolved import resolve
from toast.emit.lowering.devices import Devices
from toast.emit.lowering.write import Lowered, lower_to_collectives, lower_to_local
from toast.emit.specs import Specs
from toast.verify.reference.run import run_module

FORMS = {"collectives": lower_to_collectives, "local": lower_to_local}


def run_lowered(
    module: str, mesh: str, state: State, form: str, inputs: list[Array]
) -> tuple[Lowered, list[Array]]:
    """The lowered module of a state, and its results."""
    source, evaluator = prepared(module, mesh)
    resolved = resolve(evaluator, state)
    specs = Specs(resolved)
    program = source.program
    arguments = [specs.value(argument.value) for argument in program.arguments]
    results = [specs.use(result.use) for result in program.results]
    lowered = FORMS[form](source, evaluator.mesh, resolved, specs)
    devices = Devices(evaluator.mesh)
    return lowered, run_module(lowered.module, devices, arguments, results, inputs)
