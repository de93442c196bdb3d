"""The rules: the actions that are possible in a round, and the roles that may take them; independent of the web."""
