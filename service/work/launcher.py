"""Starts worker processes: as whom, in which group, with what in their environment."""

from __future__ import annotations

import os
import pwd
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from toast.process.child import Child, User
from toast.process.outcome import EngineOutOfMemory, Outcome
from toast.process.runner import engine_command, engine_environment
from toast.service.settings import ServiceSettings
from toast.service.work.cgroups import Cgroup, find_cgroups

SPARE = "--spare"
_PIDS = 2048
"""Threads count: a search has one a core, and a compiler several."""


class UnknownUser(ValueError):
    """Workers cannot run as that user; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProcess:
    """A worker process and its group, where it has one."""

    child: Child
    group: Cgroup | None

    def close(self) -> None:
        """End the process and whatever it started."""
        self.child.kill()
        if self.group is not None:
            self.group.close()

    def explain(self, outcome: Outcome, limit: int) -> Outcome:
        """The outcome, corrected where the kernel ended the process for its memory."""
        if outcome.has_plan or self.group is None or not self.group.ran_out_of_memory():
            return outcome
        error = EngineOutOfMemory(
            f"The engine used more memory than the limit of {limit / 2**20:,.0f} MiB.",
            "Raise the limit, or give the module without its large constants.",
        )
        return replace(outcome, status="out_of_memory", error=error)


class Launcher:
    """Starts workers as the settings say. Call it in a thread that outlives them."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._command = settings.engine_command
        self._user = find_user(settings.worker_user)
        self._cgroups = find_cgroups(
            memory=settings.memory_limit, pids=_PIDS, cpus=settings.worker_cpus
        )

    def start(self, argument: str) -> WorkerProcess:
        """A process for one directory, or (`SPARE`) one that waits for its directory."""
        command = [*self._command, argument] if self._command else engine_command(argument)
        environment = engine_environment()
        if self._user is not None:
            environment |= {"HOME": "/nonexistent", "USER": str(self._user.uid)}
        child = Child(command, environment, self._user)
        try:
            group = self._cgroups.make() if self._cgroups else None
            if group is not None:
                group.add(child.pid)
        except OSError:
            child.kill()
            raise
        return WorkerProcess(child=child, group=group)

    def hand_over(self, directory: Path) -> None:
        """Give the directory of an attempt, with what is in it, to the user of the workers."""
        if self._user is None:
            return
        module = directory / "module"
        if module.stat().st_nlink > 1:  # the stored file itself, which stays ours
            copy = directory / "module.copy"
            shutil.copyfile(module, copy)
            copy.replace(module)
        for path in (directory, *directory.iterdir()):
            os.chown(path, self._user.uid, self._user.gid)


def find_user(name: str | None) -> User | None:
    """The user of that name or number; raises `UnknownUser`."""
    if name is None:
        return None
    try:
        found = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except KeyError as error:
        raise UnknownUser(f"there is no user {name!r} for workers to run as") from error
    if os.geteuid() != 0:
        raise UnknownUser(f"only root may run workers as {name!r}; leave --worker-user out")
    if found.pw_uid == 0:
        raise UnknownUser("workers as root would be no safer; name another user")
    return User(uid=found.pw_uid, gid=found.pw_gid)
