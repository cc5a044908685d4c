"""Compile the cases of a probe, one at a time, and read their figures."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.probes.figures import DATA, keep_figures, read_figures
from benchmarks.probes.probe import Case, Compiled, Probe
from toast.analysis.errors import ToastError
from toast.aot import Target, judge
from toast.costmodel.network.mesh import Mesh

DEADLINE = 900.0
"""Seconds after which a compilation is given up."""


def run_probe(
    probe: Probe,
    target: str,
    folder: Path = DATA,
    cases: Sequence[str] = (),
    hlo: Path | None = None,
) -> dict[str, Any]:
    """Compile a probe for a target and keep its figures; returns those of these cases, or of all.

    A figure that differs from the one that was kept is told on stderr. `hlo` keeps the compiled
    texts.
    """
    kept, found = read_figures(probe.name, target, folder), {}
    for name, figure in measure(probe, target, cases, hlo):
        found[name] = figure
        before = f", was {kept[name]}" if kept.get(name, figure) != figure else ""
        print(f"{probe.name} {target} {name}: {figure}{before}", file=sys.stderr, flush=True)
        still = {key: value for key, value in (kept | found).items() if key in probe.cases}
        keep_figures(probe.name, target, compiler_of(Target.parse(target)), still, folder)
    return found


def measure(
    probe: Probe, target: str, cases: Sequence[str] = (), hlo: Path | None = None
) -> Iterator[tuple[str, Any]]:
    """The figures of these cases of a probe, or of all."""
    for name in cases or probe.cases:
        compiled = _compiled(probe.cases[name], Target.parse(target))
        if isinstance(compiled, str):
            yield name, compiled
            continue
        if hlo is not None:
            hlo.mkdir(parents=True, exist_ok=True)
            (hlo / f"{probe.name}.{name}.{target}.hlo").write_text(compiled.text)
        yield name, json.loads(json.dumps(probe.cases[name].read(compiled)))


def _compiled(case: Case, target: Target) -> Compiled | str:
    """What the compiler makes of a case, or why it refuses to make anything."""
    mesh = Mesh.parse(case.mesh)
    with tempfile.TemporaryDirectory(prefix="toast-probe-") as name:
        text = Path(name) / "compiled.hlo"
        module = case.module(str(target))
        try:
            verdict = judge(module, target, mesh, deadline_s=DEADLINE, keep_hlo=text)
        except ToastError as error:
            if error.code != "invalid_module":
                raise
            return f"refused: {error.message.splitlines()[0]}"
        written = text.read_text() if text.exists() else ""
    return Compiled(target=target, mesh=mesh, verdict=verdict, text=written)


def compiler_of(target: Target) -> str:
    """The name and the version of the compiler for a target."""
    name = "libtpu" if target.chip.platform == "tpu" else "jax-cuda12-plugin"
    return f"{name} {metadata.version(name)}"
