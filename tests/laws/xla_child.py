"""Compiles and runs pairs of modules on eight virtual devices: `python -m tests.laws.xla_child`.

Requests and replies are pickles on stdin and stdout. XLA may end the process; `xla.py` starts it
anew.
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, BinaryIO

from tests.laws.layout import Array
from toast.plans.plan import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A module and its sharded form, with the layouts that the plan would state."""

    original: bytes
    sharded: bytes
    mesh: list[tuple[str, int]]
    arguments: list[Spec]
    results: list[tuple[Spec, tuple[int, ...]]]
    inputs: list[Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRequest:
    """A sharded module of which the compiled HLO is wanted."""

    sharded: bytes
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRequest:
    """Two modules that are to give the same on one device."""

    one: bytes
    other: bytes
    inputs: list[Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The text of a compiled module."""

    hlo: str


Reply = tuple[list[Array], list[Array]] | Compiled | str
"""The results of the original and of the sharded module, the HLO, or the error of XLA."""


def answer(request: Request | CompileRequest | PairRequest) -> Reply:
    """Compile the module, or run both."""
    if isinstance(request, PairRequest):
        return run_pair(request)
    return compiled(request) if isinstance(request, CompileRequest) else run(request)


def run_pair(request: PairRequest) -> Reply:
    """Run both modules on one device."""
    from toast.analysis.forms import decode
    from toast.verify import execution

    try:
        one, other = (
            execution.run_original(
                execution.compile_module(decode(module).module, 1), request.inputs
            )
            for module in (request.one, request.other)
        )
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return one, other


def compiled(request: CompileRequest) -> Reply:
    """The HLO of a sharded module."""
    from toast.analysis.forms import decode
    from toast.verify import execution

    try:
        executable = execution.compile_module(decode(request.sharded).module, request.devices)
        return Compiled(hlo=executable.hlo_modules()[0].to_string())
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def run(request: Request) -> Reply:
    """Run both modules."""
    from toast.analysis.forms import decode
    from toast.verify import execution

    devices = 1
    for _, size in request.mesh:
        devices *= size
    plan: Any = SimpleNamespace(
        mesh=SimpleNamespace(axes=[SimpleNamespace(name=n, size=s) for n, s in request.mesh]),
        arguments=[SimpleNamespace(spec=spec) for spec in request.arguments],
        results=[
            SimpleNamespace(spec=spec, shape=shape, index=index)
            for index, (spec, shape) in enumerate(request.results)
        ],
    )
    try:
        plain = execution.compile_module(decode(request.original).module, 1)
        expected = execution.run_original(plain, request.inputs)
        parallel = execution.compile_module(decode(request.sharded).module, devices)
        return expected, execution.run_sharded(parallel, plan, request.inputs)
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer until stdin closes."""
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(answer(request), replies)
        replies.flush()


if __name__ == "__main__":
    import jax

    from tests.laws import xla_child  # whose classes the pickles name
    from toast.process.messages import take_stdout

    stream = take_stdout()
    jax.config.update("jax_enable_x64", True)
    xla_child.serve(sys.stdin.buffer, stream.buffer)  # type: ignore[attr-defined]
