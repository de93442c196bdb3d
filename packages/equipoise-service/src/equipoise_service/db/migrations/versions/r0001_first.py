"""The first tables, and triggers that keep the log of events as it was written.

Revision ID: 0001
Revises: none
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

APPEND_ONLY = "the log of events is append-only"


def upgrade() -> None:
    """Create all tables of the first version."""
    op.create_table(
        "events",
        sa.Column("sequence", NUMBER, autoincrement=False, nullable=False),
        sa.Column("time", NUMBER, nullable=False),
        sa.Column("actor", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("round_id", sa.String(length=40), nullable=True),
        sa.Column("details_json", sa.Text(), nullable=False),
        sa.Column("previous", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_events"),
    )
    op.create_index("ix_events_round_id", "events", ["round_id"], unique=False)
    op.create_table(
        "nonces",
        sa.Column("public_key", sa.String(length=64), nullable=False),
        sa.Column("nonce", sa.String(length=32), nullable=False),
        sa.Column("expires", NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("public_key", "nonce", name="pk_nonces"),
    )
    op.create_index("ix_nonces_expires", "nonces", ["expires"], unique=False)
    op.create_table(
        "people",
        sa.Column("id", NUMBER, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("public_key", sa.String(length=64), nullable=True),
        sa.Column("note", sa.String(length=200), nullable=False),
        sa.Column("requested", NUMBER, nullable=False),
        sa.Column("decided", NUMBER, nullable=True),
        sa.CheckConstraint("role IN ('operator', 'party', 'auditor')", name="ck_people_role"),
        sa.CheckConstraint("state IN ('requested', 'approved', 'refused', 'revoked')", name="ck_people_state"),
        sa.PrimaryKeyConstraint("id", name="pk_people"),
        sa.UniqueConstraint("public_key", name="uq_people_public_key"),
    )
    op.create_index(
        "uq_people_approved_name",
        "people",
        [sa.text("lower(name)")],
        unique=True,
        sqlite_where=sa.text("state = 'approved'"),
        postgresql_where=sa.text("state = 'approved'"),
    )
    op.create_table(
        "rounds",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("agreement_json", sa.Text(), nullable=False),
        sa.Column("identity", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("created", NUMBER, nullable=False),
        sa.Column("options_json", sa.Text(), nullable=True),
        sa.Column("noise_secret", sa.String(length=32), nullable=True),
        sa.Column("settled", NUMBER, nullable=True),
        sa.Column("decisions", sa.String(length=64), nullable=True),
        sa.CheckConstraint("state IN ('open', 'settling', 'settled', 'closed')", name="ck_rounds_state"),
        sa.PrimaryKeyConstraint("id", name="pk_rounds"),
    )
    op.create_index("ix_rounds_created", "rounds", ["created"], unique=False)
    op.create_index("ix_rounds_identity", "rounds", ["identity"], unique=False)
    op.create_table(
        "answers",
        sa.Column("round_id", sa.String(length=40), nullable=False),
        sa.Column("inputs", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("key_json", sa.Text(), nullable=False),
        sa.Column("result_json", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["round_id"], ["rounds.id"], name="fk_answers_round_id"),
        sa.PrimaryKeyConstraint("round_id", "inputs", "digest", name="pk_answers"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", NUMBER, autoincrement=True, nullable=False),
        sa.Column("round_id", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("payload_json", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=True),
        sa.Column("beat", NUMBER, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("stage", sa.String(length=200), nullable=True),
        sa.Column("planned", sa.Integer(), nullable=True),
        sa.Column("finished_of_planned", sa.Integer(), nullable=False),
        sa.Column("stage_began", NUMBER, nullable=True),
        sa.Column("created", NUMBER, nullable=False),
        sa.Column("began", NUMBER, nullable=True),
        sa.Column("ended", NUMBER, nullable=True),
        sa.CheckConstraint("kind IN ('settlement', 'batch')", name="ck_jobs_kind"),
        sa.CheckConstraint("state IN ('waiting', 'running', 'done', 'failed', 'cancelled')", name="ck_jobs_state"),
        sa.ForeignKeyConstraint(["round_id"], ["rounds.id"], name="fk_jobs_round_id"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("round_id", "kind", "digest", name="uq_jobs_round_id_kind_digest"),
    )
    op.create_index("ix_jobs_state_kind_id", "jobs", ["state", "kind", "id"], unique=False)
    op.create_table(
        "results",
        sa.Column("round_id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["round_id"], ["rounds.id"], name="fk_results_round_id"),
        sa.PrimaryKeyConstraint("round_id", "name", name="pk_results"),
    )
    op.create_table(
        "seats",
        sa.Column("round_id", sa.String(length=40), nullable=False),
        sa.Column("party", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("invited", NUMBER, nullable=True),
        sa.ForeignKeyConstraint(["round_id"], ["rounds.id"], name="fk_seats_round_id"),
        sa.PrimaryKeyConstraint("round_id", "party", name="pk_seats"),
    )
    op.create_table(
        "secrets",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("purpose", sa.String(length=16), nullable=False),
        sa.Column("person_id", NUMBER, nullable=True),
        sa.Column("expires", NUMBER, nullable=False),
        sa.CheckConstraint("purpose IN ('first operator', 'sign in', 'token', 'session')", name="ck_secrets_purpose"),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"], name="fk_secrets_person_id"),
        sa.PrimaryKeyConstraint("hash", name="pk_secrets"),
    )
    op.create_index("ix_secrets_expires", "secrets", ["expires"], unique=False)
    op.create_table(
        "submissions",
        sa.Column("round_id", sa.String(length=40), nullable=False),
        sa.Column("party", sa.String(length=64), nullable=False),
        sa.Column("person_id", NUMBER, nullable=False),
        sa.Column("submission_id", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("rows", NUMBER, nullable=False),
        sa.Column("epsilon", sa.String(length=32), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("receipt", sa.LargeBinary(), nullable=False),
        sa.Column("received", NUMBER, nullable=False),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"], name="fk_submissions_person_id"),
        sa.ForeignKeyConstraint(
            ["round_id", "party"], ["seats.round_id", "seats.party"], name="fk_submissions_round_id_party"
        ),
        sa.PrimaryKeyConstraint("round_id", "party", name="pk_submissions"),
    )
    op.create_index("ix_submissions_submission_id", "submissions", ["submission_id"], unique=False)
    for statement in _triggers(op.get_context().dialect.name):
        op.execute(statement)


def _triggers(dialect: str) -> list[str]:
    if dialect == "sqlite":
        return [
            f"CREATE TRIGGER events_no_{change.lower()} BEFORE {change} ON events "
            f"BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END"
            for change in ("UPDATE", "DELETE")
        ]
    return [
        "CREATE FUNCTION events_are_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{APPEND_ONLY}'; END $$",
        "CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON events "
        "FOR EACH STATEMENT EXECUTE FUNCTION events_are_append_only()",
    ]
