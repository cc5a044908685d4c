"""`toast worker`: claims jobs of a shared ledger and runs them, without HTTP for callers.

It is the dispatcher of the server by itself. SIGTERM or SIGINT drains it: it claims nothing more,
gives running jobs their time, puts back what still runs then, and ends.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from toast.service.context import Context
from toast.service.ledger.database import BadDatabase, is_sqlite
from toast.service.probes import Probes
from toast.service.server import StartError, make_context, owned
from toast.service.settings import ServiceSettings
from toast.service.signals import ending_signals
from toast.service.work.dispatcher import Dispatcher

_log = logging.getLogger("toast.service")


def work(
    data: Path, *, store: str, artifacts: str, health: tuple[str, int] | None, **limits: Any
) -> None:
    """Run jobs until a signal asks to stop.

    `store` is the SQLAlchemy URL of the ledger, `artifacts` the URL of its files, `health` where
    to answer probes. Once it claims, one line goes to stdout. Raises `StartError`.
    """
    if _is_sqlite(store):
        raise StartError(
            "one process owns a SQLite database, and its server runs the jobs; "
            "give --store postgresql+psycopg://..."
        )
    settings = ServiceSettings(data=data.resolve(), database=store, artifacts=artifacts, **limits)
    with owned(settings):
        context = make_context(settings)
        try:
            _run(context, health)
        finally:
            context.store.close()


def _is_sqlite(store: str) -> bool:
    try:
        return is_sqlite(store)
    except BadDatabase as error:
        raise StartError(f"{error}; give --store postgresql+psycopg://...") from error


def _run(context: Context, health: tuple[str, int] | None) -> None:
    dispatcher = Dispatcher(context)
    with ending_signals() as wait, Probes(health, context, dispatcher) as probes:
        dispatcher.start()
        where = f"; health on {probes.url}" if probes.url else ""
        count = context.settings.workers
        sys.stdout.write(f"TOAST worker {context.owner} runs {count} at once{where}\n")
        sys.stdout.flush()
        wait()
        _log.info("draining")
        context.notifier.drain()
        dispatcher.stop()
