"""What workers do without on this machine: tried once at the start, with a process like theirs."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Mapping

from toast.process.child import User
from toast.process.confine import WITHOUT_CALLS, WITHOUT_NETWORK, Confinement
from toast.process.runner import python_module
from toast.process.traces import goes_out

_log = logging.getLogger("toast.service")

_SECONDS = 30.0


def wanted() -> dict[str, str]:
    """What workers are told to do without, as variables; spans have to reach their collector."""
    return WITHOUT_CALLS if goes_out(os.environ) else WITHOUT_NETWORK


def find_confinement(environment: Mapping[str, str], user: User | None) -> Confinement:
    """What of it a worker with this environment and user gets; the log says what is left open."""
    try:
        done = subprocess.run(
            python_module("toast.process.confine"),
            env=dict(environment),
            user=None if user is None else user.uid,
            group=None if user is None else user.gid,
            extra_groups=None if user is None else [],
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        found = Confinement(**json.loads(done.stdout))
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        _log.exception("it could not be found out what workers do without")
        found = Confinement(network=True)
    _say(found)
    return found


def _say(found: Confinement) -> None:
    if goes_out(os.environ):
        _log.warning("workers keep the network, for their traces go over it")
    elif found.network:
        _log.warning("workers keep the network: neither user namespaces nor libseccomp can be had")
    else:
        ways = {"a namespace": found.namespace, "a filter": found.filtered}
        said = " and ".join(way for way, used in ways.items() if used)
        _log.info("workers have no network (%s)", said)
    if not found.filtered:
        _log.warning("workers may make every call of the kernel: no libseccomp can be had")
