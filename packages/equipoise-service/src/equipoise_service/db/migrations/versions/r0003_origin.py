"""Origin of requests to join, so that one address cannot use up all of them.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add the column for the origin of a request to join."""
    op.add_column("people", sa.Column("origin", sa.String(length=64), nullable=True))
