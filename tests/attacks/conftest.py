"""A service to attack, whose clock is right."""

from client.conftest import world

__all__ = ["world"]
