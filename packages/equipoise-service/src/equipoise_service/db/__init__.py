"""The service's database: connection, tables, migrations, backup."""
