"""What the loops of a pipeline in one module are printed to take."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from jaxlib.mlir import ir

import toast
from tests.toast.spmd.steps import module_of
from toast.analysis.forms import decode
from toast.costmodel.network.mesh import Mesh
from toast.microbatch.colour import bits_of
from toast.spmd.rewrite import SpmdPipeline, pipeline_module


def pipelined(count: int) -> SpmdPipeline:
    module = decode(module_of("gpt")).module
    return pipeline_module(module, Mesh.parse("pipe=2"), "pipe", count)


def made_bytes(text: str) -> int:
    """The bytes of what a program results in."""
    with ir.Context():
        module = decode(text.encode()).module
        main = ir.SymbolTable(module.operation)["main"]
        kinds = [ir.RankedTensorType(kind) for kind in main.type.results]
        return sum(math.prod(kind.shape) * bits_of(kind.element_type) // 8 for kind in kinds)


def test_what_layers_keep_is_counted_once(tmp_path: Path) -> None:
    """Cut into microbatches by the loop that keeps it and by the one that reads it.

    The chip has no tiles, so small tensors take their bytes alone.
    """
    settings: dict[str, Any] = {
        "mesh": "pipe=2",
        "microbatches": 8,
        "device": "a100-80gb",
    }
    answer = toast.plan_spmd(module_of("gpt"), tmp_path, **settings)
    kept = made_bytes(pipelined(8).loops[0].program.text)
    forward, backward = (loop.peak_bytes for loop in answer.loops)
    assert kept <= forward < 1.5 * kept
    assert kept <= backward < 1.5 * kept + answer.argument_bytes


def test_a_loop_knows_which_one_keeps_what_it_reads() -> None:
    forward, backward = (loop.program for loop in pipelined(4).loops)
    assert not any(forward.sources)
    sources = [source for source in backward.sources if source is not None]
    assert len(sources) > 10
    assert {number for number, _ in sources} == {0}
    assert len(set(sources)) == len(sources)
