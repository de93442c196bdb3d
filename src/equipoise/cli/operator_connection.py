"""What the operator's commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from equipoise.client.connection import Connection

MEMBERSHIP = Path("equipoise.json")


def connected(membership: Path) -> "Connection":
    """A connection to the operator's service."""
    from equipoise.client.membership import Membership
    from equipoise.client.service_round import connect

    return connect(Membership.load(membership))


def path_of(round_id: str, *parts: str) -> str:
    """Path of something of a round."""
    return "/".join(("/v1/rounds", quote(round_id, safe=""), *parts))


def chosen_round(connection: "Connection", round_id: str | None, state: str) -> str:
    """The round that is meant: the one that is named, or the only one in a state."""
    from equipoise.errors import ServiceError

    if round_id is not None:
        return round_id
    found = [one for one in connection.get("/v1/rounds")["rounds"] if one["state"] == state]
    if not found:
        raise ServiceError(f"no round is {state}; `equipoise operator rounds` lists all")
    if len(found) > 1:
        named = ", ".join(f"{one['id']} ({one['title'] or 'untitled'})" for one in found)
        raise ServiceError(f"several rounds are {state}; name one of {named}")
    return str(found[0]["id"])


def say(document: Any, words: str, *, as_json: bool) -> None:
    """Print one or the other."""
    from equipoise.cli.output import print_json, print_lines

    if as_json:
        print_json(document)
    else:
        print_lines(words)
