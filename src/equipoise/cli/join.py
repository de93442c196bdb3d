"""`equipoise join`: become a member of a service, or of a round in a shared folder."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise._util.files import is_there
from equipoise.agreement import Agreement
from equipoise.cli.options import JsonOption, MembershipOption
from equipoise.cli.output import echo, print_json, print_lines
from equipoise.client.address import Place, place_of
from equipoise.client.connection import Connection, RefusedError
from equipoise.client.folder_round import FolderExchange
from equipoise.client.membership import Membership
from equipoise.client.service_round import ask_to_join
from equipoise.errors import ServiceError
from equipoise.models.schema import PARTY_NAME
from equipoise.protocol.keys import load_key, load_or_create_key, public_hex
from equipoise.protocol.public_keys import fingerprint, same_fingerprint
from equipoise.protocol.public_keys import fingerprint as fingerprint_of

ROLES = ("party", "auditor", "operator")


def join(
    place: Annotated[
        str,
        typer.Argument(
            help="https://ADDRESS of a service, its one-time link, or a shared folder; - reads it from standard input.",
            metavar="PLACE",
        ),
    ],
    name: Annotated[str, typer.Option("--party", "--name", help="Your name, as in the agreement.")],
    key: Annotated[
        Path | None, typer.Option(help="Your signing key [beside the ledger]; made if it is not there.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Your ledger [NAME.ledger].")] = None,
    role: Annotated[
        str | None, typer.Option(help="party, auditor or operator [party; operator with a one-time link].")
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option(help="The service's fingerprint, as its operator told you; another is refused.")
    ] = None,
    agreement: Annotated[
        Path | None, typer.Option(help="The agreement you know; another is refused when you submit.", readable=False)
    ] = None,
    note: Annotated[str, typer.Option(help="A line for the operator.")] = "",
    membership: MembershipOption = Path("equipoise.json"),
    ca: Annotated[
        Path | None, typer.Option(help="Certificates to trust, if the service's is of your own authority.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make your key at home, ask to join, and note where you are a member. Doing it again is harmless.

    At a service, the operator compares your fingerprint with you and approves. In a folder nobody need be asked.

    Example: equipoise join https://consortium.example --party north
    """
    if place == "-":  # a one-time link on a command line can be seen by everybody on the machine
        place = sys.stdin.readline().strip()
        if not place:
            raise ServiceError("no address came from standard input; pipe the service's address or one-time link in")
    where = place_of(place)
    chosen = role or ("operator" if where.secret else "party")
    if chosen not in ROLES:
        raise ServiceError(f"there is no role {chosen!r}; choose one of {', '.join(ROLES)}")
    _check_name(name)
    if where.secret and chosen != "operator":
        raise ServiceError(f"a one-time link makes an operator, not a {chosen}; leave out --role")
    book = ledger or (Path(f"{name}.ledger") if chosen == "party" else None)
    wanted = Membership(
        place=replace(where, secret=None),
        service=None,
        name=name,
        role=chosen,  # type: ignore[arg-type]
        key=key or (Path(f"{name}.key") if book is None else book.with_name(book.name + ".key")),
        ledger=book,
        agreement=None if agreement is None else Agreement.load(agreement).identity,
        ca=ca,
    )
    if where.folder is not None:
        FolderExchange(wanted).agreement().party(name)
    if is_there(membership):
        wanted = _as_before(wanted, Membership.load(membership), membership, given=key is not None)
    own = public_hex(load_or_create_key(wanted.key))
    joined, state = (wanted, "approved") if where.folder else _ask(wanted, where, fingerprint, note)
    if state in ("refused", "revoked"):
        raise ServiceError(
            f"the operator has {state} {name!r} with the key {str(wanted.key)!r}. Ask it why; then join with a new key "
            "(--key NEW.key) and a new file (--membership NEW.json), and be approved again"
        )
    joined.save(membership)
    if as_json:
        print_json(
            {**joined.to_json(), "state": state, "fingerprint": fingerprint_of(own), "membership": str(membership)}
        )
        return
    _show(joined, state, own, membership, by_link=bool(where.secret))


def _check_name(name: str) -> None:
    if not re.fullmatch(PARTY_NAME, name):
        raise ServiceError(f"{name!r} cannot be a name: use 1 to 64 letters, digits, dots, dashes or underscores")


def _as_before(wanted: Membership, before: Membership, path: Path, *, given: bool) -> Membership:
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


def _ask(wanted: Membership, where: Place, fingerprint: str | None, note: str) -> tuple[Membership, str]:
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
            if _is_approved(connection):  # the link was used, by this very key
                return joined, "approved"
            raise
        return joined, "approved"


def _is_approved(connection: Any) -> bool:
    try:
        return bool(connection.get("/v1/me")["state"] == "approved")
    except RefusedError:
        return False


def _show(joined: Membership, state: str, own: str, membership: Path, *, by_link: bool) -> None:
    if joined.service is None:
        print_lines(
            f"{joined.name} takes part in the round of the folder {joined.place.folder}; noted in {membership}."
        )
        print_lines(f"Your key is {joined.key}; keep it to yourself.")
        return
    print_lines(f"Noted in {membership}. Your key is {joined.key}; keep it to yourself.")
    what_to_do = (
        "Tell the parties this fingerprint, so that they can compare it."
        if by_link
        else "Compare it with what its operator tells you by another way."
    )
    print_lines(f"The service at {joined.url} has the fingerprint {fingerprint(joined.service)}. {what_to_do}")
    if state == "requested":
        echo(f"\nRead this to the operator, who then approves {joined.name} as {joined.role}:\n")
        echo(f"    {fingerprint(own).upper()}\n")
        print_lines("`equipoise status` says when that is done.")
    else:
        print_lines(f"{joined.name} is {state} as {joined.role}. Your own fingerprint is {fingerprint(own)}.")
