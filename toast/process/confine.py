"""What a process that parses the modules of strangers gives up before it begins.

`python -m toast.process.confine` says, as JSON, what of it this machine lets a process give up.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from dataclasses import asdict, dataclass

from toast.process.namespaces import leave_network
from toast.process.syscalls import filter_calls

_PR_SET_NO_NEW_PRIVS = 38
_WITHOUT = "_TOAST_WITHOUT"
WITHOUT_CALLS, WITHOUT_NETWORK = {_WITHOUT: "calls"}, {_WITHOUT: "network"}
"""What a parent adds to the environment of a process that is to do without calls of the kernel that
no engine needs, or without them and without network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a process has left.

    `network`: it may reach others; `namespace`: it is in a network of its own, which is empty;
    `filtered`: the kernel refuses it what no engine needs.
    """

    network: bool
    namespace: bool = False
    filtered: bool = False


def confine() -> Confinement:
    """Never gain rights by starting a program, and leave no memory image behind.

    Where the parent said so, do without calls of the kernel and without network too, as far as this
    machine lets a process. Call it before there is a second thread.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    without = os.environ.pop(_WITHOUT, "")  # children inherit it without being told
    if sys.platform != "linux":
        return Confinement(network=True)
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if not without:
        return Confinement(network=True)
    namespace = without == "network" and leave_network()
    filtered = filter_calls(sockets=without == "network")
    network = without != "network" or not (namespace or filtered)
    return Confinement(network=network, namespace=namespace, filtered=filtered)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(confine())) + "\n")
