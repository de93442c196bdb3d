"""`equipoise operator people`, `approve`, `refuse`, `clear`, `revoke`: who is a member."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.operator_connection import MEMBERSHIP, connected, say
from equipoise.cli.options import JsonOption, MembershipOption

FingerprintArgument = Annotated[
    str, typer.Argument(help="The fingerprint you were read, by telephone or in person.", metavar="FINGERPRINT")
]


def people(membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False) -> None:
    """List everybody who asked to join, and what became of it.

    Example: equipoise operator people
    """
    from equipoise.cli.output import print_json, print_table

    with connected(membership) as connection:
        found = connection.get("/v1/people")["people"]
    if as_json:
        print_json(found)
        return
    print_table(
        "People; approve only whose fingerprint you were read by themselves",
        ("name", "role", "state", "fingerprint", "note"),
        [(one["name"], one["role"], one["state"], one["fingerprint"] or "", one["note"]) for one in found],
        numeric_from=9,
    )


def approve(
    fingerprint: FingerprintArgument, membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False
) -> None:
    """Approve who asked to join with the key of this fingerprint.

    Example: equipoise operator approve 2c26-b46b-68ff-c68f-f99b-453c-1d30-4134
    """
    _decide(fingerprint, "approval", membership, as_json=as_json)


def refuse(
    fingerprint: FingerprintArgument, membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False
) -> None:
    """Refuse who asked to join with the key of this fingerprint.

    Example: equipoise operator refuse 2c26-b46b-68ff-c68f-f99b-453c-1d30-4134
    """
    _decide(fingerprint, "refusal", membership, as_json=as_json)


def _decide(fingerprint: str, decision: str, membership: Path, *, as_json: bool) -> None:
    from equipoise.errors import ServiceError
    from equipoise.protocol.public_keys import same_fingerprint

    _check_digits(fingerprint)
    with connected(membership) as connection:
        everybody = connection.get("/v1/people")["people"]
        found = [one for one in everybody if same_fingerprint(one["fingerprint"] or "", fingerprint)]
        if not found:
            # Fingerprints are not shown: the one to approve is read by its owner, not copied from here.
            waiting = [one["name"] for one in everybody if one["state"] == "requested"]
            raise ServiceError(
                f"nobody asked to join with a key of fingerprint {fingerprint}; waiting are: "
                f"{', '.join(waiting[:20]) or 'nobody'}. Have it read to you again, by the person itself"
            )
        path = f"/v1/people/{found[0]['id']}/{decision}"
        person = connection.post(path, {"fingerprint": found[0]["fingerprint"]}, repeatable=True)
    say(person, f"{person['name']} ({person['role']}) is {person['state']}.", as_json=as_json)


def _check_digits(fingerprint: str) -> None:
    """Tell a slip of the pen from a fingerprint that nobody has."""
    import re

    from equipoise.errors import ServiceError

    bare = re.sub(r"[-\s:]", "", fingerprint).lower()
    if not re.fullmatch("[0-9a-f]{32}", bare):
        wrong = sorted(set(re.sub("[0-9a-f]", "", bare)))
        but = f", and {' '.join(wrong[:8])} is none of 0 to 9 and a to f" if wrong else ""
        raise ServiceError(f"a fingerprint has 32 digits in eight groups; got {len(bare)}{but}")


def clear(membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False) -> None:
    """Drop all requests to join that are waiting, as after somebody made hundreds; who is meant asks again.

    Example: equipoise operator clear
    """
    with connected(membership) as connection:
        before = connection.get("/v1/service")["time"] + 1
        found = connection.post("/v1/people/clearing", {"before": before}, repeatable=True)
    say(found, f"{found['dropped']} requests to join were dropped.", as_json=as_json)


def revoke(
    name: Annotated[str, typer.Argument(help="Name of the member.", metavar="NAME")],
    membership: MembershipOption = MEMBERSHIP,
    as_json: JsonOption = False,
) -> None:
    """End a member's access at once.

    Example: equipoise operator revoke north
    """
    from equipoise.errors import ServiceError

    with connected(membership) as connection:
        everybody = connection.get("/v1/people")["people"]
        found = [one for one in everybody if (one["name"], one["state"]) == (name, "approved")]
        if not found:
            raise ServiceError(f"nobody called {name!r} is approved; look with `equipoise operator people`")
        person = connection.post(f"/v1/people/{found[0]['id']}/revocation", {}, repeatable=True)
    say(person, f"{person['name']} ({person['role']}) is {person['state']}.", as_json=as_json)
