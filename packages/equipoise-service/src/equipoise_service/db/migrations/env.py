"""Alembic's entry point, which runs the migrations in the transaction of the connection that `upgrade` was given."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
