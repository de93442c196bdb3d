"""Small helpers that every room uses."""
