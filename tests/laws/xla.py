"""The parent's side of `xla_child`: one process for all examples, started anew when XLA ends it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

from hypothesis import note

from tests.laws.chains import Text
from tests.laws.executor import unsharded
from tests.laws.layout import Array
from tests.laws.xla_child import Compiled, CompileRequest, PairRequest, Reply, Request
from toast.analysis.load import Source
from toast.costmodel.evaluator import Evaluator, Refined
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs
from toast.emit.writer import write

ROOT = Path(__file__).resolve().parents[2]


class Xla:
    """Runs modules in the child."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def run(self, request: Request | CompileRequest | PairRequest) -> Reply:
        """The child's reply; a text that says so when the child died."""
        child = self._child or self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            pickle.dump(request, child.stdin)
            child.stdin.flush()
            reply: Reply = pickle.load(child.stdout)
        except (EOFError, BrokenPipeError):
            status = child.wait()
            self.close()
            return f"XLA ended the process (status {status})"
        return reply

    def hlo(self, sharded: bytes, devices: int) -> str:
        """What XLA compiles of a sharded module."""
        reply = self.run(CompileRequest(sharded=sharded, devices=devices))
        assert isinstance(reply, Compiled), reply
        return reply.hlo

    def _start(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
            "JAX_PLATFORMS": "cpu",
        }
        command = [sys.executable, "-m", "tests.laws.xla_child"]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment
        )
        return self._child

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is None:
            return
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()
        child.wait()


def run_plan(
    xla: Xla, text: Text, module: str, source: Source, evaluator: Evaluator, decisions: Refined
) -> tuple[list[Array], list[Array], list[Array]]:
    """Results as the specification has them, as XLA on one device has, and under the plan.

    `source` is written to and of no use afterwards.
    """
    note(f"{module}\n{decisions}")
    inputs = text.inputs(in_bounds=True)
    by_specification = unsharded(source, evaluator, inputs)
    request = request_of(module, source, evaluator, decisions, inputs)
    note(request.sharded.decode())
    reply = xla.run(request)
    assert isinstance(reply, tuple), reply
    return by_specification, *reply


def request_of(
    module: str, source: Source, evaluator: Evaluator, state: Refined, inputs: list[Array]
) -> Request:
    """What a state's plan would be; `source` is written to and of no use afterwards."""
    program = source.program
    specs = Specs(resolve(evaluator, state))
    arguments = [specs.value(argument.value) for argument in program.arguments]
    results = [
        (specs.use(result.use), program.shape(int(program.use_value[result.use])))
        for result in program.results
    ]
    sharded = write(source, evaluator.mesh, specs, specs.constraints())
    return Request(
        original=module.encode(),
        sharded=sharded,
        mesh=[(axis.name, axis.size) for axis in evaluator.mesh.axes],
        arguments=arguments,
        results=results,
        inputs=inputs,
    )
