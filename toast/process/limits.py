"""What the engine may take on, as whoever starts it writes it beside the module."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from toast.analysis.limits import ModuleLimits

_NAME = "limits.json"


def usable_memory() -> int:
    """Bytes of this machine's memory that engines may take together: four fifths."""
    total: int = psutil.virtual_memory().total
    return total * 4 // 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShare:
    """A Ray cluster that an engine may spread over, and what each part of a job reserves there."""

    address: str
    cpus: float = 1.0
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """The largest module, and the most bytes of its `plan.json`; None is no limit.

    `nice` is how far the engine steps back behind whoever started it (`nice(1)`); `cluster` is
    where else parts of its job may run.
    """

    module: ModuleLimits = field(default_factory=ModuleLimits)
    plan_bytes: int | None = None
    nice: int = 0
    cluster: ClusterShare | None = None

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
        cluster = fields["cluster"]
        return cls(
            **fields
            | {
                "module": ModuleLimits(**fields["module"]),
                "cluster": None if cluster is None else ClusterShare(**cluster),
            }
        )
