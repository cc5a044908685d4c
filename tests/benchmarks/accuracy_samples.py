"""Records of cases as the accuracy benchmark keeps them."""

from __future__ import annotations

import json
from typing import Any

from toast.aot import CompiledCollective, Memory, Refusal, Verdict

MIB = 2**20
GIB = 2**30


def record(
    key: str = "m data=8 mcts tpu-v5e:2x4",
    *,
    peak: float = 110 * MIB,
    main: int = 100 * MIB,
    wire: tuple[float, float] = (9.9e8, 9e8),
    seconds: tuple[float, float] = (0.4, 0.5),
    refused: Refusal | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A case of two all-gathers over `data`; `wire` and `seconds` are (predicted, compiled)."""
    model, mesh, plan, target = key.split(" ")
    memory = Memory(argument=60 * MIB, output=0, temp=0, alias=0, peak=0, main=main)
    rows = (
        CompiledCollective(
            kind="all_gather",
            axes=("data",),
            group_size=8,
            count=2,
            result_bytes=wire[1],
            wire_bytes=wire[1],
        ),
    )
    verdict = Verdict(
        target=target,
        devices=8,
        memory=None if refused else memory,
        refusal=refused,
        collectives=() if refused else rows if wire[1] else (),
        compute_seconds=None if refused else seconds[1],
    )
    moved = {"kind": "all_gather", "axes": ["data"], "count": 3, "bytes": wire[0], "seconds": 0.01}
    fields = {
        "key": key,
        "model": model,
        "mesh": mesh,
        "plan": plan,
        "target": target,
        "state": [],
        "module": f"digest of {key}",
        "predicted": {
            "compute_seconds": seconds[0],
            "communication_seconds": 0.01,
            "peak_bytes": peak,
            "fits": True,
            "collectives": [moved] if wire[0] else [],
        },
        "compiled": json.loads(json.dumps(verdict.to_dict())),
    }
    return fields | changes


def refusal(needed: int | None) -> Refusal:
    """A compiler's refusal of a program that needs so much."""
    return Refusal(message="no", needed=needed, available=15 * GIB)
