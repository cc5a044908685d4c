"""What the peer's own process reads off a step and off a compiled program, by this jax."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.planners import peer_child
from benchmarks.planners.models import models
from examples.models import itx
from toast.aot import Memory
from toast.aot.dump import memory_report

REPORT = "Memory Space: default (color=0)\nTotal bytes: 700\n\nMemory Space: vmem (color=1)\n"


def test_donated_arguments_stay_donated() -> None:
    arguments = itx.make_step(itx.PRESETS["tiny"]).lower().args_info[0]
    assert [peer_child.is_donated(one) for one in arguments] == [False, True, False, False]


@pytest.mark.parametrize("name", [name for name, model in models().items() if model.peer])
def test_every_program_can_be_jitted_anew(name: str) -> None:
    """The peer jits the plain function under a jitted one, with shardings of its own."""
    make = models()[name].make
    assert make is not None
    assert callable(make().function.__wrapped__)


def test_memory_is_what_the_compiler_says_and_what_it_reported(tmp_path: Path) -> None:
    sizes = {"argument": 1, "output": 2, "temp": 4, "alias": 0, "generated_code": 8}
    stats = SimpleNamespace(**{f"{name}_size_in_bytes": size for name, size in sizes.items()})
    assert Memory(**peer_child._memory(stats), **memory_report(tmp_path)._asdict()).total == 7
    (tmp_path / "a-memory-usage-report.txt").write_text(REPORT + "Total bytes: 90\n")
    found = Memory(**peer_child._memory(stats), **memory_report(tmp_path)._asdict())
    assert (found.main, found.on_chip, found.total) == (700, 90, 700)
