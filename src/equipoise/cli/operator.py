"""`equipoise operator`: approve members, run rounds, export and back up, by commands."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.operator_connection import MEMBERSHIP, chosen_round, connected, path_of, say
from equipoise.cli.operator_people import approve, clear, people, refuse, revoke
from equipoise.cli.options import (
    BudgetOption,
    DeviateOption,
    DrawsOption,
    ForceOption,
    JsonOption,
    MechanismOption,
    MembershipOption,
    PartialOption,
    PrecisionOption,
    RhoOption,
    TeamOption,
)
from equipoise.cli.output import echo

if TYPE_CHECKING:
    from equipoise.client.connection import Connection

app = typer.Typer(
    help="Run a service's rounds: approve members, create, settle, export, back up.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

EVERY = 1.0  # seconds between two looks
RoundArgument = Annotated[str, typer.Argument(help="The round's id.", metavar="ROUND")]
OneRoundArgument = Annotated[
    str | None, typer.Argument(help="The round's id [the only one there is].", metavar="ROUND", show_default=False)
]

for _command in (people, approve, refuse, clear, revoke):
    app.command()(_command)


@app.command()
def rounds(membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False) -> None:
    """List all rounds, and who has submitted.

    Example: equipoise operator rounds
    """
    from equipoise.cli.output import print_json, print_table

    with connected(membership) as connection:
        found = connection.get("/v1/rounds")["rounds"]
    if as_json:
        print_json(found)
        return
    print_table(
        "Rounds",
        ("round", "title", "state", "submitted", "not submitted"),
        [
            (
                one["id"],
                one["title"],
                one["state"],
                ", ".join(
                    f"{seat['party']} (epsilon {seat['epsilon']:g})" for seat in one["seats"] if seat["submitted"]
                ),
                ", ".join(
                    seat["party"] + ("" if seat["invited"] else " (not invited)")
                    for seat in one["seats"]
                    if not seat["submitted"]
                ),
            )
            for one in found
        ],
        numeric_from=9,
    )


@app.command()
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
    from equipoise.agreement import Agreement

    agreed = Agreement.load(agreement)  # mistakes show here, in full
    with connected(membership) as connection:
        same = [
            one["id"]
            for one in connection.get("/v1/rounds")["rounds"]
            if one["identity"] == agreed.identity and one["state"] in ("open", "settling")
        ]
        text = agreement.read_text(encoding="utf-8-sig")
        made = connection.post("/v1/rounds", {"agreement": text, "invite": invite_all})
        members = {one["name"] for one in connection.get("/v1/people")["people"] if one["state"] == "approved"}
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


@app.command()
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


@app.command()
def start(
    round_id: OneRoundArgument = None,
    rho: RhoOption = None,
    mechanism: MechanismOption = None,
    team: TeamOption = None,
    precision: PrecisionOption = 0.05,
    draws: DrawsOption = 4_000,
    budget: BudgetOption = None,
    deviate: DeviateOption = False,
    force: ForceOption = False,
    partial: PartialOption = False,
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
    from equipoise.cli.mediate import exponent

    options = {
        "rho": exponent(rho),
        "mechanism": mechanism,
        "teams": [names.split(",") for names in team] if team else None,
        "precision": precision,
        "draws": draws,
        "budget": budget,
        "deviate": deviate or None,
        "force": force,
        "without": without or None,
    }
    with connected(membership) as connection:
        round_id = chosen_round(connection, round_id, "open")
        _check_complete(connection, round_id, partial=partial, without=without or ())
        chosen = {name: value for name, value in options.items() if value is not None}
        found = connection.post(path_of(round_id, "settlement"), chosen)
        if watching:
            found = _watched(connection, round_id, quiet=as_json)
    say({"round": round_id, **found}, f"Round {round_id} is {found['state']}.", as_json=as_json)


@app.command()
def watch(
    round_id: OneRoundArgument = None, membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False
) -> None:
    """Wait until a round is settled, and say how far it is.

    Example: equipoise operator watch
    """
    with connected(membership) as connection:
        round_id = chosen_round(connection, round_id, "settling")
        found = _watched(connection, round_id, quiet=as_json)
    say({"round": round_id, **found}, f"Round {round_id} is {found['state']}.", as_json=as_json)


def _check_complete(connection: "Connection", round_id: str, *, partial: bool, without: Sequence[str]) -> None:
    """Refuse to leave somebody out by accident."""
    from equipoise.errors import ServiceError

    seats = connection.get(path_of(round_id))["seats"]
    missing = [seat["party"] for seat in seats if not seat["submitted"] and seat["party"] not in without]
    if missing and len(missing) < len(seats) and not partial:
        raise ServiceError(
            f"{', '.join(missing)} has not submitted, and a round is settled once; wait, or settle without with "
            "--partial"
        )


def _watched(
    connection: "Connection", round_id: str, *, quiet: bool, sleep: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Look until it is settled; a settlement that failed or was cancelled is raised."""
    import time

    from equipoise.cli.progress_words import progress_words
    from equipoise.client.service_round import progress_of
    from equipoise.errors import ServiceError

    said = ""
    while True:
        found: dict[str, Any] = connection.get(path_of(round_id, "settlement"))
        if found["state"] == "settled":
            return found
        if found["job_state"] in ("failed", "cancelled", None) or found["state"] != "settling":
            why = found["problem"] or found["job_state"] or "nothing was started"
            raise ServiceError(f"round {round_id} is {found['state']}, not settling: {why}")
        progress = progress_of(found)
        words = "" if progress is None else progress_words(progress)
        if words != said and not quiet:
            echo(words, err=True)
        said = words
        (sleep or time.sleep)(EVERY)


@app.command()
def cancel(
    round_id: OneRoundArgument = None, membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False
) -> None:
    """Stop settling a round; what was computed is kept for the next start.

    Example: equipoise operator cancel k3v9q2m7x1ab
    """
    with connected(membership) as connection:
        round_id = chosen_round(connection, round_id, "settling")
        found = connection.request("DELETE", path_of(round_id, "settlement"), repeatable=False).json()
    say({"round": round_id, **found}, f"Round {round_id} is {found['state']}.", as_json=as_json)


@app.command()
def close(round_id: RoundArgument, membership: MembershipOption = MEMBERSHIP, as_json: JsonOption = False) -> None:
    """End an open round without settling it.

    Example: equipoise operator close k3v9q2m7x1ab
    """
    with connected(membership) as connection:
        found = connection.post(path_of(round_id, "closing"), {}, repeatable=True)
    say({"round": round_id, "state": found["state"]}, f"Round {round_id} is {found['state']}.", as_json=as_json)


@app.command()
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
    from equipoise._util.files import write_new_file
    from equipoise.cli.output import claim_output
    from equipoise.client.service_round import LARGEST_REWARD
    from equipoise.errors import ServiceError

    claim_output(output, ServiceError)
    with connected(membership) as connection:
        round_id = chosen_round(connection, round_id, "settled")
        data = connection.request("GET", path_of(round_id, "export"), most_bytes=4 * LARGEST_REWARD).body
    try:
        write_new_file(output, data, mode=0o600)
    except OSError as error:
        raise ServiceError(f"cannot write {str(output)!r}: {error.strerror}; choose another place") from error
    say({"round": round_id, "export": str(output)}, f"Round {round_id} is in {output}.", as_json=as_json)


@app.command()
def backup(
    output: Annotated[Path, typer.Option("--output", "-o", help="What to write.")],
    data: Annotated[Path, typer.Option(help="The service's data folder.")] = Path("equipoise-data"),
    database: Annotated[str | None, typer.Option(help="Address of its database [in the data folder].")] = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a service's database and key, while it runs if need be; on the machine that has them.

    Example: equipoise operator backup --data equipoise-data -o backup
    """
    from equipoise.errors import ServiceError

    if not data.is_dir():
        raise ServiceError(f"there is no data folder {str(data)!r}; give the one of `equipoise serve` with --data")
    try:
        from equipoise.service.backup import backup as copy
        from equipoise.service.context import Context
    except ImportError as error:
        raise ServiceError(f"{error.name} is not installed; install the service with `equipoise[service]`") from error

    context = Context.open(data, database)
    try:
        copy(context, output)
    finally:
        context.close()
    say({"backup": str(output)}, f"The backup is {output}; it holds the service's key: keep it safe.", as_json=as_json)
