"""A real PostgreSQL for the tests: a cluster of their own, on a socket in a temporary folder."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

GIVEN = os.environ.get("TOAST_TEST_POSTGRES")
"""The URL of a database whose user may create databases; the tests then start no cluster."""

MISSING = (
    "PostgreSQL is not tested: install it (Debian: apt-get install postgresql) and its driver "
    "(pip install 'psycopg[binary]'), or give a URL in TOAST_TEST_POSTGRES"
)
_UNPRIVILEGED = ("postgres", "nobody")


def missing() -> str | None:
    """Why there is no PostgreSQL, None where there is one."""
    if importlib.util.find_spec("psycopg") is None:
        return MISSING
    return None if GIVEN or _programs() is not None else MISSING


def _programs() -> Path | None:
    """The folder of `initdb` and `postgres`."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    found = shutil.which("postgres")
    folders = [*versions, *([Path(found).resolve().parent] if found else [])]
    return next((folder for folder in folders if (folder / "initdb").is_file()), None)


def _version(folder: Path) -> float:
    return float(folder.parent.name) if folder.parent.name.replace(".", "").isdigit() else 0.0


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """The URL of a running server, whose user may create databases."""
    if GIVEN is not None:
        yield GIVEN
        return
    programs = _programs()
    assert programs is not None, MISSING
    with tempfile.TemporaryDirectory(prefix="toast-pg-") as name:
        folder, user = Path(name), _user()
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        start = _Starter(programs, folder, user)
        start.run("initdb", "-D", "data", "-A", "trust", "-U", "toast", "--no-sync", "-E", "UTF8")
        # No port: the socket's folder is ours alone. Crash safety of a test's database is nothing.
        flags = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        flags += " -c max_connections=200"
        start.run("pg_ctl", "-D", "data", "-l", "log", "-w", "-o", flags, "start")
        try:
            yield f"postgresql+psycopg://toast@/postgres?host={folder}"
        finally:
            start.run("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")


class _Starter:
    """Runs PostgreSQL's programs, which refuse to be root, in a folder of their own."""

    def __init__(self, programs: Path, folder: Path, user: pwd.struct_passwd | None) -> None:
        self._programs, self._folder, self._user = programs, folder, user

    def run(self, program: str, *arguments: str) -> None:
        user = self._user
        with (self._folder / "said").open("ab") as said_file:
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=said_file,
                stderr=subprocess.STDOUT,
                check=False,
                user=None if user is None else user.pw_uid,
                group=None if user is None else user.pw_gid,
            )
        said = (self._folder / "said").read_text(errors="replace")
        assert done.returncode == 0, f"{program} failed:\n{said}"


def _user() -> pwd.struct_passwd | None:
    """Whom to run as when we are root."""
    if os.geteuid() != 0:
        return None
    for name in _UNPRIVILEGED:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise AssertionError(f"PostgreSQL does not run as root, and there is no {_UNPRIVILEGED}")


@contextlib.contextmanager
def empty_database(server: str) -> Iterator[str]:
    """The URL of a new database, dropped afterwards."""
    name = f"t{uuid.uuid4().hex}"
    admin = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with admin.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    try:
        yield sa.make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
