"""Events get salt, so that the log can be shown without what they say.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Those that are there have none."""
    op.add_column("events", sa.Column("salt", sa.String(length=32), nullable=True))
