"""What may happen in a round and who may make it happen; knows the database, not the web."""
