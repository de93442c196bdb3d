"""Enrolment of members at a service: by the operator's approval, or by a one-time link."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from equipoise.client.connection import Connection, RefusedError
from equipoise.client.membership import Membership, Place
from equipoise.client.service_round import ask_to_join
from equipoise.errors import ServiceError
from equipoise.protocol.keys import load_key, same_fingerprint


def as_before(wanted: Membership, before: Membership, path: Path, *, given: bool) -> Membership:
    """Return the earlier membership, updated with a new agreement, certificates or service address.

    Refuse a membership of somebody else; `given` says that the key was named and must be the same.
    """

    def identity(member: Membership) -> tuple[Any, ...]:
        folder = member.place.folder and member.place.folder.resolve()
        return folder, member.name, member.role, *([member.key.resolve()] if given else [])

    if identity(wanted) != identity(before) or not _same_service(wanted, before):
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
    """Return True if the service has the same address, or has moved and kept its key."""
    if wanted.place.url == before.place.url:
        return True
    with Connection(wanted.url, ca=wanted.ca or before.ca) as connection:
        return connection.introduction().public_key == before.service


def enrol(wanted: Membership, where: Place, fingerprint: str | None, note: str) -> tuple[Membership, str]:
    """Ask to join the service; with the secret of a one-time link, become its operator at once."""
    with Connection(wanted.url, key=load_key(wanted.key), audience=wanted.service, ca=wanted.ca) as connection:
        service = connection.introduction()
        if fingerprint is not None and not same_fingerprint(fingerprint, service.fingerprint):
            raise ServiceError(
                f"the service at {wanted.url} has the fingerprint {service.fingerprint}, not {fingerprint}; do not "
                "join, and ask its operator by another way than this address"
            )
        connection.audience = service.public_key
        joined = replace(wanted, service=service.public_key)
        if where.secret is None:
            return joined, str(ask_to_join(connection, joined, note)["state"])
        try:
            connection.post("/v1/operators", {"secret": where.secret, "name": joined.name})
        except RefusedError:
            # The link may have been used before, with this very key.
            if not _is_approved(connection):
                raise
        return joined, "approved"


def _is_approved(connection: Connection) -> bool:
    try:
        return bool(connection.get("/v1/me")["state"] == "approved")
    except RefusedError:
        return False
