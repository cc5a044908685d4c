"""Which planner this is, for `/version`."""

from __future__ import annotations

import json
import os
import subprocess
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from toast.plans.migration import SCHEMA

COMMIT = "TOAST_COMMIT"
"""The variable by which an image says what it was built from."""
_ROOT = Path(__file__).resolve().parents[2]


class Confined(BaseModel):
    """What workers have left: `network`, and otherwise how it was taken (docs/service.md)."""

    model_config = ConfigDict(frozen=True)

    network: bool
    namespace: bool
    filtered: bool


class Version(BaseModel):
    """The planner, the jax whose programs it reads, the schema of its plans; `commit` if known.

    `workers` is what the processes of jobs have left, null where they run on a cluster.
    """

    model_config = ConfigDict(frozen=True)

    planner: str
    jax: str
    jaxlib: str
    plan_schema: int
    commit: str | None
    workers: Confined | None = None


@lru_cache(maxsize=1)
def version() -> Version:
    """What is installed; jax is not imported for it."""
    return Version(
        planner=metadata.version("toast-planner"),
        jax=metadata.version("jax"),
        jaxlib=metadata.version("jaxlib"),
        plan_schema=SCHEMA,
        commit=os.environ.get(COMMIT) or _installed_commit() or _checked_out(),
    )


def _installed_commit() -> str | None:
    """What pip wrote down of an installation from a repository."""
    text = metadata.distribution("toast-planner").read_text("direct_url.json")
    found = json.loads(text or "{}").get("vcs_info", {}).get("commit_id")
    return found if isinstance(found, str) else None


def _checked_out() -> str | None:
    """The commit of the checkout that this file lies in."""
    if not (_ROOT / ".git").exists():
        return None
    command = ["git", "-C", str(_ROOT), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
