"""`python -m service.access`: what `toast keys` does."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from toast.analysis.errors import ToastError
from toast.costmodel.hardware.quantities import parse_seconds
from toast.service.access.callers import Caller
from toast.service.access.key_file import add_key, list_keys, revoke_key, rotate_key
from toast.service.access.key_lines import (
    ApiKey,
    BadKeys,
    check_name,
    format_time,
    parse_scopes,
)


def parser() -> argparse.ArgumentParser:
    """All commands and flags; `docs/service.md` explains them."""
    top = argparse.ArgumentParser(
        prog="toast keys",
        description="Change a file of hashed API keys; a service that reads it follows by itself.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add = commands.add_parser("add", help="make a key and print it, once")
    add.add_argument("name", help="what to call the key, in lists and in the audit log")
    add.add_argument("--owner", help="whose jobs it sees (default: the key's name)")
    add.add_argument(
        "--scopes", default="submit,read", help="of submit, read, admin (default %(default)s)"
    )
    add.add_argument("--expires", metavar="TIME", help="how long it is good, such as 720h")
    revoke = commands.add_parser("revoke", help="take a key away")
    revoke.add_argument("name", help="the key")
    rotate = commands.add_parser("rotate", help="replace a key by a new one and print that, once")
    rotate.add_argument("name", help="the key")
    rotate.add_argument("--keep", metavar="TIME", help="how long the old one stays good")
    show = commands.add_parser("list", help="print the keys; none can be read back")
    show.add_argument("--json", action="store_true", help="as JSON")
    for command in (add, revoke, rotate, show):
        command.add_argument(
            "--keys", type=Path, required=True, metavar="FILE", help="the file of hashed keys"
        )
    return top


def main(arguments: list[str] | None = None) -> int:
    """The whole process; returns its exit code."""
    options = parser().parse_args(arguments)
    try:
        _COMMANDS[options.command](options)
    except OSError as error:
        sys.stderr.write(f"toast keys: {error.filename}: {error.strerror}\n")
        return 2
    except (BadKeys, ToastError) as error:
        sys.stderr.write(f"toast keys: {error}\n")
        return 2
    return 0


def _add(options: argparse.Namespace) -> None:
    name = check_name(options.name, "the key's name")
    owner = check_name(options.owner or name, "the key's owner")
    caller = Caller(name=name, owner=owner, scopes=parse_scopes(options.scopes))
    expires = None if options.expires is None else time.time() + parse_seconds(options.expires)
    _print_once(add_key(options.keys, caller, expires), f"The key {name} is in {options.keys}.")


def _revoke(options: argparse.Namespace) -> None:
    revoke_key(options.keys, options.name)
    sys.stderr.write(f"The key {options.name} is gone from {options.keys}.\n")


def _rotate(options: argparse.Namespace) -> None:
    keep = 0.0 if options.keep is None else parse_seconds(options.keep)
    said = f"The key {options.name} is new in {options.keys}; the old one "
    said += f"is good for {options.keep} more." if keep else "is gone."
    _print_once(rotate_key(options.keys, options.name, keep), said)


def _print_once(key: str, said: str) -> None:
    """The key alone on stdout, so that a script can take it."""
    sys.stderr.write(f"{said} It is printed this once:\n")
    sys.stderr.flush()
    sys.stdout.write(f"{key}\n")


def _list(options: argparse.Namespace) -> None:
    keys = [_shown(key) for key in list_keys(options.keys)]
    if options.json:
        sys.stdout.write(json.dumps(keys, indent=2) + "\n")
        return
    rows = [
        [row["name"], row["owner"], ",".join(row["scopes"]), row["expires"] or "never", row["id"]]
        for row in keys
    ]
    rows.insert(0, ["name", "owner", "scopes", "expires", "digest"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        padded = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def _shown(key: ApiKey) -> dict[str, Any]:
    """A key as lists show it; of the digest only as much as tells two apart."""
    return {
        "name": key.caller.name,
        "owner": key.caller.owner,
        "scopes": sorted(key.caller.scopes),
        "expires": None if key.expires is None else format_time(key.expires),
        "id": key.digest[:8],
    }


_COMMANDS = {"add": _add, "revoke": _revoke, "rotate": _rotate, "list": _list}

if __name__ == "__main__":
    sys.exit(main())
