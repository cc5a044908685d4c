"""Faults of the operator counted apart, waits, the cache of results, the last use of a module."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

CACHE_KEYS = ("cache_any", "cache_exact")


def upgrade() -> None:
    count = sa.Column("interruptions", sa.Integer, nullable=False, server_default="0")
    op.add_column("jobs", count)
    op.add_column("jobs", sa.Column("not_before", sa.Float(53)))
    for name in CACHE_KEYS:
        op.add_column("jobs", sa.Column(name, sa.String(64)))
        op.create_index(f"ix_jobs_{name}", "jobs", [name])
    op.add_column("jobs", sa.Column("cached_from", sa.String(32)))
    op.create_index("ix_jobs_module", "jobs", ["module"])
    op.create_index("ix_jobs_finished", "jobs", ["finished"])
    used = sa.Column("used", sa.Float(53), nullable=False, server_default="0")
    op.add_column("modules", used)
    op.execute("UPDATE modules SET used = created")


def downgrade() -> None:
    op.drop_column("modules", "used")
    for index in ("finished", "module", *CACHE_KEYS):
        op.drop_index(f"ix_jobs_{index}", "jobs")
    for name in ("cached_from", *CACHE_KEYS, "not_before", "interruptions"):
        op.drop_column("jobs", name)
