"""Jobs know how many servers died with them, and the ledger which versions may write to it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    deaths = sa.Column("server_deaths", sa.Integer, nullable=False, server_default="0")
    op.add_column("jobs", deaths)
    oldest = sa.Column("oldest", sa.String(32), nullable=False, server_default="0004")
    op.add_column("ledger", oldest)


def downgrade() -> None:
    op.drop_column("ledger", "oldest")
    op.drop_column("jobs", "server_deaths")
