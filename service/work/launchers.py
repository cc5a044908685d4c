"""Which launcher the settings ask for, and whether it can be had."""

from __future__ import annotations

from toast.cluster.connection import ClusterMissing, check_installed
from toast.service.settings import ServiceSettings
from toast.service.work.launcher import Launcher
from toast.service.work.process_launcher import ProcessLauncher, UnknownUser, find_user
from toast.service.work.ray_launcher import RayLauncher


class BadLauncher(ValueError):
    """Jobs cannot be run as the settings ask; the text says why."""


def make_launcher(settings: ServiceSettings) -> Launcher:
    """The launcher of a dispatcher."""
    cluster = settings.cluster
    return ProcessLauncher(settings) if cluster is None else RayLauncher(settings, cluster)


def check_launcher(settings: ServiceSettings) -> None:
    """Raises `BadLauncher` for what cannot work."""
    on_ray = settings.launcher == "ray"
    try:
        find_user(settings.worker_user)
        if on_ray:
            check_installed(settings.ray_address or "")
    except (UnknownUser, ClusterMissing) as error:
        raise BadLauncher(str(error)) from error
    if on_ray and settings.worker_user is not None:
        raise BadLauncher(
            "jobs on a Ray cluster run as whoever started its nodes; leave --worker-user out"
        )
    if not on_ray and settings.ray_address is not None:
        raise BadLauncher("--ray-address goes with --launcher ray")
