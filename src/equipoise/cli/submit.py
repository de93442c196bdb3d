"""`equipoise submit`: release once, and hand the submission over as often as it takes."""

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise._util.canonical import read_limited
from equipoise._util.files import is_there, write_new_file
from equipoise._util.text import counted
from equipoise.agreement import Agreement
from equipoise.cli.options import AllowClippingOption, JsonOption, MembershipOption, RoundOption, YesOption
from equipoise.cli.output import echo, print_json, print_lines, reading_progress, warnings_as_lines
from equipoise.cli.party import confirmed, show_preview
from equipoise.client.exchange import Exchange, check_identity, exchange_of
from equipoise.client.folder_round import AGREEMENT
from equipoise.client.membership import Membership
from equipoise.errors import AgreementError, PrivacyError, ServiceError, SubmissionError
from equipoise.party import release as party_release
from equipoise.party.ledger import Ledger
from equipoise.protocol.keys import load_key, public_hex
from equipoise.protocol.receipts import Receipt
from equipoise.protocol.submission import Submission


def submit(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="Your table, or a submission (.json) you released before; none sends what the ledger holds.",
            metavar="[TABLE|SUBMISSION]",
            readable=False,
        ),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Rényi epsilon at the agreed order.")] = None,
    zcdp: Annotated[float | None, typer.Option(help="The guarantee as zCDP rho instead.")] = None,
    approx: Annotated[
        tuple[float, float] | None,
        typer.Option(help="The guarantee as (epsilon, delta) instead.", metavar="EPSILON DELTA"),
    ] = None,
    round_id: RoundOption = None,
    agreement: Annotated[
        Path | None, typer.Option(help="The agreement you know; another is refused.", readable=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show all that would leave; spend and send nothing.")
    ] = False,
    cap_zcdp: Annotated[float | None, typer.Option(help="For a new ledger: the most it may ever spend.")] = None,
    family: Annotated[str, typer.Option(help="For a new ledger: which individuals it covers.")] = "",
    allow_clipping: AllowClippingOption = False,
    yes: YesOption = False,
    receipt: Annotated[Path | None, typer.Option(help="File for the receipt [NAME.receipt.json].")] = None,
    membership: MembershipOption = Path("equipoise.json"),
    as_json: JsonOption = False,
) -> None:
    """Release from a table, spend privacy once, and hand the submission over.

    On a terminal you see what would be spent, and are asked before it is. Running it again after a lost connection
    sends the same bytes and spends nothing.

    Example: equipoise submit north.csv --epsilon 0.2
    """
    me = Membership.load(membership)
    if me.role != "party" or me.ledger is None:
        raise ServiceError(f"{me.name!r} is a member as {me.role}; parties submit")
    guarantee = {"epsilon": epsilon, "zcdp": zcdp, "approx": approx}
    with closing(exchange_of(me, round_id=round_id, wanted="open")) as exchange:
        agreed = exchange.agreement()
        _check_identity(agreed, me, agreement, membership)
        agreed.party(me.name)
        if not as_json:
            echo(f"Agreement {agreed.identity}" + (f": {agreed.title}" if agreed.title else ""), err=True)
        options: dict[str, Any] = {"cap_zcdp": cap_zcdp, "quiet": as_json}
        if dry_run:
            _preview(agreed, me, source, guarantee, options, as_json=as_json)
            return
        options |= {"family": family, "allow_clipping": allow_clipping, "yes": yes}
        submission, spent = _released(agreed, me, source, guarantee, options, exchange)
        given = exchange.submit(submission.to_json())
        kept = None if given is None else _keep(given, receipt or Path(f"{me.name}.receipt.json"), chosen=bool(receipt))
    unread = None if spent or source is None or _is_submission(source) else source
    _show(me, submission, given, kept, spent=spent, unread=unread, as_json=as_json)


def _is_submission(source: Path) -> bool:
    return source.suffix.lower() == ".json"


def _check_identity(agreed: Agreement, me: Membership, given: Path | None, membership: Path) -> None:
    """Refuse an agreement other than the one the party says, joined with, or has beside its membership."""
    expected = {}
    local = membership.parent / AGREEMENT
    if given is not None:
        expected[f"yours ({given})"] = Agreement.load(given).identity
    elif me.agreement is not None:
        expected["the one you joined with"] = me.agreement
    elif is_there(local):
        expected[f"yours ({local})"] = Agreement.load(local).identity
    check_identity(agreed, expected, where=me.place.url or str(me.place.folder))


def _released(
    agreed: Agreement,
    me: Membership,
    source: Path | None,
    guarantee: dict[str, Any],
    options: dict[str, Any],
    exchange: Exchange,
) -> tuple[Submission, bool]:
    """The submission to send, and whether it was released just now."""
    assert me.ledger is not None
    if source is not None and _is_submission(source):
        submission = Submission.load(source)
        _check_own(submission, agreed, me, source)
        return submission, False
    stored = _stored(agreed, me)
    if stored is not None:
        if any(value is not None for value in guarantee.values()):
            asked = agreed.guarantee(**guarantee).epsilon
            if asked != stored.stated.epsilon:
                raise PrivacyError(
                    f"{str(me.ledger)!r} has a release under this agreement at epsilon {stored.stated.epsilon:g}, not "
                    f"{asked:g}; nothing was sent. Leave the guarantee out to send that one; a second one is made with "
                    "`equipoise party release --again` and sent by its file"
                )
        return stored, False
    if source is None:
        raise PrivacyError(
            f"{str(me.ledger)!r} has no finished release of {me.name!r} under this agreement; give the table to "
            f"release from, and the guarantee: {_ways(agreed)}"
        )
    _check_stated(agreed, guarantee)
    exchange.check_open()
    quiet, yes = options.pop("quiet"), options.pop("yes")
    with warnings_as_lines(), ExitStack() as reading:
        progress = reading.enter_context(reading_progress(f"Reading {source.name}", quiet=quiet))

        def confirm(plan: party_release.Plan) -> bool:
            reading.close()  # or the progress bar would draw over the question
            return confirmed(plan, yes=yes)

        made = party_release.release(
            agreed, source, party=me.name, ledger=me.ledger, key=me.key, confirm=confirm, progress=progress,
            **guarantee, **options,
        )  # fmt: skip
    return made, True


def _check_stated(agreed: Agreement, guarantee: dict[str, Any]) -> None:
    if all(value is None for value in guarantee.values()):
        raise AgreementError(f"say how much privacy to spend: {_ways(agreed)}. Nothing was read or spent")


def _ways(agreed: Agreement) -> str:
    """How a guarantee is stated here."""
    most = f"at order {agreed.privacy.order:g}, of which {agreed.privacy.max_epsilon:g} is the agreed maximum"
    return f"--epsilon E ({most}), --zcdp R or --approx E D"


def _stored(agreed: Agreement, me: Membership) -> Submission | None:
    assert me.ledger is not None
    if not is_there(me.ledger):
        return None
    return Ledger(me.ledger).read().stored_submission(agreed.identity, me.name)


def _check_own(submission: Submission, agreed: Agreement, me: Membership, source: Path) -> None:
    submission.check(agreed)
    if submission.party != me.name:
        raise SubmissionError(f"{str(source)!r} is the submission of {submission.party!r}, not of {me.name!r}")
    if submission.public_key != public_hex(load_key(me.key)):
        raise SubmissionError(
            f"{str(source)!r} is signed with the key {submission.public_key[:16]}…, not with yours, {str(me.key)!r}; "
            "join with the key you released with (--key)"
        )


def _preview(
    agreed: Agreement,
    me: Membership,
    source: Path | None,
    guarantee: dict[str, Any],
    options: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    assert me.ledger is not None
    if source is None or _is_submission(source):
        raise ServiceError("--dry-run shows what a table would send; give the table")
    _check_stated(agreed, guarantee)
    with reading_progress(f"Reading {source.name}", quiet=options["quiet"]) as progress, warnings_as_lines():
        seen = party_release.preview(
            agreed, source, party=me.name, ledger=me.ledger, key=me.key, progress=progress, **guarantee,
            cap_zcdp=options["cap_zcdp"],
        )  # fmt: skip
    show_preview(seen, as_json=as_json)


def _keep(receipt: Receipt, path: Path, *, chosen: bool) -> Path:
    """Write the receipt; one of another round that has the name stays, and this one is named after its round."""
    try:
        write_new_file(path, receipt.to_json(), mode=0o600)
    except FileExistsError:
        if read_limited(path) == receipt.to_json():
            return path
        if chosen:
            raise ServiceError(
                f"the submission was taken, but {str(path)!r} is another file; get the receipt again with another "
                "--receipt"
            ) from None
        return _keep(receipt, path.with_name(f"{receipt.party}.{receipt.round}.receipt.json"), chosen=True)
    except OSError as error:
        raise ServiceError(
            f"the submission was taken, but {str(path)!r} cannot be written: {error.strerror}; run this again for the "
            "receipt"
        ) from error
    return path


def _show(
    me: Membership,
    submission: Submission,
    receipt: Receipt | None,
    kept: Path | None,
    *,
    spent: bool,
    unread: Path | None,
    as_json: bool,
) -> None:
    if as_json:
        print_json(
            {
                "party": me.name,
                "agreement": submission.agreement,
                "submission": submission.id,
                "epsilon": submission.stated.epsilon,
                "count": submission.count,
                "spent": spent,
                "round": None if receipt is None else receipt.round,
                "receipt": None if kept is None else str(kept),
            }
        )
        return
    cost = "nothing more was spent: these are the bytes released before"
    if spent:
        stated = submission.stated
        cost = f"spent epsilon {stated.epsilon:g} at order {stated.order:g}, recorded in {me.ledger}"
    if unread is not None:
        print_lines(f"Sent again what was released before; {unread} was not read. Nothing more was spent.")
    else:
        print_lines(
            f"Submitted for {me.name}: {counted(len(submission.statistic), 'perturbed sum')} over "
            f"{counted(submission.count, 'row')}. Privacy: {cost}."
        )
    if receipt is None:
        print_lines(f"It is in the folder {me.place.folder}; a folder gives no receipt.")
    else:
        print_lines(f"The service has it for round {receipt.round}; its signed receipt is {kept}. Keep it.")
