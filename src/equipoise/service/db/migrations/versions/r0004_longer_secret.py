"""Secrets of added noise with 256 bits.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Make room for 64 hexadecimal digits; SQLite has no lengths."""
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("rounds", "noise_secret", type_=sa.String(length=64), existing_type=sa.String(length=32))
