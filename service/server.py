"""Runs the service: one process, one data directory, until SIGTERM or SIGINT."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import socket
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from toast.service.access.keys import ENVIRONMENT, is_loopback, read_keys
from toast.service.artifacts.local import ArtifactStore
from toast.service.context import Context
from toast.service.job_notifier import JobNotifier
from toast.service.ledger.backoff import Backoff
from toast.service.ledger.database import Database, open_database
from toast.service.ledger.faults import as_service_errors
from toast.service.ledger.sqlstore import SqlJobStore
from toast.service.observe.metrics import Metrics
from toast.service.problems import DatabaseAway, DiskFull
from toast.service.settings import ServiceSettings
from toast.service.web.app import create_app
from toast.service.work.dispatcher import Dispatcher

_log = logging.getLogger("toast.service")


class StartError(Exception):
    """The service cannot start; the text says why and what to do."""


def serve(
    host: str,
    port: int,
    data: Path,
    *,
    database: str | None = None,
    keys: Path | None = None,
    workers: int = 1,
    **limits: Any,
) -> None:
    """Serve until a signal asks to stop, then drain.

    `port` 0 takes a free one. `database` is an SQLAlchemy URL (a SQLite file in `data` when
    None), `keys` a file of hashed API keys, used beside those in TOAST_API_KEYS. `limits` are
    further fields of `ServiceSettings`. Once listening, one line with the address goes to stdout.
    Raises `StartError`, and `BadKeys` for keys that cannot be used.
    """
    # Taken out of the environment, so that no worker inherits it.
    known = read_keys(os.environ.pop(ENVIRONMENT, None), keys)
    if not known and not is_loopback(host):
        raise StartError(
            f"refusing to listen on {host} without API keys: anybody who reaches it could use it; "
            f"set {ENVIRONMENT} or give --keys FILE, or bind to 127.0.0.1"
        )
    settings = ServiceSettings(
        host=host, port=port, data=data.resolve(), database=database, keys=known,
        workers=workers, **limits,
    )  # fmt: skip
    with _owned(settings.data), _listening(host, port) as listener:
        context = make_context(settings)
        try:
            _run(context, listener)
        finally:
            context.store.close()


def make_context(settings: ServiceSettings) -> Context:
    """Open the stores of a data directory and remove what a crash left in them."""
    backoff = Backoff(first=settings.backoff, longest=settings.longest_backoff)
    store = SqlJobStore(_database(settings.database_url), backoff=backoff)
    artifacts = ArtifactStore(settings.data / "artifacts")
    context = Context(
        settings=settings,
        store=store,
        artifacts=artifacts,
        notifier=JobNotifier(),
        metrics=Metrics(store),
        owner=_instance(settings.data),
    )
    shutil.rmtree(context.work, ignore_errors=True)
    context.work.mkdir(parents=True, exist_ok=True)
    left = artifacts.sweep(store.refers_to)
    if left:
        _log.warning("removed %d files that an earlier run left unfinished", left)
    return context


def _database(url: str) -> Database:
    try:
        with as_service_errors():
            return open_database(url)
    except (DatabaseAway, DiskFull) as error:
        text = error.message[0].lower() + error.message[1:].rstrip(".")
        raise StartError(f"{text}; look at it, or give another --database") from error


def _run(context: Context, listener: socket.socket) -> None:
    settings = context.settings
    dispatcher = Dispatcher(context)
    config = uvicorn.Config(
        create_app(context, dispatcher),
        log_config=None,
        access_log=False,
        server_header=False,
        # Streams end by themselves when we drain; this is for clients that do not read.
        timeout_graceful_shutdown=max(1, round(settings.drain + 5)),
    )
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    server = _Server(config, context, dispatcher, f"http://{shown}:{port}")
    # uvicorn raises the signal again when it has drained; that must not end us half-way out.
    earlier = {name: signal.signal(name, _ignore) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=[listener])
    finally:
        for name, handler in earlier.items():
            signal.signal(name, handler)


class _Server(uvicorn.Server):
    """Says where it listens, and begins the drain at the signal rather than after it."""

    def __init__(
        self, config: uvicorn.Config, context: Context, dispatcher: Dispatcher, url: str
    ) -> None:
        super().__init__(config)
        self._context = context
        self._dispatcher = dispatcher
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            sys.stdout.write(f"TOAST service listening on {self._url}\n")
            sys.stdout.flush()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._dispatcher.drain()
        self._context.notifier.drain()
        super().handle_exit(sig, frame)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """The drain is over; the process ends by returning."""


@contextlib.contextmanager
def _owned(data: Path) -> Iterator[None]:
    """The data directory is ours alone; the lock goes with the process, however that ends."""
    data.mkdir(parents=True, exist_ok=True)
    with (data / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StartError(
                f"another service uses {data}; stop it or give another --data"
            ) from error
        yield


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """A bound socket; bound before anything starts, so that a taken port costs nothing."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named TCP outright: only then does asyncio turn off the delay that costs 40 ms an answer.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host.strip("[]"), port))
        except OSError as error:
            raise StartError(
                f"cannot listen on {host}:{port}: {error.strerror}; give another --port"
            ) from error
        yield listener


def _instance(data: Path) -> str:
    """The name of this data directory in claims: made once, the same after a restart."""
    path = data / "instance"
    if not path.exists():
        temporary = path.with_suffix(".tmp")
        temporary.write_text(uuid.uuid4().hex)
        temporary.replace(path)
    return path.read_text().strip()


def log_to_stderr(level: int = logging.INFO) -> None:
    """Plain lines on stderr; stdout has the one line with the address."""
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    for noisy in ("alembic", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
