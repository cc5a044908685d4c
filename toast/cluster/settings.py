"""What a relay is told. Apart from the relay, because the server reads it and loads no numpy."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from toast.process.limits import ClusterShare
from toast.process.runner import Limits, python_module


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """Which cluster, and what an engine gets there; without a `command` that is the engine."""

    cluster: ClusterShare
    limits: Limits = field(default_factory=Limits)
    command: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> RelaySettings:
        """Those that `child_command` wrote."""
        fields = json.loads(text)
        return cls(
            cluster=ClusterShare(**fields["cluster"]),
            limits=Limits(**fields["limits"]),
            command=tuple(fields["command"]),
        )

    def child_command(self, argument: str) -> list[str]:
        """The command of a relay for a directory, or of a spare one."""
        return [*python_module("toast.cluster.relay"), json.dumps(asdict(self)), argument]
