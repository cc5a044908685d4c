"""`toast admin`: what the operator of a service does about jobs that are suspected of ending it."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from toast.cli import options
from toast.cli.terminal import user_errors
from toast.client import Client

admin = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of the job.")]
_COLUMNS = ("id", "state", "deaths", "next try", "owner", "name")


@admin.command("suspects")
def suspects(url: options.Url, key: options.Key = None, as_json: options.Json = False) -> None:
    """List the jobs that servers died with again and again."""
    with user_errors(), Client(url, key) as client:
        jobs = client.suspects()
    if as_json:
        sys.stdout.write(json.dumps(jobs, indent=2) + "\n")
    elif not jobs:
        sys.stdout.write("No job is suspected of ending its servers.\n")
    else:
        sys.stdout.write(_table([_COLUMNS, *(_row(job) for job in jobs)]))


@admin.command("release")
def release(job: _JobId, url: options.Url, key: options.Key = None) -> None:
    """Let a suspected JOB run as any other, at once."""
    with user_errors(), Client(url, key) as client:
        state = client.release(job)["state"]
    sys.stdout.write(f"The job {job} is {state} and runs as any other.\n")


@admin.command("delete")
def delete(job: _JobId, url: options.Url, key: options.Key = None) -> None:
    """Forget a JOB that waits or is over, with its files."""
    with user_errors(), Client(url, key) as client:
        client.delete(job)
    sys.stdout.write(f"The job {job} is gone.\n")


def _row(job: dict[str, Any]) -> tuple[str, ...]:
    wait = job["not_before"] or "when idle"
    return (
        job["id"], job["state"], str(job["server_deaths"]), wait, job["owner"] or "-", job["name"],
    )  # fmt: skip


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)
