"""`toast.budget.toml`: the models of a repository, how they are planned, what they may take."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from toast.analysis.errors import InvalidRequest, ToastError
from toast.ci.figures import FIGURES, FigureName
from toast.costmodel.hardware.devices import is_file
from toast.costmodel.hardware.quantities import parse_bytes, parse_seconds
from toast.costmodel.hardware.typed_toml import Ranges, TypedToml
from toast.request.request import PlanRequest
from toast.request.settings import make_request

BASELINE = "toast.baseline.json"
"""Beside the budget, where it names no other."""
TOLERANCE = 0.02
DEVICE = "tpu-v5e"
_HINT = "docs/ci.md shows a whole budget."
_SETTINGS = frozenset(PlanRequest.model_fields) - {"decisions", "without"}
_NAME = re.compile(r"\w[\w.-]{0,99}", re.ASCII)
"""Names of models are names of folders too."""
_TABLES = frozenset({"limits", "tolerance"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PerFigure:
    """Something for each figure, None where nothing was said: a limit, or a part of the whole."""

    memory: float | None = None
    step: float | None = None
    communication: float | None = None

    def value(self, name: FigureName) -> float | None:
        """What is said of a figure."""
        found: float | None = getattr(self, name)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetedModel:
    """One model of a budget; `lines` has the line of the file that speaks of each figure."""

    name: str
    module: Path
    request: PlanRequest
    limits: PerFigure
    tolerance: PerFigure
    line: int
    lines: Mapping[FigureName, int]

    def allowed(self, name: FigureName) -> float:
        """The part by which a figure may be above its baseline."""
        said = self.tolerance.value(name)
        return TOLERANCE if said is None else said


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a budget file says; paths in it are relative to the file."""

    path: Path
    baseline: Path
    models: tuple[BudgetedModel, ...]

    def only(self, names: Collection[str]) -> Budget:
        """This budget with the models of these names; raises InvalidRequest for an unknown one."""
        known = [model.name for model in self.models]
        for name in names:
            if name not in known:
                raise InvalidRequest(
                    f"{self.path} has no model {name!r}.", f"It has {', '.join(known)}."
                )
        kept = tuple(model for model in self.models if model.name in names)
        return Budget(path=self.path, baseline=self.baseline, models=kept)


def read_budget(path: Path) -> Budget:
    """The budget in a file; raises InvalidRequest with the line of the first mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidRequest(
            f"The budget {path} cannot be read: {reason}.", f"Give one with --budget. {_HINT}"
        ) from None
    reader = _BudgetReader(str(path), _HINT, Ranges(), text)
    return reader.budget(path, reader.parse(text))


class _BudgetReader(TypedToml):
    """Checks the values of one budget."""

    error: ClassVar[type[ToastError]] = InvalidRequest

    def budget(self, path: Path, data: dict[str, Any]) -> Budget:
        self._known(data, {"baseline", "defaults", "models"}, "")
        baseline = self.value("baseline", data.get("baseline", BASELINE), str)
        defaults = self.table("defaults", data.get("defaults", {}))
        self._known(defaults, _SETTINGS | _TABLES, "defaults.")
        models = self.table("models", data.get("models", {}))
        if not models:
            self.fail("models", "is missing: a table [models.NAME] for each model")
        return Budget(
            path=path,
            baseline=path.parent / baseline,
            models=tuple(self._model(path, name, models[name], defaults) for name in models),
        )

    def _model(
        self, path: Path, name: str, data: Any, defaults: Mapping[str, Any]
    ) -> BudgetedModel:
        key = f"models.{name}"
        if not _NAME.fullmatch(name):
            self.fail(key, "has to be a name of letters, digits, '.', '-' and '_'")
        own = self.table(key, data)
        self._known(own, _SETTINGS | _TABLES | {"module"}, f"{key}.")
        if "module" not in own:
            self.fail(f"{key}.module", "is missing: the path of its StableHLO, beside this file")
        module = path.parent / self.value(f"{key}.module", own["module"], str)
        if not module.is_file():
            self.fail(f"{key}.module", f"names {str(module)!r}, where there is no file")
        line = self.line(key) or 1
        return BudgetedModel(
            name=name,
            module=module,
            request=self._request(key, own, defaults, path.parent),
            limits=self._per_figure(key, "limits", own, defaults),
            tolerance=self._per_figure(key, "tolerance", own, defaults),
            line=line,
            lines={figure: self._place(key, figure) or line for figure in FIGURES},
        )

    def _request(
        self, key: str, own: Mapping[str, Any], defaults: Mapping[str, Any], folder: Path
    ) -> PlanRequest:
        both = {**defaults, **own}
        # One thread and a seed make the answer repeatable, which a gate has to be.
        fields = {"device": DEVICE, "threads": 1} | {k: both[k] for k in _SETTINGS & set(both)}
        if "mesh" not in fields:
            self.fail(f"{key}.mesh", 'is missing: such as "data=2,model=4"')
        if isinstance(fields["device"], str) and is_file(fields["device"]):
            fields["device"] = str(folder / fields["device"])
        try:
            return make_request(**{name: _tuples(value) for name, value in fields.items()})
        except ToastError as error:
            line = self.line(key)
            raise InvalidRequest(
                f"{self._where}, line {line}: {key}: {error.message}", error.hint or _HINT
            ) from None

    def _per_figure(
        self, key: str, table: str, own: Mapping[str, Any], defaults: Mapping[str, Any]
    ) -> PerFigure:
        found: dict[str, float] = {}
        for prefix, data in (("defaults", defaults), (key, own)):
            place = f"{prefix}.{table}"
            rows = self.table(place, data.get(table, {}))
            self._known(rows, {field.name for field in fields(PerFigure)}, f"{place}.")
            for name, value in rows.items():
                found[name] = self._quantity(f"{place}.{name}", table, name, value)
        return PerFigure(**found)

    def _quantity(self, key: str, table: str, name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self.fail(key, f"has to be text, and is {value!r}")
        if table == "tolerance":
            return self._share(key, str(value))
        try:
            return parse_seconds(value) if name == "step" else parse_bytes(str(value))
        except ToastError:
            such = "a duration such as 20ms" if name == "step" else "a size such as 2GiB"
            self.fail(key, f"has to be {such}, and is {value!r}")

    def _share(self, key: str, text: str) -> float:
        number = text.strip().removesuffix("%").strip()
        try:
            share = float(number) / 100
        except ValueError:
            share = -1.0
        if not 0 <= share < float("inf") or ("%" not in text and share != 0):
            self.fail(key, f'has to be a share such as "5%", and is {text!r}')
        return share

    def _place(self, key: str, figure: FigureName) -> int | None:
        """The line that limits a figure, else the line of its model."""
        return self.line(f"{key}.limits.{figure}")

    def _known(self, data: Mapping[str, Any], known: Collection[str], prefix: str) -> None:
        for name in data:
            if name not in known:
                self._unknown(prefix + name, name, known)

    def _unknown(self, key: str, name: str, known: Collection[str]) -> NoReturn:
        near = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"
        self.fail(key, f"is not known; {meant.rstrip('?')}" + ("?" if near else ""))


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
