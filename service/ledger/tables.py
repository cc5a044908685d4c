"""The tables, as the code sees them; `migrations/` makes them and a test compares the two.

Times are seconds since the epoch. Structured columns are JSON text, so that both databases hold
the same bytes.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# SQLite numbers rows by itself only where the key's type is exactly INTEGER.
_serial = BigInteger().with_variant(Integer, "sqlite")

modules = Table(
    "modules",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("created", Float(53), nullable=False),
    # The last upload of it or the last job for it: modules expire by this.
    Column("used", Float(53), nullable=False, server_default="0"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("seq", _serial, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("module", String(64), ForeignKey("modules.sha256"), nullable=False, index=True),
    Column("request", Text, nullable=False),
    Column("state", String(16), nullable=False),
    # Number of writes a reader can see; also the number of the last event. ETags are made of it.
    Column("version", Integer, nullable=False),
    # The fence: each claim adds one, each later write of a worker must name it.
    Column("attempt", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("lost", Integer, nullable=False),
    # Attempts that a fault of the operator ended: never a reason to fail the job.
    Column("interruptions", Integer, nullable=False, server_default="0"),
    # A queued job is not claimed before this time.
    Column("not_before", Float(53)),
    Column("owner", String(64)),
    Column("lease_until", Float(53)),
    Column("created", Float(53), nullable=False),
    Column("started", Float(53)),
    Column("finished", Float(53), index=True),
    Column("progress", Text),
    Column("error", Text),
    Column("summary", Text),
    Column("plan_sha256", String(64)),
    Column("result_sha256", String(64)),
    Column("result_suffix", String(16)),
    # What jobs must share for one to take the result of another; None for those that must not.
    Column("cache_any", String(64), index=True),
    Column("cache_exact", String(64), index=True),
    Column("cached_from", String(32)),
    # Whose job it is: the owner of the key that submitted it.
    Column("owned_by", String(64), nullable=False, server_default=""),
    Column("stored_bytes", BigInteger, nullable=False, server_default="0"),
    Column("stalls", Integer, nullable=False, server_default="0"),
    # Attempts that ended with their server.
    Column("server_deaths", Integer, nullable=False, server_default="0"),
    Index(None, "state", "seq"),
    Index(None, "owned_by", "seq"),
    sqlite_autoincrement=True,  # numbers of deleted jobs are not given again: they are cursors
)

module_owners = Table(
    "module_owners",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column(
        "sha256",
        String(64),
        ForeignKey("modules.sha256", ondelete="CASCADE"),
        primary_key=True,
        index=True,
    ),
    Column("created", Float(53), nullable=False),
    Column("used", Float(53), nullable=False),
)

# How many jobs an owner submitted in which minute since the epoch; also what a submission locks.
owners = Table(
    "owners",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("minute", BigInteger, nullable=False),
    Column("submitted", Integer, nullable=False),
)

# One row: what the files of this ledger are known by, wherever the database is moved, and the
# oldest revision whose servers may write.
ledger = Table(
    "ledger",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("oldest", String(32), nullable=False, server_default="0004"),
)

events = Table(
    "events",
    metadata,
    Column("job", _serial, ForeignKey("jobs.seq", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("data", Text, nullable=False),
    Column("at", Float(53), nullable=False),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("scope", String(64), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("job", _serial, ForeignKey("jobs.seq", ondelete="CASCADE"), nullable=False),
)
