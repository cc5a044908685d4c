"""The base of everything that is written to `plan.json`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base of all parts of a plan: closed and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)
