"""What the parts of one running server share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from toast.process.traces import Tracer
from toast.service.access.audit import AuditTrail
from toast.service.artifacts.disk import Disk
from toast.service.artifacts.local import ArtifactStore
from toast.service.feeds import Feeds
from toast.service.job_notifier import JobNotifier
from toast.service.ledger.store import JobStore
from toast.service.observe.metrics import Metrics
from toast.service.settings import ServiceSettings
from toast.service.turns import Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """`owner` names this data directory in claims: the same before and after a restart."""

    settings: ServiceSettings
    store: JobStore
    artifacts: ArtifactStore
    notifier: JobNotifier
    metrics: Metrics
    audit: AuditTrail
    owner: str
    tracer: Tracer = field(default_factory=lambda: Tracer(None))
    drawing: Turns = field(default_factory=Turns)
    feeds: Feeds = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "feeds", Feeds(self.store, self.notifier))

    @property
    def work(self) -> Path:
        """Where attempts have their directories."""
        return self.settings.data / "work"

    @property
    def disk(self) -> Disk:
        """The disk of the data directory."""
        return Disk(self.settings.data, self.settings.min_free)
