"""Every benchmark runs from its command line to its end, at the smallest size there is."""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench_evaluator, shardcombine
from benchmarks.fit.programs import Example, ours
from examples import gemma
from examples.models import gpt
from tests.modules import DATA

BENCHMARKS = Path(bench_evaluator.__file__).parent
PAGES = BENCHMARKS.parent / "docs"
MLP = str(DATA / "mlp.mlir")
SMALL_PROBLEM = {
    "problem": {
        "name": "two",
        "nodes": {
            "intervals": [[0, 2], [1, 3]],
            "costs": [[1, 5], [2, 0]],
            "usages": [[10, 1], [10, 1]],
        },
        "edges": {"nodes": [[0, 1]], "costs": [[0, 7, 9, 1]]},
        "usage_limit": 11,
    }
}

TINY = ours(
    "two layers",
    "data=8",
    "gpt",
    Example(source=gpt, block="layer", config=gpt.PRESETS["tiny"], static=(0,)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoke:
    """A run of a program: its arguments, `PATH` a folder of its own, and what it prints."""

    program: str
    arguments: tuple[str, ...] = ()
    prints: str = ""
    writes: str = ""
    smaller: dict[str, Any] = field(default_factory=dict)


SLOW = (
    "bench_evaluator",
    "bench_searches",
    "bench_second_call",
    "bench_service_load",
    "shardcombine",
)
"""They take a quarter of a minute each, small as they are."""
RUNS = {
    "bench_analysis": Smoke(
        program="bench_analysis", arguments=("--layers", "1"), prints="gemma, 1 layer"
    ),
    "bench_evaluator": Smoke(
        program="bench_evaluator",
        arguments=("--repeats", "1"),
        prints="One evaluation",
        smaller={"STATES": 20, "ROLLOUTS": 200, "RUNS": 2},
    ),
    "bench_pipeline": Smoke(
        program="bench_pipeline",
        arguments=("--layers", "2", "--devices", "2", "--microbatches", "2"),
        prints="of this process",
        smaller={"WIDTH": 16, "HEADS": 2, "BATCH": 4, "SEQUENCE": 8, "VOCABULARY": 32},
    ),
    "bench_plan": Smoke(
        program="bench_plan", arguments=("--repeats", "1", MLP), prints="Seconds by stage"
    ),
    "bench_microbatches": Smoke(
        program="bench_microbatches", arguments=("--rollouts", "50", MLP), prints="4 microbatches"
    ),
    "bench_first_progress": Smoke(
        program="bench_first_progress", arguments=("--jobs", "1"), prints="first progress after"
    ),
    "bench_second_call": Smoke(
        program="bench_second_call",
        arguments=("--runs", "1", str(BENCHMARKS.parent / "examples/training/jax_step.py")),
        prints="Seconds of the first call",
    ),
    "bench_service_load": Smoke(
        program="bench_service_load",
        arguments=("--polls", "20", "--streams", "5", "--upload", "1", "--seconds", "0.5"),
        prints="and 5 streams",
    ),
    "distir run": Smoke(
        program="distir",
        arguments=(
            *("run", "--data", "PATH", "--programs", "MLP, batch 256"),
            *("--ways", "2/1/1/1,1/1/2/2", "--rounds", "1"),
        ),
        writes="mlp-batch-256.json",
    ),
    "distir report": Smoke(program="distir", arguments=("report",), prints="rank correlation"),
    "distir write": Smoke(
        program="distir", arguments=("write", "--docs", "PATH"), writes="distir.md"
    ),
    "proof report": Smoke(program="proof", arguments=("report",), prints=" cases: "),
    "proof write": Smoke(program="proof", arguments=("write", "--docs", "PATH"), writes="proof.md"),
    "bench_confirm_nodes": Smoke(
        program="bench_confirm_nodes",
        arguments=("--plans", "1", MLP),
        prints="1 on a node"
        if all(map(importlib.util.find_spec, ("libtpu", "ray")))
        else "Not installed: libtpu",
    ),
    "recompute": Smoke(
        program="recompute",
        arguments=("gpt",),
        smaller={"SIZES": {"gpt": {"layers": 2, "d_model": 64, "heads": 8, "batch": 8, "seq": 32}}},
        prints="jax.checkpoint",
    ),
    "fit run": Smoke(
        program="fit",
        arguments=("run", "--data", "PATH/new"),
        smaller={"PROGRAMS": {"tiny": TINY}},
        prints="by hand, ",
        writes="new/tpu-v5e-2x4.jsonl",
    ),
    "fit show": Smoke(program="fit", arguments=("show",), prints="toast --fit"),
    "fit write": Smoke(
        program="fit", arguments=("write", "--docs", "PATH/docs"), writes="docs/fit.md"
    ),
    "bench_searches": Smoke(
        program="bench_searches",
        arguments=("--seeds", "1", "--searches", "2", "--", MLP),
        prints="here and 1 nodes" if importlib.util.find_spec("ray") else "Ray is not installed",
    ),
    "bench_threads": Smoke(
        program="bench_threads",
        arguments=("--seeds", "1", "--threads", "2", MLP),
        prints="mean C(s)",
    ),
    "accuracy report": Smoke(
        program="accuracy", arguments=("report", "--verbose"), prints="# Held-out models"
    ),
    "accuracy write": Smoke(
        program="accuracy", arguments=("write", "--docs", "PATH"), writes="accuracy.md"
    ),
    "accuracy reprice": Smoke(program="accuracy", arguments=("reprice", "--data", "PATH")),
    "zoo report": Smoke(
        program="zoo",
        arguments=("report", "--verbose", "--by", "kind"),
        prints="Memory with room and pressed",
    ),
    "zoo write": Smoke(program="zoo", arguments=("write", "--docs", "PATH"), writes="zoo.md"),
    "zoo reprice": Smoke(program="zoo", arguments=("reprice", "--data", "PATH")),
    "planners report": Smoke(program="planners", arguments=("report",), prints="| "),
    "planners write": Smoke(
        program="planners", arguments=("write", "--docs", "PATH"), writes="planners.md"
    ),
    "confirming report": Smoke(
        program="confirming", arguments=("report",), prints="slower than the best control"
    ),
    "confirming write": Smoke(
        program="confirming", arguments=("write", "--docs", "PATH"), writes="confirm.md"
    ),
    "scaling write": Smoke(
        program="scaling", arguments=("write", "--docs", "PATH"), writes="scaling.md"
    ),
    "search_settings write": Smoke(
        program="search_settings",
        arguments=("write", "--docs", "PATH"),
        writes="search-settings.md",
    ),
    "prices check": Smoke(program="prices", arguments=("check", "--models", "itx_tiny")),
    "probes list": Smoke(program="probes", arguments=("list",), prints="all_reduce_combiner: "),
    "instances": Smoke(program="instances", arguments=("table",), prints="above the bound"),
    "contest": Smoke(
        program="contest",
        arguments=("PATH", "--problems", "A", "--save", "PATH"),
        prints="| A |",
        writes="A.solution.json",
    ),
    "shardcombine": Smoke(
        program="shardcombine",
        arguments=("--preset", "tiny", "-o", "PATH/page.md"),
        writes="page.md",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all that a run may want to read."""
    (tmp_path / "A.json.gz").write_bytes(gzip.compress(json.dumps(SMALL_PROBLEM).encode()))
    for page in ("planners.md", "confirm.md"):
        shutil.copy(PAGES / page, tmp_path)
    kept = (BENCHMARKS / "accuracy" / "data" / "tpu-v5e-2x4.jsonl").read_text().splitlines()
    (tmp_path / "some.jsonl").write_text(
        next(line for line in kept if '"model": "unet_tiny"' in line) + "\n"
    )
    return tmp_path


# Ray forks to start its own processes; JAX, which an earlier test loaded, warns of that.
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.nightly] if name in SLOW else []) for name in RUNS],
)
def test_a_benchmark_runs_to_its_end(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RUNS[name]
    package = (BENCHMARKS / run.program).is_dir()
    module: Any = importlib.import_module(
        f"benchmarks.{run.program}{'.__main__' if package else ''}"
    )
    for constant, value in run.smaller.items():
        monkeypatch.setattr(module, constant, value)
    monkeypatch.setitem(gemma.PRESETS, "gemma_2b", gemma.PRESETS["tiny"])
    monkeypatch.setattr(shardcombine, "other_ops", lambda: ())
    arguments = [argument.replace("PATH", str(folder)) for argument in run.arguments]
    monkeypatch.setattr(sys, "argv", [run.program, *arguments])
    assert module.main() in (None, 0)
    assert run.prints in capsys.readouterr().out
    assert (folder / run.writes).exists()


@pytest.mark.nightly
def test_kernels_are_measured_in_the_process_that_compiled_them(tmp_path: Path) -> None:
    """Functions of an entry that was optimised here are not taken for those of the benchmark."""
    code = (
        "import sys; from benchmarks import bench_evaluator as b; from examples import gemma;"
        "gemma.PRESETS['gemma_2b'] = gemma.PRESETS['tiny'];"
        "b.STATES, b.ROLLOUTS, b.RUNS = 20, 200, 2; sys.argv = ['b', '--repeats', '1']; b.main()"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd=BENCHMARKS.parent)


def test_every_benchmark_has_such_a_run() -> None:
    programs = {path.stem for path in BENCHMARKS.glob("bench_*.py")}
    programs |= {path.parent.name for path in BENCHMARKS.glob("*/__main__.py")}
    programs |= {path.stem for path in BENCHMARKS.glob("*.py") if "def main(" in path.read_text()}
    programs -= {"analysis_child"}  # the child process of bench_analysis
    assert programs == {run.program for run in RUNS.values()}
