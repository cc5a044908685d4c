"""What the engine may take on, as whoever starts it writes it beside the module."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from toast.analysis.limits import ModuleLimits

_NAME = "limits.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """The largest module, and the most bytes of its `plan.json`; None is no limit.

    `nice` is how far the engine steps back behind whoever started it (`nice(1)`).
    """

    module: ModuleLimits = field(default_factory=ModuleLimits)
    plan_bytes: int | None = None
    nice: int = 0

    def write(self, directory: Path) -> None:
        """Put them where `of` finds them."""
        (directory / _NAME).write_text(json.dumps(asdict(self)))

    @classmethod
    def of(cls, directory: Path) -> EngineLimits:
        """Those of a job; none where nobody wrote any."""
        path = directory / _NAME
        if not path.exists():
            return cls()
        fields = json.loads(path.read_bytes())
        return cls(**fields | {"module": ModuleLimits(**fields["module"])})
