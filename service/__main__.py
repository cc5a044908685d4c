"""`python -m service`: the service from the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from toast.service.access.key_lines import BadKeys
from toast.service.access.keys import hashed_line
from toast.service.flags import add_running, age, count, size, time


def parser() -> argparse.ArgumentParser:
    """All flags; `docs/service.md` explains each."""
    top = argparse.ArgumentParser(prog="toast serve", description="Serve TOAST over HTTP.")
    add = top.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    add("--port", type=int, default=8080, help="port; 0 takes a free one (default %(default)s)")
    add("--data", type=Path, default=Path("data"), help="directory for jobs and files")
    add("--database", help="SQLAlchemy URL of the job table (default: SQLite in --data)")
    add("--artifacts", metavar="URL", help="file:///FOLDER or s3://BUCKET/PREFIX (default: --data)")
    add("--keys", type=Path, help="file of hashed API keys, beside TOAST_API_KEYS")
    add("--keys-fd", type=int, help="open descriptor to read API keys from, once")
    add("--max-body", type=size, default=2 << 30, help="largest module (default 2GiB)")
    add("--max-queued", type=count, default=1000, help="jobs that may wait (default %(default)s)")
    add("--max-connections", type=count, default=4096, help="connections at once")
    add("--max-address", type=count, default=2048, help="connections of one address")
    add("--header-timeout", type=time, default=10.0, help="for a request's header (10s)")
    add("--body-rate", type=size, default=1024, help="least bytes a second of a body (1KiB)")
    add("--owner-queued", type=count, help="waiting jobs of one owner (default: half, with keys)")
    add("--owner-stored", type=size, help="bytes of modules and results of one owner")
    add("--owner-rate", type=count, help="jobs that one owner may submit in a minute")
    month = 30 * 86_400.0
    add(
        "--keep-jobs",
        type=age,
        default=month,
        help="how long jobs are kept once they are over, or never to delete none (default 30d)",
    )
    add(
        "--keep-modules",
        type=age,
        default=month,
        help="how long modules are kept that no job names, or never (default 30d)",
    )
    add_running(top)
    add("--hash-key", action="store_true", help="read a key on stdin, print its keys-file line")
    return top


def main(arguments: list[str] | None = None) -> int:
    """The whole process; returns its exit code."""
    options = vars(parser().parse_args(arguments))
    try:
        if options.pop("hash_key"):
            sys.stdout.write(hashed_line(sys.stdin.readline().strip()) + "\n")
            return 0
        from toast.service.observe.logs import log_to_stderr
        from toast.service.server import StartError, serve

        log_to_stderr(options.pop("log_format"))
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
