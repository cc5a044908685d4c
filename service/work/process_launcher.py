"""Starts worker processes: as whom, in which group, with what in their environment."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

from toast.process.child import Child, User
from toast.process.runner import engine_command, engine_environment
from toast.service.settings import ServiceSettings
from toast.service.work.cgroups import find_cgroups
from toast.service.work.confinement import find_confinement, wanted
from toast.service.work.launcher import Launcher, WorkerProcess, limits_of

_PIDS = 2048
"""Threads count: a search has one a core, and a compiler several."""


class UnknownUser(ValueError):
    """Workers cannot run as that user; the text says why."""


class ProcessLauncher(Launcher):
    """Starts engines on this machine, as the settings say."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._limits = limits_of(settings)
        self._command = settings.engine_command
        self._user = find_user(settings.worker_user)
        self._cgroups = find_cgroups(
            memory=settings.memory_limit, pids=_PIDS, cpus=settings.worker_cpus
        )
        if not self._command:
            self.confinement = find_confinement(self._environment(), self._user)

    def start(self, argument: str) -> WorkerProcess:
        """A process for one directory, or (`SPARE`) one that waits for its directory."""
        command = [*self._command, argument] if self._command else engine_command(argument)
        child = Child(command, self._environment(), self._user)
        try:
            group = self._cgroups.make() if self._cgroups else None
            if group is not None:
                group.add(child.pid)
        except OSError:
            child.kill()
            raise
        return WorkerProcess(child=child, limits=self._limits, group=group)

    def _environment(self) -> dict[str, str]:
        environment = engine_environment()
        if self._user is not None:
            environment |= {"HOME": "/nonexistent", "USER": str(self._user.uid)}
        return environment if self._command else environment | wanted()

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
