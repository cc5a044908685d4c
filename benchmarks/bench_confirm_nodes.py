"""How long confirming a plan takes with compilers here and on nodes of a Ray cluster.

    JAX_PLATFORMS=cpu python -m benchmarks.bench_confirm_nodes [--plans N] [MODULE ...]

For each module (StableHLO files; two examples where none is named) a plan is confirmed with no
verdict known before: by one compiler here, by two, and by one here and one on a node, which is on
this machine too. Needs the extras `aot` and `ray`; says so where they are not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.bench_searches import cluster_of
from benchmarks.bench_threads import DEVICE, MESH, modules
from toast.pipeline.plan_module import make_plan
from toast.plans.confirmation import Confirmation
from toast.process.limits import ClusterShare
from toast.request.request import PlanRequest
from toast.search.kernel_cache import warm_kernels


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("modules", nargs="*", type=Path, metavar="MODULE")
    parser.add_argument("--plans", type=int, default=4)
    given = parser.parse_args()
    console = Console(width=100)
    missing = [name for name in ("libtpu", "ray") if importlib.util.find_spec(name) is None]
    if missing:
        console.print(f"Not installed: {', '.join(missing)}; the extras aot and ray are needed")
        return
    warm_kernels()
    console.print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the start")
    columns = ("module", "compilers", "seconds", "plans compiled", "of them compiling, sum")
    table = Table(*columns, title=f"{given.plans} plans of a search, mesh {MESH}, {DEVICE}")
    with cluster_of(1) as cluster:
        for name, data in modules(given.modules).items():
            for words, threads, where in (
                ("1 here", 1, None),
                ("2 here", 2, None),
                ("1 here, 1 on a node", 1, cluster),
            ):
                table.add_row(name, words, *cells(confirmed(data, given.plans, threads, where)))
    console.print(table)


def confirmed(
    module: bytes, plans: int, threads: int, cluster: ClusterShare | None
) -> Confirmation:
    """What was compiled, with an empty cache of verdicts."""
    request = PlanRequest(
        mesh=MESH, device=DEVICE, threads=threads, rollouts=400, confirm=plans, advice=False
    )
    with tempfile.TemporaryDirectory(prefix="toast-verdicts-") as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        found = make_plan(module, request, cluster=cluster).plan.confirmed
    assert found is not None
    return found


def cells(found: Confirmation) -> tuple[str, ...]:
    """The figures of one row."""
    spent = [row.compiled.compile_seconds for row in found.plans if row.compiled is not None]
    return f"{found.seconds:.1f}", str(len(spent)), f"{sum(spent):.1f}"


if __name__ == "__main__":
    main()
