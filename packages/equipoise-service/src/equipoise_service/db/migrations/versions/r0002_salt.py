"""Salt of events, so that the log can be shown without their contents.

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
    """Add the column; existing events have no salt."""
    op.add_column("events", sa.Column("salt", sa.String(length=32), nullable=True))
