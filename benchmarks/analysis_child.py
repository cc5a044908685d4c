"""What `bench_analysis` measures, one thing in one fresh process; prints one JSON object.

python -m benchmarks.analysis_child lower gemma:18 FILE       lower a model, write its bytecode
python -m benchmarks.analysis_child lower t2b:paper:scan FILE
python -m benchmarks.analysis_child lower block_sparse:large FILE
python -m benchmarks.analysis_child constants BYTES FILE      write a module of constants
python -m benchmarks.analysis_child analyse FILE              load and analyse a module
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

MIB = 2**20
SMALLEST = b"""
func.func public @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0]
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
"""
"""A program with a conflict."""
Record = dict[str, Any]


def lower(name: str, output: Path) -> Record:
    """Seconds of `jax.jit(...).lower()`, with tracing, of a model new to the process."""
    step = _step(name)
    started = time.perf_counter()
    lowered = step.lower()
    seconds = time.perf_counter() - started
    from toast.analysis.forms import bytecode

    data = bytecode(lowered.compiler_ir("stablehlo"))
    output.write_bytes(data)
    return {"lower": seconds, "bytes": len(data), "lower_peak": peak_bytes()}


def _step(name: str) -> Any:
    """`gemma:LAYERS`, or another example or model with its preset and maybe `scan`."""
    model, _, rest = name.partition(":")
    if model == "block_sparse":
        from examples import block_sparse

        return block_sparse.make_step(block_sparse.PRESETS[rest])
    if model == "gemma":
        from examples import gemma

        return gemma.make_step(replace(gemma.PRESETS["gemma_2b"], layers=int(rest)))
    from examples.models import MODELS

    preset, _, scan = rest.partition(":")
    return MODELS[model].make_step(MODELS[model].config(preset, scan=scan == "scan"))


def constants(size: int, output: Path) -> Record:
    """Write a module whose one constant holds `size` bytes of f32, built without any text."""
    import numpy as np
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func, stablehlo

    from toast.analysis.forms import bytecode, new_context

    shape = (size // 4 // 1000, 1000)
    with new_context(), ir.Location.unknown():
        kind = ir.RankedTensorType.get(shape, ir.F32Type.get())
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([kind], [kind]))
            values = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
            with ir.InsertionPoint(main.add_entry_block()):
                table = stablehlo.ConstantOp(ir.DenseElementsAttr.get(values))
                total = stablehlo.AddOp(main.arguments[0], table.result)
                func.ReturnOp([total.result])
        data = bytecode(module)
    output.write_bytes(data)
    return {"bytes": len(data)}


def analyse(path: Path) -> Record:
    """Seconds and peak memory of loading and analysing in a process that has only imported.

    `kernel` is what the first analysis of a process takes, which loads Numba's compiler and the
    compiled kernels; it is the same for every module.
    """
    from toast.analysis.analyse import analyse as run
    from toast.analysis.load import load
    from toast.analysis.program import PSEUDO

    base = peak_bytes()
    kernel = _load_kernel()
    data = path.read_bytes()
    started = time.perf_counter()
    source = load(data)
    loaded = time.perf_counter()
    analysis = run(source.program)
    done = time.perf_counter()
    program = source.program
    return {
        "ops": sum(program.kind(op) not in PSEUDO for op in range(program.ops)),
        "bytes": len(data),
        "written_ops": _written(source.loaded.module),
        "kernel": kernel,
        "load": loaded - started,
        "analyse": done - loaded,
        "stages": {**source.seconds, **analysis.seconds},
        "base": base,
        "peak": peak_bytes(),
        "resident": psutil.Process().memory_info().rss,
    }


def _written(module: Any) -> int:
    """How many ops stand in a module, those of each function once."""
    from jaxlib.mlir import ir

    found = 0

    def visit(op: Any) -> ir.WalkResult:
        nonlocal found
        found += op.name not in ("builtin.module", "func.func")
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _load_kernel() -> float:
    """Analyse a program of two ops, which loads the kernels; returns the seconds."""
    from toast.analysis.analyse import analyse as run
    from toast.analysis.load import load

    started = time.perf_counter()
    run(load(SMALLEST).program)
    return time.perf_counter() - started


def peak_bytes() -> int:
    """The most memory that this process has been resident in."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(arguments: list[str]) -> int:
    """Run one measurement; returns the exit code."""
    match arguments:
        case ["lower", name, output]:
            record = lower(name, Path(output))
        case ["constants", size, output]:
            record = constants(int(size), Path(output))
        case ["analyse", path]:
            record = analyse(Path(path))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    print(json.dumps(record))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
