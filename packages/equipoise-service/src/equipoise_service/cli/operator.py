"""`equipoise operator`: commands to approve members, run rounds, export and back up."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from equipoise._util.display import Table
from equipoise._util.files import write_new_file
from equipoise.agreement import Agreement
from equipoise.cli.member import progress_words
from equipoise.cli.options import JsonOption, MembershipOption
from equipoise.cli.output import claim_output, echo, print_json, print_lines, print_table
from equipoise.cli.settings import settlement_options
from equipoise.client.connection import Connection
from equipoise.client.membership import Membership
from equipoise.client.service_round import LARGEST_REWARD, connect, progress_of
from equipoise.errors import ServiceError
from equipoise.mediation.settings import SettlementSettings
from equipoise.protocol.keys import same_fingerprint

if TYPE_CHECKING:
    from equipoise_service.context import Context

MEMBERSHIP = Path("equipoise.json")
DataFolderOption = Annotated[Path, typer.Option(help="The service's data folder.")]
DatabaseOption = Annotated[str | None, typer.Option(help="Address of its database [in the data folder].")]


def connected(membership: Path) -> Connection:
    """Open a connection to the operator's service."""
    return connect(Membership.load(membership))


def path_of(round_id: str, *parts: str) -> str:
    """Return the API path of a round, or of a part of it."""
    return "/".join(("/v1/rounds", quote(round_id, safe=""), *parts))


def chosen_round(connection: Connection, round_id: str | None, state: str) -> str:
    """Return the id that was given or else, if exactly one round is in a state, that round's id."""
    if round_id is not None:
        return round_id
    candidates = [view for view in connection.get("/v1/rounds")["rounds"] if view["state"] == state]
    if not candidates:
        raise ServiceError(f"no round is {state}; `equipoise operator rounds` lists all")
    if len(candidates) > 1:
        named = ", ".join(f"{view['id']} ({view['title'] or 'untitled'})" for view in candidates)
        raise ServiceError(f"several rounds are {state}; name one of {named}")
    return str(candidates[0]["id"])


def say(document: Any, words: str, *, as_json: bool) -> None:
    """Print the document as JSON, or the words."""
    if as_json:
        print_json(document)
    else:
        print_lines(words)


FingerprintArgument = Annotated[
    str, typer.Argument(help="The fingerprint you were read, by telephone or in person.", metavar="FINGERPRINT")
]


def people(membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False) -> None:
    """List everybody who asked to join, and what became of it.

    Example: equipoise operator people
    """
    with connected(membership) as connection:
        everybody = connection.get("/v1/people")["people"]
    if as_json:
        print_json(everybody)
        return
    print_table(
        Table(
            "People; approve only whose fingerprint you were read by themselves",
            ("name", "role", "state", "fingerprint", "note"),
            [
                (person["name"], person["role"], person["state"], person["fingerprint"] or "", person["note"])
                for person in everybody
            ],
            numeric_from=9,
        )
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
    _check_digits(fingerprint)
    with connected(membership) as connection:
        everybody = connection.get("/v1/people")["people"]
        matching = [person for person in everybody if same_fingerprint(person["fingerprint"] or "", fingerprint)]
        if not matching:
            # Show no fingerprints: the operator must hear the fingerprint from its owner, not copy it from here.
            waiting = [person["name"] for person in everybody if person["state"] == "requested"]
            raise ServiceError(
                f"nobody asked to join with a key of fingerprint {fingerprint}; waiting are: "
                f"{', '.join(waiting[:20]) or 'nobody'}. Have it read to you again, by the person itself"
            )
        path = f"/v1/people/{matching[0]['id']}/{decision}"
        person = connection.post(path, {"fingerprint": matching[0]["fingerprint"]}, repeatable=True)
    say(person, f"{person['name']} ({person['role']}) is {person['state']}.", as_json=as_json)


def _check_digits(fingerprint: str) -> None:
    """Refuse a text that is no fingerprint at all, with a message about the typing mistake."""
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
        everybody = connection.get("/v1/people")["people"]
        # Use the time of the latest waiting request, because the service's clock may have been set back since.
        before = 1 + max((person["requested"] for person in everybody if person["state"] == "requested"), default=0)
        cleared = connection.post("/v1/people/clearing", {"before": before}, repeatable=True)
    say(cleared, f"{cleared['dropped']} requests to join were dropped.", as_json=as_json)


def revoke(
    name: Annotated[str, typer.Argument(help="Name of the member.", metavar="NAME")],
    membership: MembershipOption = MEMBERSHIP,
    as_json: JsonOption = False,
) -> None:
    """End a member's access at once.

    Example: equipoise operator revoke north
    """
    with connected(membership) as connection:
        everybody = connection.get("/v1/people")["people"]
        approved = [person for person in everybody if (person["name"], person["state"]) == (name, "approved")]
        if not approved:
            raise ServiceError(f"nobody called {name!r} is approved; look with `equipoise operator people`")
        person = connection.post(f"/v1/people/{approved[0]['id']}/revocation", {}, repeatable=True)
    say(person, f"{person['name']} ({person['role']}) is {person['state']}.", as_json=as_json)


# The settlement options that a service accepts.
SETTINGS = (
    "rho",
    "mechanism",
    "teams",
    "precision",
    "draws",
    "coalitions",
    "budget",
    "deviate",
    "force",
)
# Seconds between two queries for the progress.
EVERY = 1.0
RoundArgument = Annotated[str, typer.Argument(help="The round's id.", metavar="ROUND")]
OneRoundArgument = Annotated[
    str | None, typer.Argument(help="The round's id [the only one there is].", metavar="ROUND", show_default=False)
]


def rounds(membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False) -> None:
    """List all rounds, and who has submitted.

    Example: equipoise operator rounds
    """
    with connected(membership) as connection:
        views = connection.get("/v1/rounds")["rounds"]
    if as_json:
        print_json(views)
        return
    print_table(
        Table(
            "Rounds",
            ("round", "title", "state", "submitted", "not submitted"),
            [
                (
                    view["id"],
                    view["title"],
                    view["state"],
                    ", ".join(
                        f"{seat['party']} (epsilon {seat['epsilon']:g})" for seat in view["seats"] if seat["submitted"]
                    ),
                    ", ".join(
                        seat["party"] + ("" if seat["invited"] else " (not invited)")
                        for seat in view["seats"]
                        if not seat["submitted"]
                    ),
                )
                for view in views
            ],
            numeric_from=9,
        )
    )


def create(
    agreement: Annotated[Path, typer.Argument(help="The agreement file.", metavar="AGREEMENT", readable=False)],
    invite_all: Annotated[
        bool, typer.Option("--invite/--no-invite", help="Invite all parties of the agreement at once.")
    ] = True,
    membership: MembershipOption = MEMBERSHIP,
    as_json: JsonOption = False,
) -> None:
    """Create a round from an agreement, and invite its parties.

    Example: equipoise operator create agreement.toml
    """
    # Parse the agreement before connecting, so that all mistakes in it are reported.
    agreed = Agreement.load(agreement)
    with connected(membership) as connection:
        same = [
            item["id"]
            for item in connection.get("/v1/rounds")["rounds"]
            if item["identity"] == agreed.identity and item["state"] in ("open", "settling")
        ]
        text = agreement.read_text(encoding="utf-8-sig")
        made = connection.post("/v1/rounds", {"agreement": text, "invite": invite_all})
        members = {item["name"] for item in connection.get("/v1/people")["people"] if item["state"] == "approved"}
    parties = ", ".join(agreed.party_names)
    say(
        {"round": made["id"], "identity": made["identity"], "parties": agreed.party_names, "invited": invite_all},
        f"Round {made['id']} of agreement {made['identity']}. "
        + (f"Invited: {parties}." if invite_all else f"Invite with: equipoise operator invite {made['id']} PARTY"),
        as_json=as_json,
    )
    if strangers := [name for name in agreed.party_names if name not in members]:
        echo(f"Not yet approved under these names: {', '.join(strangers)}.", err=True)
    if same:
        echo(f"Note: round {', '.join(same)} of the same agreement is still open; close what is not meant.", err=True)


def invite(
    round_id: RoundArgument,
    party: Annotated[str, typer.Argument(help="A party of its agreement.", metavar="PARTY")],
    membership: MembershipOption = MEMBERSHIP,
    as_json: JsonOption = False,
) -> None:
    """Let a party see a round and submit.

    Example: equipoise operator invite k3v9q2m7x1ab north
    """
    with connected(membership) as connection:
        made = connection.post(path_of(round_id, "invitations"), {"party": party}, repeatable=True)
    say({"round": made["id"], "party": party}, f"{party} is invited to round {made['id']}.", as_json=as_json)


@settlement_options(*SETTINGS, "partial")
def start(
    settings: SettlementSettings,
    round_id: OneRoundArgument = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            help="Party whose submission is not to count; repeat for more. The log and every report say so.",
            metavar="PARTY",
        ),
    ] = None,
    watching: Annotated[bool, typer.Option("--watch", help="Wait until it is settled.")] = False,
    membership: MembershipOption = MEMBERSHIP,
    as_json: JsonOption = False,
) -> None:
    """Start settling a round with the submissions that are there. A round is settled once, and takes none after that.

    Example: equipoise operator start --watch
    """
    chosen = settings.model_dump(mode="json", include=set(SETTINGS), exclude_none=True)
    if not settings.deviate:
        # An older service refuses options that it does not know, so send this one only if it is set.
        del chosen["deviate"]
    if without:
        chosen["without"] = without
    with connected(membership) as connection:
        round_id = chosen_round(connection, round_id, "open")
        _check_complete(connection, round_id, partial=settings.partial, without=without or ())
        progress = connection.post(path_of(round_id, "settlement"), chosen)
        if watching:
            progress = _watched(connection, round_id, quiet=as_json)
    say({"round": round_id, **progress}, f"Round {round_id} is {progress['state']}.", as_json=as_json)


def watch(
    round_id: OneRoundArgument = None, membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False
) -> None:
    """Wait until a round is settled, and say how far it is.

    Example: equipoise operator watch
    """
    with connected(membership) as connection:
        round_id = chosen_round(connection, round_id, "settling")
        progress = _watched(connection, round_id, quiet=as_json)
    say({"round": round_id, **progress}, f"Round {round_id} is {progress['state']}.", as_json=as_json)


def _check_complete(connection: Connection, round_id: str, *, partial: bool, without: Sequence[str]) -> None:
    """Refuse to leave a party out by accident."""
    seats = connection.get(path_of(round_id))["seats"]
    missing = [seat["party"] for seat in seats if not seat["submitted"] and seat["party"] not in without]
    if missing and len(missing) < len(seats) and not partial:
        raise ServiceError(
            f"{', '.join(missing)} has not submitted, and a round is settled once; wait, or settle without with "
            "--partial"
        )


def _watched(
    connection: Connection, round_id: str, *, quiet: bool, sleep: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Poll until the round is settled; raise if the settlement failed or was cancelled."""
    said = ""
    while True:
        document: dict[str, Any] = connection.get(path_of(round_id, "settlement"))
        if document["state"] == "settled":
            return document
        if document["job_state"] in ("failed", "cancelled", None) or document["state"] != "settling":
            why = document["problem"] or document["job_state"] or "nothing was started"
            raise ServiceError(f"round {round_id} is {document['state']}, not settling: {why}")
        progress = progress_of(document)
        words = "" if progress is None else progress_words(progress)
        if words != said and not quiet:
            echo(words, err=True)
        said = words
        (sleep or time.sleep)(EVERY)


def cancel(
    round_id: OneRoundArgument = None, membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False
) -> None:
    """Stop settling a round; what was computed is kept for the next start.

    Example: equipoise operator cancel k3v9q2m7x1ab
    """
    with connected(membership) as connection:
        round_id = chosen_round(connection, round_id, "settling")
        progress = connection.request("DELETE", path_of(round_id, "settlement"), repeatable=False).json()
    say({"round": round_id, **progress}, f"Round {round_id} is {progress['state']}.", as_json=as_json)


def close(round_id: RoundArgument, membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False) -> None:
    """End an open round without settling it.

    Example: equipoise operator close k3v9q2m7x1ab
    """
    with connected(membership) as connection:
        closed = connection.post(path_of(round_id, "closing"), {}, repeatable=True)
    say({"round": round_id, "state": closed["state"]}, f"Round {round_id} is {closed['state']}.", as_json=as_json)


def export(
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, a .zip.")],
    round_id: OneRoundArgument = None,
    membership: MembershipOption = MEMBERSHIP,
    as_json: JsonOption = False,
) -> None:
    """Save everything of a round with its evidence, signed by the service; `equipoise verify` checks it.

    It holds every party's reward: keep it as carefully as those.

    Example: equipoise operator export -o round.zip
    """
    claim_output(output, ServiceError)
    with connected(membership) as connection:
        round_id = chosen_round(connection, round_id, "settled")
        data = connection.request("GET", path_of(round_id, "export"), max_bytes=4 * LARGEST_REWARD).body
    _write_private(output, data)
    say({"round": round_id, "export": str(output)}, f"Round {round_id} is in {output}.", as_json=as_json)


def noise_secret(
    round_id: RoundArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, readable by you alone.")],
    all_agreements: Annotated[
        bool,
        typer.Option("--all-agreements", help="Write it although it is that of other agreements, too (before 0.15)."),
    ] = False,
    data: DataFolderOption = Path("equipoise-data"),
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the secret of a round's noise into a file for an auditor; on the machine that has the key.

    With it, `equipoise verify --again --noise-secret FILE` also repeats degraded rewards. Whoever has it can take the
    noise off every degraded reward of the same agreement: hand it to nobody who gets one. The log says that it was
    handed out.

    Example: equipoise operator noise-secret k3v9x0q2m4ab --data equipoise-data -o noise.secret
    """
    claim_output(output, ServiceError)
    with _opened_service(data, database) as context:
        from equipoise_service.rules.rounds import disclose_path_secret

        secret = disclose_path_secret(context, round_id, all_agreements=all_agreements)
    _write_private(output, secret.encode("ascii") + b"\n")
    say({"round": round_id, "noise_secret": str(output)}, f"The secret is in {output}; keep it safe.", as_json=as_json)


def backup(
    output: Annotated[Path, typer.Option("--output", "-o", help="What to write.")],
    data: DataFolderOption = Path("equipoise-data"),
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a service's database and key, while it runs if need be; on the machine that has them.

    Example: equipoise operator backup --data equipoise-data -o backup
    """
    with _opened_service(data, database) as context:
        from equipoise_service.backup import backup as copy

        copy(context, output)
    say({"backup": str(output)}, f"The backup is {output}; it holds the service's key: keep it safe.", as_json=as_json)


@contextmanager
def _opened_service(data: Path, database: str | None) -> "Iterator[Context]":
    """Open the service of an existing data folder on this machine; refuse a folder that does not exist."""
    if not data.is_dir():
        raise ServiceError(f"there is no data folder {str(data)!r}; give the one of `equipoise serve` with --data")
    from equipoise_service.context import Context

    context = Context.open(data, database)
    try:
        yield context
    finally:
        context.close()


def _write_private(output: Path, data: bytes) -> None:
    """Write a new file that only its owner can read."""
    try:
        write_new_file(output, data, mode=0o600)
    except OSError as error:
        raise ServiceError(f"cannot write {str(output)!r}: {error.strerror}; choose another place") from error
