"""Compile a sharded module for chips that are not here, and read what the compiler made of it.

The compiler runs in a child process, which may abort.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from toast.analysis.errors import InvalidRequest
from toast.aot.collective_time import CollectiveClock
from toast.aot.collectives import FoundCollective, find_collectives
from toast.aot.cycles import cycles_by_category, rematerialized, unestimated
from toast.aot.dump import DUMP, assigned, is_assigned
from toast.aot.hlo import HloModule, parse
from toast.aot.makespan import makespan
from toast.aot.target import Target
from toast.aot.verdict import CompiledCollective, Memory, Refusal, Verdict
from toast.costmodel.hardware.devices import find
from toast.costmodel.hardware.quantities import format_bytes
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.network.slice_major import SliceMajor, slice_major
from toast.process.outcome import EngineFailed
from toast.process.runner import Event, python_module, run

# What libtpu asks of its surroundings where there is no TPU.
_TPU = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
ASSIGNED = "assigned"
"""What stands for the child's answer where it is not waited for."""


def judge(
    module: bytes,
    target: Target,
    mesh: Mesh,
    *,
    memory_only: bool = False,
    reserved_bytes: int = 0,
    deadline_s: float | None = 1800.0,
    cancelled: Callable[[], bool] | None = None,
    keep_hlo: Path | None = None,
) -> Verdict:
    """Compile `module`, sharded over `mesh`, for `target`; the final HLO may be kept in a file.

    With `memory_only` the compiler, a TPU's, is ended once it has laid memory out. With
    `reserved_bytes` it is told that so much of the memory is taken, and saves memory until the rest
    is enough; it refuses only what does not fit the whole. A program that does not fit the chip is
    a verdict with a refusal. Raises ToastError when the compiler is not installed, refuses for
    another reason, aborts, or is late.
    """
    if mesh.devices > target.devices:
        raise InvalidRequest(
            f"The mesh {mesh} has {mesh.devices} devices and {target} has {target.devices}.",
            "Give a topology of as many devices as the mesh has.",
        )
    if memory_only and target.chip.platform != "tpu":
        raise InvalidRequest(
            f"The compiler for {target} tells nothing of memory before it is done.",
            "Let it compile to the end, without --memory-only.",
        )
    job = {
        "target": str(target),
        "devices": mesh.devices,
        "positions": [] if target.slices == 1 else _by_slice(target, mesh).positions,
        "reserved_bytes": reserved_bytes,
    }
    answer, text = _compile(
        module, job, memory_only=memory_only, deadline_s=deadline_s, cancelled=cancelled
    )
    if keep_hlo is not None and text:
        keep_hlo.write_text(text)
    return replace(_verdict(answer, text, target, mesh), reserved_bytes=reserved_bytes)


def _by_slice(target: Target, mesh: Mesh) -> SliceMajor:
    """The mesh as its slices; raises InvalidRequest where it has another number of them."""
    found = slice_major(mesh, find(target.chip.device))
    if found.slices != target.slices:
        raise InvalidRequest(
            f"The mesh {mesh} lies over {found.slices} slices, and {target} has {target.slices}.",
            "Give as many slices as the plan has: its axes say which of them cross.",
        )
    if found.inside.devices * target.slices > target.devices:
        raise InvalidRequest(
            f"A slice of the mesh {mesh} has {found.inside.devices} devices, and one of {target} "
            f"{target.devices // target.slices}.",
            "Give larger slices.",
        )
    return found


def _compile(
    module: bytes,
    job: dict[str, Any],
    *,
    memory_only: bool,
    deadline_s: float | None,
    cancelled: Callable[[], bool] | None,
) -> tuple[dict[str, Any], str]:
    """What the child says of the program, and the final HLO (empty where there is none).

    With `memory_only` it is ended when what it has written to disk says enough.
    """
    events: list[Event] = []
    with tempfile.TemporaryDirectory(prefix="toast-judge-") as name:
        directory = Path(name)
        dump = directory / DUMP
        (directory / "module").write_bytes(module)
        (directory / "job.json").write_text(json.dumps(job))
        outcome = run(
            directory,
            command=[*python_module("toast.aot.child"), str(directory)],
            environment=_TPU,
            on_event=events.append,
            cancelled=lambda: (
                (cancelled is not None and cancelled()) or (memory_only and is_assigned(dump))
            ),
            deadline_s=deadline_s,
        )
        answer = next((event for event in events if event.get("event") != "stage"), None)
        if answer is None and memory_only and is_assigned(dump):
            memory, hlo = assigned(dump)
            return {"event": ASSIGNED, "memory": asdict(memory), "seconds": outcome.seconds}, hlo
        outcome.raise_for_error()
        if answer is None:
            raise EngineFailed("The compiler ended without a result.", "Please report this.")
        final = directory / "compiled.hlo"
        return answer, final.read_text() if final.exists() else ""


def _verdict(answer: dict[str, Any], text: str, target: Target, mesh: Mesh) -> Verdict:
    seconds = float(answer["seconds"])
    if answer["event"] == "refused":
        refusal = Refusal(**answer["refusal"])
        return Verdict(
            target=str(target), devices=mesh.devices, refusal=refusal, compile_seconds=seconds
        )
    module = parse(text)
    memory = Memory(**answer["memory"])
    compiled = mesh if target.slices == 1 else _by_slice(target, mesh)
    verdict = Verdict(
        target=str(target),
        devices=mesh.devices,
        memory=memory,
        refusal=_too_large(memory, target),
        collectives=totals(find_collectives(module, compiled)),
        cycles=cycles_by_category(module),
        compile_seconds=seconds,
        memory_only=answer["event"] == ASSIGNED,
        rematerialized=rematerialized(module),
        unestimated=unestimated(module),
    )
    network = CollectiveClock.of(mesh, find(target.chip.device))
    return _timed(verdict, module, target, compiled, network)


def _timed(
    verdict: Verdict,
    module: HloModule,
    target: Target,
    mesh: Mesh | SliceMajor,
    network: CollectiveClock,
) -> Verdict:
    """The verdict with its times: of collectives always, of the rest where there are cycles."""
    rows, clock = verdict.collectives, target.chip.clock
    verdict = replace(verdict, communication_seconds=sum(map(network.seconds, rows)))
    if not clock or not verdict.cycles:
        return verdict
    return replace(
        verdict,
        compute_seconds=sum(verdict.cycles.values()) / clock,
        makespan_seconds=makespan(module, mesh, network, clock, rows),
    )


def _too_large(memory: Memory, target: Target) -> Refusal | None:
    """A refusal in the compiler's stead: that of GPUs accepts programs that fit no GPU."""
    available = find(target.chip.device).usable_bytes
    if target.chip.platform != "cuda" or memory.total <= available:
        return None
    return Refusal(
        message=f"It needs {format_bytes(memory.total)} of {format_bytes(available)}; the "
        "compiler does not check, the runtime would fail.",
        needed=memory.total,
        available=available,
    )


def read_hlo(path: Path) -> HloModule:
    """A kept HLO text."""
    return parse(path.read_text())


def totals(found: Iterable[FoundCollective]) -> tuple[CompiledCollective, ...]:
    """Collectives summed by kind, axes and group size, most bytes first."""
    rows: defaultdict[Any, list[FoundCollective]] = defaultdict(list)
    for one in found:
        rows[(one.kind, one.axes, one.group_size)].append(one)
    summed = [
        CompiledCollective(
            kind=kind,
            axes=axes,
            group_size=size,
            count=sum(one.trips for one in row),
            result_bytes=sum(one.trips * one.size for one in row),
            wire_bytes=sum(one.trips * one.wire for one in row),
        )
        for (kind, axes, size), row in rows.items()
    ]
    return tuple(sorted(summed, key=lambda row: -row.wire_bytes))
