"""`python -m toast.service.worker_command`: the flags of `toast worker`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from toast.service.flags import count, size, some, time


def parser() -> argparse.ArgumentParser:
    """All flags; `docs/many-machines.md` explains each."""
    top = argparse.ArgumentParser(prog="toast worker", description="Run jobs of a shared ledger.")
    add = top.add_argument
    add("--store", required=True, metavar="URL", help="the ledger: postgresql+psycopg://...")
    add("--artifacts", required=True, metavar="URL", help="file:///FOLDER or s3://BUCKET/PREFIX")
    add("--data", type=Path, default=Path("worker-data"), help="folder for running jobs")
    add("--health", type=_address, metavar="HOST:PORT", help="answer probes there; port 0 is free")
    add("--workers", type=count, default=1, help="jobs that run at once (default %(default)s)")
    add(
        "--artifact-cache",
        dest="cache_bytes",
        type=size,
        default=10 << 30,
        help="local copies of files of s3://... (default 10GiB)",
    )
    add("--worker-memory", type=size, help="memory of one job (default: 4/5 of the machine)")
    add("--worker-cpus", type=float, help="processors of one job, in a cgroup (default: all)")
    add("--worker-user", help="user that jobs run as; the worker must be root")
    add("--spares", type=some, default=1, help="processes that wait ready (default %(default)s)")
    add("--stall", type=time, default=5.0, help="silence of a process that hangs (default 5s)")
    add("--owner-running", type=count, help="jobs of one owner that run at once, everywhere")
    add("--min-free", type=size, default=256 << 20, help="free disk below which no job is taken")
    add("--deadline", type=time, default=3600.0, help="longest run of a job (default 1h)")
    add("--drain", type=time, default=10.0, help="time for running jobs at shutdown")
    add("--log-format", choices=("text", "json"), default="text", help="of stderr")
    return top


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        raise argparse.ArgumentTypeError("write HOST:PORT, for example 127.0.0.1:8081")
    return host.strip("[]"), int(port)


def main(arguments: list[str] | None = None) -> int:
    """The whole process; returns its exit code."""
    options = vars(parser().parse_args(arguments))
    from toast.service.observe.logs import log_to_stderr
    from toast.service.server import StartError
    from toast.service.worker import work

    log_to_stderr(options.pop("log_format"))
    try:
        work(**options)
    except (StartError, OSError) as error:
        sys.stderr.write(f"toast worker: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
