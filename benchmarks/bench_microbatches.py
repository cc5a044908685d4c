"""What planning takes with microbatches, beside planning the step as it is.

    python -m benchmarks.bench_microbatches [--rollouts N] [MODULE ...]

Each module is planned on 2 x 4 chips of a v5e as it is, in 4 microbatches, with `auto`, and with
`fit` where nothing fits: with less memory than any layout takes. Counted are seconds of one core,
kernels compiled before, with one thread of the search. Without modules: GPT and Gemma 2B, unrolled.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from examples.forms import serialize
from examples.models import MODELS
from toast.pipeline.plan_module import make_plan
from toast.plans.plan import Plan
from toast.request.request import PlanRequest
from toast.search.kernel_cache import warm_kernels

EXAMPLES = (("gpt", "paper"), ("t2b", "paper"))
TIGHT = 0.9
"""Of the least peak that a layout has: with so much memory nothing fits."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("modules", nargs="*", type=Path, metavar="MODULE")
    parser.add_argument("--rollouts", type=int, help="until the search converges when absent")
    given = parser.parse_args()
    warm_kernels(lambda _share: None)
    table = Table("module", "settings", "seconds", "of as it is", "microbatches", "fits")
    for name, module in modules(given.modules).items():
        rows(table, name, module, given.rollouts)
    Console(width=100).print(table)


def modules(paths: list[Path]) -> dict[str, bytes]:
    """The modules to plan, by name."""
    if paths:
        return {path.stem: path.read_bytes() for path in paths}
    steps = {
        f"{name}_{preset}": MODELS[name].make_step(MODELS[name].config(preset))
        for name, preset in EXAMPLES
    }
    return {name: serialize(step, "bytecode") for name, step in steps.items()}


def rows(table: Table, name: str, module: bytes, rollouts: int | None) -> None:
    """Plan one module in each way."""
    plain, whole = timed(module, rollouts, {})
    least, tight = timed(module, rollouts, {"memory": 2**20})
    memory = int(least.predicted.peak_bytes * TIGHT)
    cases: dict[str, tuple[Mapping[str, Any], float]] = {
        "4 microbatches": ({"microbatches": 4}, whole),
        "auto": ({"microbatches": "auto"}, whole),
        "fit": ({"memory": memory, "fit": True}, tight),
    }
    table.add_row(name, "as it is", f"{whole:.2f}", "", "", _yes(plain.fits))
    for what, (settings, base) in cases.items():
        plan, seconds = timed(module, rollouts, settings)
        count = 1 if plan.time is None else plan.time.microbatches
        ratio = f"{seconds / base:.2f}"
        table.add_row(name, what, f"{seconds:.2f}", ratio, str(count), _yes(plan.fits))


def timed(module: bytes, rollouts: int | None, settings: Mapping[str, Any]) -> tuple[Plan, float]:
    """A plan, and the seconds of one core that it took."""
    request = PlanRequest(
        mesh="data=2,model=4", threads=1, rollouts=rollouts, advice=False, **settings
    )
    clock = time.process_time()
    plan = make_plan(module, request).plan
    return plan, time.process_time() - clock


def _yes(fits: bool) -> str:
    return "yes" if fits else "no"


if __name__ == "__main__":
    main()
