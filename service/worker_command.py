"""`python -m toast.service.worker_command`: the flags of `toast worker`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from toast.service.flags import add_running


def parser() -> argparse.ArgumentParser:
    """All flags; `docs/many-machines.md` explains each."""
    top = argparse.ArgumentParser(prog="toast worker", description="Run jobs of a shared ledger.")
    add = top.add_argument
    add("--store", required=True, metavar="URL", help="the ledger: postgresql+psycopg://...")
    add("--artifacts", required=True, metavar="URL", help="file:///FOLDER or s3://BUCKET/PREFIX")
    add("--data", type=Path, default=Path("worker-data"), help="folder for running jobs")
    add("--health", type=_address, metavar="HOST:PORT", help="answer probes there; port 0 is free")
    add_running(top)
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
