"""Runs pipelines on virtual devices, whose number a process chooses at its start.

python -m tests.toast.stages.run_child FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.toast.stages.steps import deviation
from toast.stages.cut import Cutting

CASES = {
    "one f one b": ("training", Cutting(stages=2, microbatches=4), "1f1b"),
    "gpipe": ("training", Cutting(stages=2, microbatches=4), "gpipe"),
    "a stage a layer": ("training", Cutting(stages=4, microbatches=2), "1f1b"),
    "interleaved": ("training", Cutting(stages=2, chunks=2, microbatches=4), "interleaved"),
    "uneven cuts": ("training", Cutting(stages=2, microbatches=8, cuts=(1,)), "1f1b"),
    "one stage": ("training", Cutting(stages=1, microbatches=2), "gpipe"),
    "inference": ("inference", Cutting(stages=4, microbatches=4), "1f1b"),
}


def main(folder: Path) -> None:
    """Print how far each case is off."""
    found = {
        name: deviation(step, cutting, schedule, folder / name)
        for name, (step, cutting, schedule) in CASES.items()
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
