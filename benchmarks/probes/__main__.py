"""What the real compilers do, asked with small programs: `python -m benchmarks.probes run NAME`.

| command | what |
| --- | --- |
| `list` | the probes, what their figures are and for which targets they are kept |
| `run [NAME ...]` | compile the programs of these probes, or of all, and keep the figures |

`run` needs the compilers; where they are not installed it runs in the environment `.venv-aot`,
which it makes. Figures are kept in `data/NAME.json`, printed as JSON, and told where they differ
from those that were kept.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path

# Nothing here runs on an accelerator, and looking for one takes seconds.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from benchmarks.accuracy.environment import rerun
from benchmarks.probes.figures import DATA, read_figures
from benchmarks.probes.probe import Probe
from benchmarks.probes.registry import PROBES
from benchmarks.probes.running import run_probe
from toast.analysis.errors import ToastError


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given)
    unknown = [name for name in options.names if name not in PROBES]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(PROBES)}", file=sys.stderr)
        return 2
    chosen = [PROBES[name] for name in options.names or PROBES]
    if options.command == "list":
        return _list(chosen, options.data)
    if not importlib.util.find_spec("libtpu"):
        return rerun(given, program="benchmarks.probes")
    try:
        return _run(chosen, options)
    except ToastError as error:
        print(f"{error.message} {error.hint}", file=sys.stderr)
        return 2


def _list(chosen: list[Probe], data: Path) -> int:
    for probe in chosen:
        kept = [target for target in probe.targets if read_figures(probe.name, target, data)]
        print(f"{probe.name}: {probe.figures} ({len(probe.cases)} cases; {', '.join(kept)})")
    return 0


def _run(chosen: list[Probe], options: argparse.Namespace) -> int:
    from toast.search.kernel_cache import warm_kernels

    os.nice(10)  # the compiler takes every core
    warm_kernels()
    wanted = options.target.split(",") if options.target else None
    found = {
        probe.name: {
            target: run_probe(probe, target, options.data, options.cases, options.hlo)
            for target in wanted or probe.targets
        }
        for probe in chosen
    }
    print(json.dumps(found, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.probes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("list", "run"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="a probe; all if there is none")
    parser.add_argument("--target", help="compile for these only, such as tpu-v5e:2x4")
    parser.add_argument("--cases", nargs="+", default=(), help="only these cases of the probe")
    parser.add_argument("--data", type=Path, default=DATA, help="where figures are kept")
    parser.add_argument("--hlo", type=Path, help="keep the compiled HLO in this directory")
    return parser


if __name__ == "__main__":
    sys.exit(main())
