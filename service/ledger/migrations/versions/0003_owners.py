"""Owners of jobs and modules, what they may use, and stalls of a job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # What was there before belongs to nobody: only admins see it.
    op.add_column("jobs", sa.Column("owned_by", sa.String(64), nullable=False, server_default=""))
    op.add_column(
        "jobs", sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0")
    )
    op.add_column("jobs", sa.Column("stalls", sa.Integer, nullable=False, server_default="0"))
    op.create_index("ix_jobs_owned_by_seq", "jobs", ["owned_by", "seq"])
    op.create_table(
        "module_owners",
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("used", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("owner", "sha256", name="pk_module_owners"),
        sa.ForeignKeyConstraint(
            ["sha256"], ["modules.sha256"], name="fk_module_owners_sha256", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_module_owners_sha256", "module_owners", ["sha256"])
    op.create_table(
        "owners",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("minute", sa.BigInteger, nullable=False),
        sa.Column("submitted", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_owners"),
    )


def downgrade() -> None:
    op.drop_table("owners")
    op.drop_table("module_owners")
    op.drop_index("ix_jobs_owned_by_seq", "jobs")
    for column in ("stalls", "stored_bytes", "owned_by"):
        op.drop_column("jobs", column)
