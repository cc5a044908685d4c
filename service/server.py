"""Runs the service: one process, one data directory, until SIGTERM or SIGINT."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import logging
import os
import shutil
import signal
import socket
import sys
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from toast.process.traces import Tracer, TracesMissing, tracer_of
from toast.service.access.audit import AuditTrail
from toast.service.access.keyring import KeyChange, open_keyring
from toast.service.access.keys import ENVIRONMENT, is_loopback
from toast.service.artifacts.guard import NamingGuard, ProcessGuard
from toast.service.artifacts.local import OtherLedger
from toast.service.artifacts.location import BadLocation, open_artifacts
from toast.service.context import Context
from toast.service.job_notifier import JobNotifier
from toast.service.ledger.backoff import Backoff
from toast.service.ledger.database import BadDatabase, Database, is_sqlite, open_database
from toast.service.ledger.faults import as_service_errors
from toast.service.ledger.naming_guard import PostgresGuard
from toast.service.ledger.sqlstore import SqlJobStore
from toast.service.observe.metrics import Metrics
from toast.service.private import UMASK, make_private
from toast.service.problems import DatabaseAway, DiskFull, FilesAway
from toast.service.settings import ServiceSettings
from toast.service.web.app import create_app
from toast.service.web.connections import Connections
from toast.service.web.protocol import guarded
from toast.service.work.dispatcher import Dispatcher
from toast.service.work.launchers import BadLauncher, check_launcher

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
    keys_fd: int | None = None,
    workers: int = 1,
    **limits: Any,
) -> None:
    """Serve until a signal asks to stop, then drain.

    `port` 0 takes a free one. `database` is an SQLAlchemy URL (a SQLite file in `data` when
    None), `keys` a file of hashed API keys and `keys_fd` a descriptor to read keys from, used
    beside those of the environment. `limits` are further fields of `ServiceSettings`. Once
    listening, one line with the address goes to stdout.
    Raises `StartError`, and `BadKeys` for keys that cannot be used.
    """
    os.umask(UMASK)
    known = open_keyring(keys, keys_fd)
    if not known and not is_loopback(host):
        raise StartError(
            f"refusing to listen on {host} without API keys: anybody who reaches it could use it; "
            f"set {ENVIRONMENT} or give --keys FILE, or bind to 127.0.0.1"
        )
    settings = ServiceSettings(
        host=host, port=port, data=data.resolve(), database=database, keys=known,
        workers=workers, **limits,
    )  # fmt: skip
    with owned(settings), _listening(host, port) as listener:
        context = make_context(settings)
        known.watch(partial(_record_change, context.audit))
        try:
            _run(context, listener)
        finally:
            known.close()
            context.store.close()
            context.tracer.finish()


def make_context(settings: ServiceSettings) -> Context:
    """Open the stores of a server or worker and remove what a crash left in them.

    Raises `StartError`.
    """
    try:
        check_launcher(settings)
    except BadLauncher as error:
        raise StartError(str(error)) from error
    owner = _instance(settings.data)
    backoff = Backoff(
        first=settings.backoff,
        longest=settings.longest_backoff,
        longest_suspected=settings.longest_suspected,
    )
    database = _database(settings.database_url)
    store = SqlJobStore(database, quota=settings.quota, backoff=backoff)
    try:
        artifacts = open_artifacts(
            _location(settings),
            settings.data,
            guard=_guard(settings.database_url),
            owner=owner,
            cache_bytes=settings.cache_bytes,
        )
        if settings.artifacts is not None:
            artifacts.belong_to(store.ledger_id())
    except (BadLocation, OtherLedger) as error:
        raise StartError(str(error)) from error
    except FilesAway as error:
        raise _files_away(error) from error
    context = Context(
        settings=settings,
        store=store,
        artifacts=artifacts,
        notifier=JobNotifier(),
        metrics=Metrics(store),
        audit=AuditTrail(settings.data / "audit.jsonl"),
        owner=owner,
        tracer=_tracer(),
    )
    shutil.rmtree(context.work, ignore_errors=True)
    make_private(context.work, passable=settings.worker_user is not None)
    try:
        left = artifacts.sweep(store.refers_to)
    except FilesAway as error:
        raise _files_away(error) from error
    if left:
        _log.warning("removed %d files that an earlier run left unfinished", left)
    return context


def _files_away(error: FilesAway) -> StartError:
    text = error.message[0].lower() + error.message[1:].rstrip(".")
    return StartError(f"{text}; look at it, or give another --artifacts")


def _tracer() -> Tracer:
    try:
        return tracer_of(os.environ, "toast-service")
    except TracesMissing as error:
        raise StartError(str(error)) from error


def _location(settings: ServiceSettings) -> str | None:
    """Where the files are; never in a data directory where other servers share the ledger."""
    if settings.artifacts is None and not is_sqlite(settings.database_url):
        raise StartError(
            "servers that share a database must share their files too: give --artifacts "
            "file:///FOLDER or s3://BUCKET/PREFIX, the same for every server and worker"
        )
    return settings.artifacts


def _guard(url: str) -> NamingGuard:
    return ProcessGuard() if is_sqlite(url) else PostgresGuard(url)


def _database(url: str) -> Database:
    try:
        with as_service_errors():
            return open_database(url)
    except BadDatabase as error:
        raise StartError(str(error)) from error
    except (DatabaseAway, DiskFull) as error:
        text = error.message[0].lower() + error.message[1:].rstrip(".")
        said = str(getattr(error.__cause__, "orig", "")).partition("\n")[0]
        raise StartError(f"{text} ({said}); look at it, or give another --database") from error


def _run(context: Context, listener: socket.socket) -> None:
    settings = context.settings
    dispatcher = Dispatcher(context)
    connections = Connections(settings.connections, context.metrics)
    config = uvicorn.Config(
        create_app(context, dispatcher, connections.watch),
        http=guarded(connections, context.metrics),
        ws="none",
        timeout_keep_alive=settings.connections.idle_seconds,
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
    earlier[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: settings.keys.wake())
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
            # What is alive now lives on: a collection that goes through it holds up all requests.
            gc.collect()
            gc.freeze()
            sys.stdout.write(f"TOAST service listening on {self._url}\n")
            sys.stdout.flush()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._dispatcher.drain()
        self._context.notifier.drain()
        super().handle_exit(sig, frame)


def _record_change(audit: AuditTrail, change: KeyChange) -> None:
    audit.record("keys.changed", added=list(change.added), removed=list(change.removed))


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """The drain is over; the process ends by returning."""


@contextlib.contextmanager
def owned(settings: ServiceSettings) -> Iterator[None]:
    """The data directory is ours alone; the lock goes with the process, however that ends."""
    data = settings.data
    make_private(data, passable=settings.worker_user is not None)
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
