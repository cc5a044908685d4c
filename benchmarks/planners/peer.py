"""XLA's own ILP auto-sharding, run ahead of time in an environment of its own.

It lives in libtpu and was last reachable through jax 0.6.0. Planner and compiler are one there, so
one time is known of both, and its program is that of an older compiler than the other plans'.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.accuracy.environment import ROOT, made
from benchmarks.accuracy.records import Record
from benchmarks.accuracy.running import keep_text
from benchmarks.accuracy.schedule import Case
from toast.analysis.parent_death import named_parent
from toast.aot import Memory, Target, Verdict
from toast.aot.collectives import find_collectives
from toast.aot.compile import totals
from toast.aot.cycles import cycles_by_category
from toast.aot.dump import DUMP, memory_report
from toast.aot.hlo import parse
from toast.costmodel.network.mesh import Mesh

PLACE = ROOT / ".venv-peer"
PACKAGE = "jax[tpu]==0.6.0"
WITH = (PACKAGE, "absl-py")
"""`jax.export`, which the examples import, needs absl and does not ask for it."""
BUDGET_GB = 14
_SURROUNDINGS = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


def compiled(case: Case, seconds: float, hlo: Path | None = None) -> Record:
    """What the peer makes of a case: `compiled`, or an `error` where it fails or does not finish.

    `hlo` keeps the text as for other cases.
    """
    with tempfile.TemporaryDirectory(prefix="toast-peer-") as name:
        directory = Path(name)
        job = {
            "model": case.model,
            "topology": Target.parse(case.target).topology,
            "mesh": [[axis.name, axis.size] for axis in Mesh.parse(case.mesh).axes],
            "budget_gb": None if case.plan.endswith("unbounded") else BUDGET_GB,
            "seconds": seconds,
        }
        (directory / "job.json").write_text(json.dumps(job))
        started = time.monotonic()
        error = _run(directory, seconds)
        spent = time.monotonic() - started
        record: Record = {"plan_seconds": spent, "versions": {"jax": "0.6.0", "jaxlib": "0.6.0"}}
        if error:
            return record | {"error": error}
        text = (directory / "compiled.hlo").read_text()
        answer = json.loads((directory / "answer.json").read_text())
        answer["memory"] |= memory_report(directory / DUMP)._asdict()
    if hlo is not None:
        keep_text(text, case.key, hlo)
    verdict = _verdict(text, answer, case)
    return record | {"layout": answer["layout"], "compiled": verdict.to_dict()}


def _run(directory: Path, seconds: float) -> str:
    """Run the child; "" or why there is no answer."""
    python = made(PLACE, " ".join(WITH), list(WITH))
    environment = {
        name: value for name, value in os.environ.items() if name != "TPU_LIBRARY_PATH"
    } | _SURROUNDINGS
    command = [str(python), "-m", "benchmarks.planners.peer_child", str(directory)]
    with (directory / "log").open("w") as log:
        child = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env=environment | {"PYTHONPATH": str(ROOT), **named_parent()},
            start_new_session=True,
        )
        try:
            code = child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"did not finish in {seconds:.0f} s"
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    return "" if code == 0 else _last_words(directory / "log", code)


def _last_words(log: Path, code: int) -> str:
    lines = [line.strip() for line in log.read_text().splitlines() if line.strip()]
    wanted = [line for line in lines if "Error" in line or "RESOURCE" in line or "Check" in line]
    return f"ended with {code}: {(wanted or lines or ['no word'])[-1][:300]}"


def _verdict(text: str, answer: Record, case: Case) -> Verdict:
    """The peer's program, read like any other."""
    target, mesh = Target.parse(case.target), Mesh.parse(case.mesh)
    module = parse(text)
    cycles = cycles_by_category(module)
    clock = target.chip.clock
    return Verdict(
        target=case.target,
        devices=mesh.devices,
        memory=Memory(**answer["memory"]),
        collectives=totals(find_collectives(module, mesh)),
        cycles=cycles,
        compute_seconds=sum(cycles.values()) / clock if clock and cycles else None,
        compile_seconds=float(answer["seconds"]),
    )
