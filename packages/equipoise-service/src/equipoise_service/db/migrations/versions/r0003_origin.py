"""Where a request to join came from, so that one address cannot take all the room.

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
    """Add the column that says where a request to join came from."""
    op.add_column("people", sa.Column("origin", sa.String(length=64), nullable=True))
