"""What several searches of one job find and cost: one after another, and at once on a Ray cluster.

    python -m benchmarks.bench_searches [--searches N ...] [--seeds N] [MODULE ...]

For each module (StableHLO files; two examples where none is named) whole jobs are planned with 1, 2
and 4 searches, here and on a cluster of as many nodes as there are other searches, each of one
processor and all on this machine. A job has one thread. The table has the wall-clock time of a job
(the median over the seeds), that of its search alone, rollouts, and the cost C(s) of the plan in
the mean and at worst. More nodes than the machine has processors gain nothing; the line above the
table says how many those are. Without Ray only the first half is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.bench_threads import DEVICE, MESH, modules
from toast.pipeline.plan_module import make_plan
from toast.plans.plan import Plan
from toast.process.limits import ClusterShare
from toast.request.request import PlanRequest
from toast.search.kernel_cache import warm_kernels

_STORE_BYTES = 200 << 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("modules", nargs="*", type=Path, metavar="MODULE")
    parser.add_argument("--searches", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warm_kernels()
    console = Console(width=110)
    console.print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the start")
    columns = ("module", "searches", "where", "seconds", "of search", "rollouts", "mean C(s)")
    table = Table(*columns, "worst C(s)", title=f"{given.seeds} seeds, mesh {MESH}, {DEVICE}")
    for name, data in modules(given.modules).items():
        for count in given.searches:
            table.add_row(name, str(count), "here", *cells(data, count, given.seeds, None))
    if importlib.util.find_spec("ray") is None:
        console.print("Ray is not installed: pip install 'toast-planner[ray]'")
    else:
        _add_cluster_rows(table, given)
    console.print(table)


def _add_cluster_rows(table: Table, given: argparse.Namespace) -> None:
    others = max(given.searches) - 1
    if others == 0:
        return
    with cluster_of(others) as cluster:
        for name, data in modules(given.modules).items():
            for count in given.searches:
                if count > 1:
                    row = cells(data, count, given.seeds, cluster)
                    table.add_row(name, str(count), f"here and {count - 1} nodes", *row)


@contextlib.contextmanager
def cluster_of(nodes: int) -> Iterator[ClusterShare]:
    """A cluster on this machine, of nodes of one processor."""
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES)
        yield ClusterShare(address=cluster.address)
    finally:
        ray.shutdown()
        cluster.shutdown()


def cells(
    module: bytes, searches: int, seeds: int, cluster: ClusterShare | None
) -> tuple[str, ...]:
    """The figures of one row."""
    runs = [timed(module, searches, 100 * seed, cluster) for seed in range(seeds)]
    plans = [plan for plan, _ in runs]
    assert all(plan.search.searches == searches for plan in plans), "a search was lost"
    costs = [plan.search.cost for plan in plans]
    return (
        f"{statistics.median(spent for _, spent in runs):.2f}",
        f"{statistics.median(plan.search.seconds for plan in plans):.2f}",
        f"{statistics.median(plan.search.rollouts for plan in plans):,.0f}",
        f"{statistics.mean(costs):.6f}",
        f"{max(costs):.6f}",
    )


def timed(
    module: bytes, searches: int, seed: int, cluster: ClusterShare | None
) -> tuple[Plan, float]:
    """A plan, and the seconds until it was there."""
    request = PlanRequest(
        mesh=MESH, device=DEVICE, seed=seed, searches=searches, threads=1, advice=False
    )
    started = time.perf_counter()
    plan = make_plan(module, request, cluster=cluster).plan
    return plan, time.perf_counter() - started


if __name__ == "__main__":
    main()
