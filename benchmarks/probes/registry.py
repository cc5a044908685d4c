"""All probes by name: every module beside this one that has a `PROBE`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import benchmarks.probes
from benchmarks.probes.probe import Probe


def _found() -> dict[str, Probe]:
    names = [one.name for one in iter_modules(benchmarks.probes.__path__)]
    modules = {
        name: vars(import_module(f"benchmarks.probes.{name}"))
        for name in sorted(names)
        if not name.startswith("_")
    }
    probes = {name: module.get("PROBE") for name, module in modules.items()}
    return {name: probe for name, probe in probes.items() if isinstance(probe, Probe)}


PROBES = _found()
