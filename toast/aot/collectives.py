"""The collectives of a compiled module, each counted once and times its loops.

Three forms hide what a collective is. An asynchronous pair is its `-start` alone. A TPU splits an
asynchronous collective over several fusions that each repeat the instruction: only the piece whose
computation ends in `AsyncCollectiveStart` counts. A TPU writes a reduce-scatter as a fusion of
an all-reduce and the dynamic-slice that keeps this device's part; of several tensors that it sends
together, as one of an all-reduce of all and a slice of each. And between slices it sends to its
host and receives from there, where the runtime does the collective (`slice_transfers.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from toast.aot.hlo import Computation, HloModule, Instruction
from toast.aot.replica_groups import parse_groups, parse_pairs
from toast.aot.run_counts import Run, runs
from toast.aot.slice_transfers import SliceTransfer, slice_transfer
from toast.aot.verdict import Kind
from toast.costmodel.network.collectives import Kind as PredictedKind
from toast.costmodel.network.collectives import wire_factor
from toast.costmodel.network.device_groups import axes_of_groups, axes_of_pairs
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.network.slice_major import SliceMajor

_KINDS: dict[str, Kind] = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_all",
    "collective-permute": "collective_permute",
    "collective-broadcast": "all_gather",
}
_PIECE = re.compile(r'"async_collective_fusion_config":\{"flag_start":"(-?\d+)"')
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_THROUGH = frozenset({"bitcast", "reshape", "copy", "convert", "transpose", "get-tuple-element"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCollective:
    """One collective instruction. `axes` is None where the groups are no product of mesh axes.

    `size` is the larger of what goes in and comes out on one device and `wire` what each device
    puts on its links, both for one run and in bytes; `trips` how often it runs. It sends the parts
    of so many `tensors`: several where collectives were combined, or an all-to-all was cut.
    """

    kind: Kind
    axes: tuple[str, ...] | None
    group_size: int
    size: int
    wire: float
    trips: float
    tensors: int
    shape: str
    op_name: str


def find_collectives(module: HloModule, mesh: Mesh | SliceMajor) -> list[FoundCollective]:
    """All collectives of a module that was compiled for `mesh`, or for one slice of it."""
    return [found for run in runs(module) for found in _in_run(run, mesh)]


def has_collective(computation: Computation) -> bool:
    """Whether a computation holds a collective itself."""
    return any(_kind(instruction) is not None for instruction in computation.instructions)


def wire_bytes(kind: Kind, size: float, group_size: int) -> float:
    """Bytes that each device sends for one collective over a ring of `group_size` devices."""
    return size * wire_factor(PredictedKind[kind.upper()], group_size)


def _kind(instruction: Instruction) -> Kind | None:
    return _KINDS.get(instruction.opcode.removesuffix("-start"))


def collective_of(
    run: Run, instruction: Instruction, mesh: Mesh | SliceMajor
) -> FoundCollective | None:
    """The collective that an instruction of a run is; None where it is none, or sends nothing."""
    if isinstance(mesh, SliceMajor) and (sent := slice_transfer(instruction, mesh)) is not None:
        return _transferred(run, instruction, sent, mesh)
    kind = _kind(instruction)
    if kind is None or _is_later_piece(instruction):
        return None
    if kind == "all_reduce" and _is_scattered(run.computation, instruction):
        kind = "reduce_scatter"
    found = _found(run, instruction, kind, mesh)
    return found if found.group_size > 1 else None


def _in_run(run: Run, mesh: Mesh | SliceMajor) -> Iterator[FoundCollective]:
    for instruction in run.computation.instructions:
        if (found := collective_of(run, instruction, mesh)) is not None:
            yield found


def _is_later_piece(instruction: Instruction) -> bool:
    piece = _PIECE.search(instruction.tail)
    return piece is not None and piece[1] != "-1"


def _is_scattered(computation: Computation, reduced: Instruction) -> bool:
    """Whether nothing is kept of an all-reduce but slices that its computation returns.

    Of several tensors that are reduced together each is sliced by itself.
    """
    root = computation.root
    kept = (root,) if root.opcode != "tuple" else map(computation.by_name.get, root.operands)
    return all(_is_slice_of(computation, result, reduced) for result in kept)


def _is_slice_of(
    computation: Computation, result: Instruction | None, reduced: Instruction
) -> bool:
    """Whether a result is what one dynamic-slice keeps of `reduced`, whatever its layout."""
    sliced = False
    while result is not None and result.name != reduced.name:
        if result.opcode == "dynamic-slice":
            sliced = True
        elif result.opcode not in _THROUGH:
            return False
        result = computation.operand(result, 0)
    return sliced and result is not None


def _found(
    run: Run, instruction: Instruction, kind: Kind, mesh: Mesh | SliceMajor
) -> FoundCollective:
    if isinstance(mesh, SliceMajor):
        mesh = mesh.inside
    attributes = instruction.attributes()
    size = run.computation.operand_bytes(instruction)
    axes: tuple[str, ...] | None
    if kind == "collective_permute":
        pairs = parse_pairs(attributes.get("source_target_pairs", "{}"))
        moving = any(source != target for source, target in pairs)
        axes, group = axes_of_pairs(pairs, mesh), 2 if moving else 1
    else:
        groups = parse_groups(
            attributes.get("replica_groups", ""), mesh.devices, attributes.get("device_ids", "")
        )
        axes, group = axes_of_groups(groups, mesh), len(groups[0])
    if kind == "all_gather":
        size *= group
    return FoundCollective(
        kind=kind,
        axes=axes,
        group_size=group,
        size=size,
        wire=wire_bytes(kind, size, group),
        trips=run.trips,
        tensors=len(instruction.shapes),
        shape=", ".join(f"{s.dtype}{list(s.dims)}" for s in instruction.shapes[:4]),
        op_name=_op_name(run, instruction),
    )


def _transferred(
    run: Run, instruction: Instruction, sent: SliceTransfer, mesh: SliceMajor
) -> FoundCollective:
    """A collective between slices."""
    return FoundCollective(
        kind=sent.kind,
        axes=None if sent.axes is None else mesh.joined(sent.axes),
        group_size=sent.group_size,
        size=sent.size,
        wire=wire_bytes(sent.kind, sent.size, sent.group_size),
        trips=run.trips,
        tensors=1,
        shape=f"{instruction.shapes[0].dtype}{list(instruction.shapes[0].dims)}",
        op_name=_op_name(run, instruction),
    )


def _op_name(run: Run, instruction: Instruction) -> str:
    """Where it came from, by its own metadata or by that of the fusion around it."""
    for place in (instruction, run.caller):
        match = _OP_NAME.search(place.tail) if place is not None else None
        if match is not None:
            return match[1]
    return ""
