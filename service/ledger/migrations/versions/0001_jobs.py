"""Modules, jobs, their events and idempotency keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "modules",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_modules"),
    )
    _create_jobs()
    op.create_index("ix_jobs_state_seq", "jobs", ["state", "seq"])
    op.create_table(
        "events",
        sa.Column("job", SERIAL, nullable=False),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("job", "number", name="pk_events"),
        sa.ForeignKeyConstraint(["job"], ["jobs.seq"], name="fk_events_job", ondelete="CASCADE"),
    )
    op.create_table(
        "idempotency",
        sa.Column("scope", sa.String(64), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("job", SERIAL, nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name="pk_idempotency"),
        sa.ForeignKeyConstraint(
            ["job"], ["jobs.seq"], name="fk_idempotency_job", ondelete="CASCADE"
        ),
    )


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("seq", SERIAL, nullable=False, autoincrement=True),
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("module", sa.String(64), nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("lost", sa.Integer, nullable=False),
        sa.Column("owner", sa.String(64)),
        sa.Column("lease_until", sa.Float(53)),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("started", sa.Float(53)),
        sa.Column("finished", sa.Float(53)),
        sa.Column("progress", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("summary", sa.Text),
        sa.Column("plan_sha256", sa.String(64)),
        sa.Column("result_sha256", sa.String(64)),
        sa.Column("result_suffix", sa.String(16)),
        sa.PrimaryKeyConstraint("seq", name="pk_jobs"),
        sa.UniqueConstraint("id", name="uq_jobs_id"),
        sa.ForeignKeyConstraint(["module"], ["modules.sha256"], name="fk_jobs_module"),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    for table in ("idempotency", "events", "jobs", "modules"):
        op.drop_table(table)
