"""Limits that the kernel keeps: a control group (version 2) for each worker process.

They need a group that we may write to, such as that of a systemd unit with `Delegate=yes` or of a
container with its own. Where there is none, the runner watches the memory of its process.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import time
from pathlib import Path

_log = logging.getLogger("toast.service")

_NEEDED = frozenset({"memory", "pids"})
_PERIOD = 100_000
"""Microseconds over which processor time is shared out."""
_numbers = itertools.count(1)


class Cgroup:
    """The group of one worker process and of what it starts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, pid: int) -> None:
        """Put a process that has just started into the group; one that is gone is no error."""
        with contextlib.suppress(ProcessLookupError):
            (self._path / "cgroup.procs").write_text(str(pid))

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed a process of the group for its memory."""
        with contextlib.suppress(OSError):
            for line in (self._path / "memory.events").read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count) > 0
        return False

    def close(self) -> None:
        """Kill what is left in the group, however it got away, and remove it."""
        with contextlib.suppress(OSError):
            (self._path / "cgroup.kill").write_text("1")
        for _ in range(20):  # the kernel takes a moment to bury the dead
            try:
                self._path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)
            else:
                return
        _log.warning("the control group %s could not be removed", self._path)


class Cgroups:
    """Makes groups below the one that this process was started in."""

    def __init__(self, root: Path, *, memory: int, pids: int, cpus: float | None) -> None:
        self._root = root
        self._limits = {
            "memory.max": str(memory),
            "memory.swap.max": "0",
            "memory.oom.group": "1",
            "pids.max": str(pids),
        }
        if cpus is not None:
            self._limits["cpu.max"] = f"{round(cpus * _PERIOD)} {_PERIOD}"

    def make(self) -> Cgroup:
        """A group with the limits set, still empty."""
        path = self._root / f"worker-{os.getpid()}-{next(_numbers)}"
        path.mkdir()
        for name, value in self._limits.items():
            # Swap and groups are not accounted on every kernel; the rest was tried at the start.
            with contextlib.suppress(FileNotFoundError):
                (path / name).write_text(value)
        return Cgroup(path)


def find_cgroups(*, memory: int, pids: int, cpus: float | None) -> Cgroups | None:
    """Groups with these limits, or None where we may not make any; the log says which."""
    own = own_group()
    if own is None or not _prepare(own):
        _log.info("no writable control group (version 2): worker memory is watched instead")
        return None
    cgroups = Cgroups(own, memory=memory, pids=pids, cpus=cpus)
    try:
        cgroups.make().close()
    except OSError as error:
        _log.info("control groups cannot be used (%s): worker memory is watched instead", error)
        return None
    _log.info("workers are limited by control groups below %s", own)
    return cgroups


def own_group(proc: Path = Path("/proc/self")) -> Path | None:
    """The folder of the group that this process is in, where version 2 is mounted."""
    try:
        lines = (proc / "cgroup").read_text().splitlines()
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:
        return None
    names = [line[3:] for line in lines if line.startswith("0::")]
    for mount in mounts:
        fields, _, rest = mount.partition(" - ")
        if names and rest.startswith("cgroup2 "):
            root, point = fields.split()[3:5]
            name = names[0].removeprefix(root.rstrip("/"))
            return Path(point) / name.lstrip("/")
    return None


def _prepare(group: Path) -> bool:
    """Hand the controllers down; processes may then be in groups below only, so we move too."""
    try:
        offered = set((group / "cgroup.controllers").read_text().split())
        if not offered >= _NEEDED:
            return False
        server = group / "server"
        server.mkdir(exist_ok=True)
        (server / "cgroup.procs").write_text(str(os.getpid()))
        wanted = sorted(offered & (_NEEDED | {"cpu"}))
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))
    except OSError:
        return False
    return True
