"""Becoming a member of a service: by the operator's approval, or by a one-time link."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from equipoise.client.connection import Connection, RefusedError
from equipoise.client.membership import Membership, Place
from equipoise.client.service_round import ask_to_join
from equipoise.errors import ServiceError
from equipoise.protocol.keys import load_key, same_fingerprint


def as_before(wanted: Membership, before: Membership, path: Path, *, given: bool) -> Membership:
    """What was joined before, if it is the same; agreement, certificates and a service's address may be new."""

    def who(one: Membership) -> tuple[Any, ...]:
        folder = one.place.folder and one.place.folder.resolve()
        return folder, one.name, one.role, *([one.key.resolve()] if given else [])

    if who(wanted) != who(before) or not _same_service(wanted, before):
        old = before.to_json()
        raise ServiceError(
            f"{str(path)!r} is the membership of {old['name']!r} ({old['role']}) at {old['place']} with the key "
            f"{old['key']}; choose another file with --membership"
        )
    return replace(
        before,
        place=wanted.place if wanted.place.url else before.place,
        agreement=wanted.agreement or before.agreement,
        ca=wanted.ca or before.ca,
    )


def _same_service(wanted: Membership, before: Membership) -> bool:
    """Whether it is where it was, or has moved with its key."""
    if wanted.place.url == before.place.url:
        return True
    with Connection(wanted.url, ca=wanted.ca or before.ca) as connection:
        return connection.introduction().public_key == before.service


def enrol(wanted: Membership, where: Place, fingerprint: str | None, note: str) -> tuple[Membership, str]:
    """Ask the service; with the secret of a one-time link, become its operator at once."""
    with Connection(wanted.url, key=load_key(wanted.key), audience=wanted.service, ca=wanted.ca) as connection:
        found = connection.introduction()
        if fingerprint is not None and not same_fingerprint(fingerprint, found.fingerprint):
            raise ServiceError(
                f"the service at {wanted.url} has the fingerprint {found.fingerprint}, not {fingerprint}; do not join, "
                "and ask its operator by another way than this address"
            )
        connection.audience = found.public_key
        joined = replace(wanted, service=found.public_key)
        if where.secret is None:
            return joined, str(ask_to_join(connection, joined, note)["state"])
        try:
            connection.post("/v1/operators", {"secret": where.secret, "name": joined.name})
        except RefusedError:
            if not _is_approved(connection):  # by this very key, when the link was used
                raise
        return joined, "approved"


def _is_approved(connection: Connection) -> bool:
    try:
        return bool(connection.get("/v1/me")["state"] == "approved")
    except RefusedError:
        return False
