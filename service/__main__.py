"""`python -m service`: the service from the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from toast.analysis.errors import ToastError
from toast.costmodel.hardware.quantities import parse_bytes, parse_seconds
from toast.service.access.keys import BadKeys, hashed_line


def parser() -> argparse.ArgumentParser:
    """All flags; `docs/service.md` explains each."""
    top = argparse.ArgumentParser(prog="toast serve", description="Serve TOAST over HTTP.")
    add = top.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    add("--port", type=int, default=8080, help="port; 0 takes a free one (default %(default)s)")
    add("--data", type=Path, default=Path("data"), help="directory for jobs and files")
    add("--database", help="SQLAlchemy URL of the job table (default: SQLite in --data)")
    add("--keys", type=Path, help="file of hashed API keys, beside TOAST_API_KEYS")
    add("--workers", type=_count, default=1, help="jobs that run at once (default %(default)s)")
    add("--max-body", type=_bytes, default=2 << 30, help="largest module (default 2GiB)")
    add("--max-queued", type=_count, default=1000, help="jobs that may wait (default %(default)s)")
    add("--worker-memory", type=_bytes, help="memory of one worker (default: 4/5 of the machine)")
    add(
        "--min-free",
        type=_bytes,
        default=256 << 20,
        help="free bytes on the disk below which no work is taken (default 256MiB)",
    )
    add("--deadline", type=_seconds, default=3600.0, help="longest run of a job (default 1h)")
    month = 30 * 86_400.0
    add(
        "--keep-jobs",
        type=_age,
        default=month,
        help="how long jobs are kept once they are over, or never to delete none (default 30d)",
    )
    add(
        "--keep-modules",
        type=_age,
        default=month,
        help="how long modules are kept that no job names, or never (default 30d)",
    )
    add("--drain", type=_seconds, default=10.0, help="time for running jobs at shutdown")
    add("--hash-key", action="store_true", help="read a key on stdin, print its keys-file line")
    return top


def _bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except ToastError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _seconds(text: str) -> float:
    try:
        return parse_seconds(text)
    except ToastError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _age(text: str) -> float | None:
    return None if text == "never" else _seconds(text)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def main(arguments: list[str] | None = None) -> int:
    """The whole process; returns its exit code."""
    options = vars(parser().parse_args(arguments))
    try:
        if options.pop("hash_key"):
            sys.stdout.write(hashed_line(sys.stdin.readline().strip()) + "\n")
            return 0
        from toast.service.server import StartError, log_to_stderr, serve

        log_to_stderr()
        try:
            serve(**options)
        except StartError as error:
            raise BadKeys(str(error)) from error
    except (BadKeys, OSError) as error:
        sys.stderr.write(f"toast serve: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
