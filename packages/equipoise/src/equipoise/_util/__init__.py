"""Small things every room uses."""
