"""How an engine on a node ended, as its relay leaves it in the directory of the attempt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toast.analysis.errors import ToastError, from_code
from toast.process.outcome import EngineFailed, EngineOutOfMemory, EngineTimeout, Outcome

OUTCOME = "outcome.json"
_OWN = {kind.code: kind for kind in (EngineFailed, EngineOutOfMemory, EngineTimeout)}


def write_outcome(outcome: Outcome, directory: Path) -> None:
    """Put it where `read_outcome` finds it, in one step."""
    error = outcome.error
    fields = {
        "status": outcome.status,
        "suffix": outcome.suffix,
        "error": None if error is None else [error.code, error.message, error.hint],
        "exit_code": outcome.exit_code,
        "stderr": outcome.stderr,
        "seconds": outcome.seconds,
        "peak_rss_bytes": outcome.peak_rss_bytes,
    }
    temporary = directory / f".{OUTCOME}.part"
    temporary.write_text(json.dumps(fields))
    temporary.replace(directory / OUTCOME)


def read_outcome(directory: Path) -> Outcome | None:
    """What the relay wrote, None where it ended before it could."""
    try:
        fields: dict[str, Any] = json.loads((directory / OUTCOME).read_bytes())
    except (OSError, ValueError):
        return None
    error = None if fields["error"] is None else _error(*fields["error"])
    return Outcome(**fields | {"directory": directory, "error": error})


def _error(code: str, message: str, hint: str) -> ToastError:
    kind = _OWN.get(code)
    return from_code(code, message, hint) if kind is None else kind(message, hint)
