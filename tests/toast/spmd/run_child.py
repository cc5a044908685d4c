"""Runs pipelines on eight virtual devices, whose number a process chooses at its start.

python -m tests.toast.spmd.run_child [more | export]
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from tests.toast.spmd.steps import deviation_of_export, outcome

LAID_OUT = {
    "weights over an axis": ("plain", "pipe=2,data=2,model=2", 4, "weights over model"),
    "weights over two axes": ("plain", "pipe=2,data=2,model=2", 2, "weights over both"),
    "gpt with weights over an axis": ("gpt", "pipe=2,data=2,model=2", 4, "weights over model"),
    "stages on a middle axis": ("checkpointed", "data=2,pipe=2,model=2", 4, "weights over model"),
    "axes that a microbatch cannot have": (
        "plain", "pipe=2,data=2,model=2", 4, "a batch that is too small",
    ),
}  # fmt: skip
"""With layouts of a planner."""
CASES: dict[str, tuple[Any, ...]] = {
    "forward": ("forward", "pipe=2", 4),
    "one microbatch": ("plain", "pipe=4", 1),
    "layers that know their number": ("numbered", "pipe=2", 4),
    "layers that hand on what has no batch": ("counted", "pipe=4", 4),
    "a loop by its counter": ("indexed", "pipe=4", 2),
    "the last layer first": ("backwards", "pipe=2", 2),
    "layers that begin with zeros": ("zeros", "pipe=2", 4),
    "training": ("plain", "pipe=2", 8),
    "stages along an inner axis": ("plain", "data=2,pipe=4", 4),
    "checkpointed layers": ("checkpointed", "pipe=4", 4),
    "shared weights and a sum": ("shared", "pipe=4", 4),
    "bf16 and a mask": ("mixed", "pipe=2,data=2", 2),
    "gpt": ("gpt", "pipe=4", 4),
    "two axes beside the stages": ("plain", "pipe=2,data=2,model=2", 2),
    "data beside layers": ("data", "pipe=2", 2),
    **LAID_OUT,
}
MORE = {
    "t2b": ("t2b", "pipe=2,data=2,model=2", 2),
    "gpt on three axes": ("gpt", "pipe=2,data=2,model=2", 2),
    "gpt in two parts": ("gpt", "pipe=4", 2),
    "gpt in eight parts": ("gpt", "pipe=4", 8),
    "t2b in eight parts": ("t2b", "pipe=2", 8),
    "t2b with a stage a layer": ("t2b", "pipe=4,data=2", 4),
}
"""Of the models; they take longer."""


def main() -> None:
    """Print what came of each case, or of a step that `jax.export` wrote."""
    if sys.argv[1:] == ["export"]:
        sys.stdout.write(json.dumps(deviation_of_export()))
        return
    cases = MORE if sys.argv[1:] == ["more"] else CASES
    found = {name: asdict(outcome(*case)) for name, case in cases.items()}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
