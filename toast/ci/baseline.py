"""`toast.baseline.json`: what the models took when somebody last accepted it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toast.analysis.errors import InvalidRequest
from toast.ci.figures import Figures
from toast.request.request import PlanRequest

SCHEMA = 1


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StoredFigures(_Strict):
    """Figures that a model had, and for which mesh and chip."""

    mesh: str
    device: str
    memory: int = Field(ge=0)
    step: float = Field(ge=0, allow_inf_nan=False)
    communication: int = Field(ge=0)

    @property
    def figures(self) -> Figures:
        """The figures alone."""
        return Figures(memory=self.memory, step=self.step, communication=self.communication)

    def is_for(self, request: PlanRequest) -> bool:
        """Whether it was planned for the same mesh and chip, or figures cannot be compared."""
        return (self.mesh, self.device) == (request.mesh, chip(request))


class AcceptedFigures(_Strict):
    """The figures of all models, and which version of TOAST predicted them."""

    schema_: int = Field(default=SCHEMA, alias="schema", ge=SCHEMA, le=SCHEMA)
    toast: str = ""
    models: dict[str, StoredFigures] = Field(default_factory=dict)

    def with_models(self, found: Mapping[str, StoredFigures], keep: set[str]) -> AcceptedFigures:
        """This baseline with new figures; of the others only those of models to `keep`."""
        old = {name: row for name, row in self.models.items() if name in keep}
        return AcceptedFigures(toast=version(), models=old | dict(found))

    def write(self, path: Path) -> None:
        """Write it, the same bytes for the same figures; raises InvalidRequest where it cannot."""
        text = json.dumps(self.model_dump(by_alias=True), indent=2, sort_keys=True) + "\n"
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InvalidRequest(
                f"The baseline {path} cannot be written: {error.strerror}.",
                "Give another with --baseline.",
            ) from None


def read_baseline(path: Path) -> AcceptedFigures:
    """The baseline in a file, an empty one where there is none; raises InvalidRequest."""
    try:
        return AcceptedFigures.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return AcceptedFigures()
    except OSError as error:
        reason = error.strerror or "of an unknown reason"
        raise InvalidRequest(
            f"The baseline {path} cannot be read: {reason}.", "Give another with --baseline."
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise InvalidRequest(
            f"{path} is no baseline: {place}: {first['msg'][:1].lower()}{first['msg'][1:]}.",
            "Write it anew with --update-baseline.",
        ) from None


def stored(request: PlanRequest, figures: Figures) -> StoredFigures:
    """Figures as a baseline has them."""
    return StoredFigures(
        mesh=request.mesh,
        device=chip(request),
        memory=figures.memory,
        step=figures.step,
        communication=figures.communication,
    )


def chip(request: PlanRequest) -> str:
    """The chip, for a device file its name: the folder differs from machine to machine."""
    return Path(request.device).name


def version() -> str:
    """The version of TOAST that predicts."""
    return metadata.version("toast-planner")
