"""`equipoise join`, `submit`, `status`, `fetch` and `login`: the commands of a member of a round.

`equipoise.client.session` does the work; this module asks for it and prints the results.
"""

import sys
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from equipoise._util.text import counted
from equipoise.agreement import Agreement
from equipoise.cli.options import (
    DecimalOption,
    DelimiterOption,
    JsonOption,
    MembershipOption,
    RoundOption,
    YesOption,
)
from equipoise.cli.output import echo, print_alarm, print_json, print_lines, reading_progress, warnings_as_lines
from equipoise.cli.party import confirmed, show_preview
from equipoise.cli.releasing import release_options
from equipoise.client import session
from equipoise.client.membership import FILE, Membership, is_loopback
from equipoise.client.round import Progress, RoundStatus, Status
from equipoise.client.service_round import connect
from equipoise.errors import ServiceError
from equipoise.party.csv_stream import stated_table
from equipoise.party.options import ReleaseOptions
from equipoise.party.release import Plan
from equipoise.protocol.keys import fingerprint as fingerprint_of


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
    membership: MembershipOption = FILE,
    ca: Annotated[
        Path | None, typer.Option(help="Certificates to trust, if the service's is of your own authority.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make your key at home, ask to join, and note where you are a member. Doing it again is harmless.

    At a service, the operator compares your fingerprint with you and approves. In a folder nobody need be asked.

    Example: equipoise join https://consortium.example --party north
    """
    # Everybody on the machine can see a one-time link on a command line.
    if place == "-":
        place = sys.stdin.readline().strip()
        if not place:
            raise ServiceError("no address came from standard input; pipe the service's address or one-time link in")
    joined = session.join(
        place, name=name, key=key, ledger=ledger, role=role, fingerprint=fingerprint, agreement=agreement, note=note,
        membership=membership, ca=ca,
    )  # fmt: skip
    if as_json:
        seen = {"state": joined.state, "fingerprint": joined.fingerprint, "membership": str(joined.path)}
        print_json(joined.membership.to_json() | seen)
    else:
        _show_joined(joined)


def _show_joined(result: session.Joined) -> None:
    joined, state = result.membership, result.state
    if joined.service is None:
        print_lines(
            f"{joined.name} takes part in the round of the folder {joined.place.folder}; noted in {result.path}."
        )
        print_lines(f"Your key is {joined.key}; keep it to yourself.")
        return
    print_lines(f"Noted in {result.path}. Your key is {joined.key}; keep it to yourself.")
    what_to_do = (
        "Tell the parties this fingerprint, so that they can compare it."
        if result.by_link
        else "Compare it with what its operator tells you by another way."
    )
    print_lines(f"The service at {joined.url} has the fingerprint {fingerprint_of(joined.service)}. {what_to_do}")
    if state == "requested":
        echo(f"\nRead this to the operator, who then approves {joined.name} as {joined.role}:\n")
        echo(f"    {result.fingerprint.upper()}\n")
        print_lines("`equipoise status` says when that is done.")
    else:
        print_lines(f"{joined.name} is {state} as {joined.role}. Your own fingerprint is {result.fingerprint}.")


@release_options("epsilon", "zcdp", "approx", "cap_zcdp", "family", "cohort", "allow_clipping")
def submit(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="Your table, or a submission (.json) you released before; none sends what the ledger holds.",
            metavar="[TABLE|SUBMISSION]",
            readable=False,
        ),
    ] = None,
    *,
    options: ReleaseOptions,
    round_id: RoundOption = None,
    agreement: Annotated[
        Path | None, typer.Option(help="The agreement you know; another is refused.", readable=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show all that would leave; spend and send nothing.")
    ] = False,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    yes: YesOption = False,
    receipt: Annotated[Path | None, typer.Option(help="File for the receipt [NAME.receipt.json].")] = None,
    membership: MembershipOption = FILE,
    as_json: JsonOption = False,
) -> None:
    """Release from a table, spend privacy once, and hand the submission over.

    On a terminal you see what would be spent, and are asked before it is. Running it again after a lost connection
    sends the same bytes and spends nothing.

    Example: equipoise submit north.csv --epsilon 0.2
    """

    def announce(agreed: Agreement) -> None:
        if not as_json:
            echo(f"Agreement {agreed.identity}" + (f": {agreed.title}" if agreed.title else ""), err=True)

    table = None if source is None else stated_table(source, delimiter, decimal)
    with warnings_as_lines(), ExitStack() as reading:
        name = "" if source is None else source.name
        progress = reading.enter_context(reading_progress(f"Reading {name}", quiet=as_json))

        def confirm(plan: Plan) -> bool:
            # The progress bar would draw over the question.
            reading.close()
            return confirmed(plan, yes=yes)

        shared: dict[str, Any] = {
            "round_id": round_id,
            "agreement": agreement,
            "membership": membership,
            "announce": announce,
            "progress": progress,
        }
        if dry_run:
            seen = session.preview(table, options, **shared)
        else:
            submitted = session.submit(table, options, **shared, receipt=receipt, confirm=confirm)
    if dry_run:
        show_preview(seen, as_json=as_json)
    elif as_json:
        print_json(_submitted(submitted))
    else:
        _show_submitted(submitted)


def _submitted(submitted: session.Submitted) -> dict[str, Any]:
    """Return what was handed over, for `--json`."""
    submission, receipt = submitted.submission, submitted.receipt
    return {
        "party": submitted.membership.name,
        "agreement": submission.agreement,
        "submission": submission.id,
        "epsilon": submission.stated.epsilon,
        "count": submission.count,
        "spent": submitted.spent,
        "round": None if receipt is None else receipt.round,
        "receipt": None if submitted.receipt_path is None else str(submitted.receipt_path),
    }


def _show_submitted(submitted: session.Submitted) -> None:
    submission, me = submitted.submission, submitted.membership
    cost = "nothing more was spent: these are the bytes released before"
    if submitted.spent:
        stated = submission.stated
        cost = f"spent epsilon {stated.epsilon:g} at order {stated.order:g}, recorded in {me.ledger}"
    if submitted.unread is not None:
        print_lines(f"Sent again what was released before; {submitted.unread} was not read. Nothing more was spent.")
    else:
        print_lines(
            f"Submitted for {me.name}: {counted(len(submission.statistic), 'perturbed sum')} over "
            f"{counted(submission.count, 'row')}. Privacy: {cost}."
        )
    if submitted.receipt is None:
        print_lines(f"It is in the folder {me.place.folder}; a folder gives no receipt.")
    else:
        print_lines(
            f"The service has it for round {submitted.receipt.round}; its signed receipt is {submitted.receipt_path}. "
            "Keep it."
        )


def status(
    round_id: RoundOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Look again until it is settled.")] = False,
    membership: MembershipOption = FILE,
    as_json: JsonOption = False,
) -> None:
    """Say where you stand: approved or not, invited, submitted, settling (with the time left), settled.

    Example: equipoise status --watch
    """
    if watch:
        for current in session.watch(round_id=round_id, membership=membership):
            if not as_json and not session.is_over(current):
                echo(" · ".join(_lines(current)), err=True)
    else:
        current = session.status(round_id=round_id, membership=membership)
    if as_json:
        print_json(current.to_json())
        return
    for line in _lines(current):
        echo(line)


def _lines(current: Status) -> list[str]:
    words = {
        "requested": f"waiting for approval; your fingerprint is {current.fingerprint.upper()}",
        "approved": "a member",
        "refused": "refused by the operator",
        "revoked": "no longer a member",
    }
    lines = [f"{current.name} ({current.role}): {words.get(current.state, current.state)}"]
    if current.state == "approved" and not current.rounds:
        lines.append("no round yet; the operator creates one and invites you")
    return lines + [_line(round_status, current) for round_status in current.rounds]


def _line(round_status: RoundStatus, current: Status) -> str:
    title = f" “{round_status.title}”" if round_status.title else ""
    which = f"round {round_status.id}{title}" if round_status.id else f"the round{title}"
    who = f"{len(round_status.submitted)} of {len(round_status.parties)} submitted"
    mine = ""
    if current.role == "party":
        mine = ", you too" if round_status.mine else ", not you" + (" yet" if round_status.state == "open" else "")
    return f"{which}: {round_status.state}{_progress(round_status)}; {who}{mine}"


def _progress(round_status: RoundStatus) -> str:
    progress = round_status.progress
    if progress is None:
        return ""
    if round_status.state == "settling":
        return f" ({progress_words(progress)})"
    return f" (the last attempt failed: {progress.problem})" if progress.problem else ""


def progress_words(progress: Progress) -> str:
    """Return the stage, how much of it is done, and the time left if that is known."""
    words = progress.stage or "waiting for a worker"
    if progress.planned:
        words += f", {progress.done} of {progress.planned}"
    if progress.left_s is not None:
        words += f", about {duration(progress.left_s)} left"
    return words


def duration(seconds: float) -> str:
    """Return a number of seconds in words."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def fetch(
    round_id: RoundOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the reward [NAME.nc].")] = None,
    report: Annotated[Path | None, typer.Option(help="File for your report [NAME.report.html].")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is there.")] = False,
    membership: MembershipOption = FILE,
    as_json: JsonOption = False,
) -> None:
    """Get your reward and your edition of the report; exit code 11 while there is none.

    The reward is kept only if it can be read, is yours, is of this agreement, and the service signs for it. The receipt
    is kept beside it, and must be in the service's log, as must that of your submission if it is here.

    Example: equipoise fetch --wait -o north.nc
    """
    fetched = session.fetch(round_id=round_id, output=output, report=report, wait=wait, membership=membership)
    if as_json:
        paths = {"reward": fetched.reward_path, "receipt": fetched.receipt_path, "report": fetched.report_path}
        print_json(
            {
                "party": fetched.membership.name,
                "round": fetched.round_id,
                "title": fetched.agreement.title,
                "deviations": list(fetched.deviations),
                "decisions": None if fetched.receipt is None else fetched.receipt.decisions,
            }
            | {name: None if path is None else str(path) for name, path in paths.items()}
        )
    else:
        _show_fetched(fetched)


def _show_fetched(fetched: session.Fetched) -> None:
    which, title = fetched.round_id, fetched.agreement.title
    words = " ".join((*((which,) if which else ()), *((f"“{title}”",) if title else ())))
    there = "there is no report of yours (yet)" if fetched.report_path is None else f"your report {fetched.report_path}"
    print_lines(f"Your reward of {f'round {words}' if words else 'the round'} is {fetched.reward_path}, {there}.")
    if fetched.receipt is not None:
        and_sent = " and that of your submission" if fetched.submission_receipt is not None else ""
        print_lines(f"The service's signed receipt is {fetched.receipt_path}; its log has it{and_sent}. Keep it.")
        print_lines(
            f"The decisions are {fetched.receipt.decisions[:16]}…: the others have the same, unless the service lies."
        )
    print_lines(f"Combine it with your own rows: equipoise party combine {fetched.reward_path} TABLE -o model.nc")
    print_lines("Predict with both: equipoise predict model.nc --data FILE")
    for deviation in fetched.deviations:
        print_alarm(f"The agreement was not kept: {deviation}.")


def login(
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    membership: MembershipOption = FILE,
    as_json: JsonOption = False,
) -> None:
    """Print a link that signs your browser in, once, within ten minutes.

    Example: equipoise login --open
    """
    with connect(Membership.load(membership)) as connection:
        answer = connection.post("/v1/sign-in", {}, repeatable=True)
    link, parts = str(answer["url"]), urlsplit(str(answer["url"]))
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise ServiceError(
            f"the service gives its address as {parts.scheme}://{parts.netloc}, to which a browser would send your "
            "session in the clear; tell its operator (--public-url)"
        )
    if as_json:
        print_json({"url": link, "expires": answer["expires"]})
    else:
        echo(link)
    if open_:
        webbrowser.open(link)
