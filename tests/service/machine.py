"""What the machine of the tests lets a process do without."""

from __future__ import annotations

import json
import subprocess
from functools import cache

from tests.service.harness import ROOT
from toast.process.confine import WITHOUT_NETWORK
from toast.process.runner import engine_environment, python_module

_WAYS = {
    "namespace": "NETWORK NAMESPACES NOT TESTED: this machine lets nobody make one",
    "filtered": "FILTER OF CALLS NOT TESTED: there is no libseccomp.so.2",
}


@cache
def missing(way: str) -> str | None:
    """Why a process cannot be confined that way here, None where it can."""
    done = subprocess.run(
        python_module("toast.process.confine"),
        env=engine_environment() | WITHOUT_NETWORK,
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return None if json.loads(done.stdout)[way] else _WAYS[way]
