"""A name for the ledger itself, which its files bear too."""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    ledger = op.create_table("ledger", sa.Column("id", sa.String(32), primary_key=True))
    op.bulk_insert(ledger, [{"id": uuid.uuid4().hex}])


def downgrade() -> None:
    op.drop_table("ledger")
