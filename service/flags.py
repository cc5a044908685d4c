"""The values of flags: numbers, sizes and times as people write them."""

from __future__ import annotations

import argparse

from toast.analysis.errors import ToastError
from toast.costmodel.hardware.quantities import parse_bytes, parse_seconds


def size(text: str) -> int:
    """Bytes."""
    try:
        return parse_bytes(text)
    except ToastError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def time(text: str) -> float:
    """Seconds."""
    try:
        return parse_seconds(text)
    except ToastError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def age(text: str) -> float | None:
    """Seconds, or None for `never`."""
    return None if text == "never" else time(text)


def count(text: str) -> int:
    """1 or more."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def some(text: str) -> int:
    """0 or more."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


def processors(text: str) -> float:
    """More than 0."""
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


def add_running(parser: argparse.ArgumentParser) -> None:
    """What bounds running jobs, in a server as in a worker without HTTP."""
    add = parser.add_argument
    add("--workers", type=count, default=1, help="jobs that run at once (default %(default)s)")
    add(
        "--artifact-cache",
        dest="cache_bytes",
        type=size,
        default=10 << 30,
        help="local copies of files of s3://... (default 10GiB)",
    )
    add("--max-arguments", type=count, default=500_000, help="arguments of a module")
    add("--max-ops", type=count, default=5_000_000, help="ops of a module, calls inlined")
    add("--max-constants", type=size, default=2 << 30, help="constants of a module (2GiB)")
    add("--max-plan", type=size, default=1 << 30, help="largest plan.json (default 1GiB)")
    add("--owner-running", type=count, help="jobs of one owner that run at once")
    add("--worker-memory", type=size, help="memory of one worker (default: 4/5 of the machine)")
    add("--worker-cpus", type=float, help="processors of one worker, in a cgroup (default: all)")
    add(
        "--launcher",
        choices=("process", "ray"),
        default="process",
        help="run jobs in processes here, or on the nodes of a Ray cluster (default %(default)s)",
    )
    add("--ray-address", metavar="ADDRESS", help="HOST:PORT, ray://HOST:PORT or auto (default)")
    add("--ray-cpus", type=processors, default=1.0, help="processors of a job on Ray (default 1)")
    add("--worker-user", help="user that workers run as; who starts them must be root")
    add("--spares", type=some, default=1, help="workers that wait ready (default %(default)s)")
    add("--stall", type=time, default=5.0, help="silence of a worker that hangs (default 5s)")
    add(
        "--min-free",
        type=size,
        default=256 << 20,
        help="free bytes on the disk below which no work is taken (default 256MiB)",
    )
    add("--deadline", type=time, default=3600.0, help="longest run of a job (default 1h)")
    add("--drain", type=time, default=10.0, help="time for running jobs at shutdown")
    add("--log-format", choices=("text", "json"), default="text", help="of stderr")
