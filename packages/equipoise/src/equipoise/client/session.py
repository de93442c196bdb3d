"""A party's side of a round in Python: join, submit, status, fetch. The command line calls these functions.

The round is at a service or in a shared folder; `join` notes which, and the other functions read that note. Everything
that needs rows happens here, on the party's machine (`equipoise.party`). Only a released submission is sent.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from equipoise._util.files import exists
from equipoise.agreement import Agreement
from equipoise.agreement.schema import PARTY_NAME
from equipoise.client.enrolment import as_before, enrol
from equipoise.client.folder_round import AGREEMENT, FolderRound
from equipoise.client.local_files import (
    checked_reward,
    file_name,
    keep,
    keep_receipt,
    made_otherwise,
    own_receipt,
    replace_file,
)
from equipoise.client.membership import FILE, Membership, place_of
from equipoise.client.round import RoundClient, Status, check_identity
from equipoise.client.service_round import ServiceRound
from equipoise.errors import (
    AgreementError,
    PrivacyError,
    ServiceError,
    SubmissionError,
    VerificationError,
)
from equipoise.party import release as party_release
from equipoise.party.csv_stream import CsvFile
from equipoise.party.ledger import Ledger
from equipoise.party.options import ReleaseOptions
from equipoise.protocol.keys import fingerprint as fingerprint_of
from equipoise.protocol.keys import load_key, load_or_create_key, public_hex
from equipoise.protocol.receipts import Receipt, RewardReceipt
from equipoise.protocol.submission import Submission
from equipoise.reward.model import Reward

ROLES = ("party", "auditor", "operator")
# Seconds between two queries of the status.
EVERY = 2.0

Progress = Callable[[float | None, int], None]


@dataclass(frozen=True)
class Joined:
    """A membership as it was noted, and the state of the request, requested or approved.

    `fingerprint` is that of the member's own key, to be read to the operator. `by_link` marks the operator of a
    one-time link.
    """

    membership: Membership
    state: str
    fingerprint: str
    path: Path
    by_link: bool


@dataclass(frozen=True)
class Submitted:
    """A submission that was sent. `spent` says that it was released just now; a folder gives no receipt.

    `unread` is the table that was not read, because the ledger already had a release.
    """

    membership: Membership
    submission: Submission
    receipt: Receipt | None
    receipt_path: Path | None
    spent: bool
    unread: Path | None


@dataclass(frozen=True)
class Fetched:
    """A reward that was checked and kept, with the files that came with it.

    `submission_receipt` is the party's own of `submit`, if it is here; the log has it, too. `deviations` say in which
    points the agreement was not kept.
    """

    membership: Membership
    round_id: str | None
    agreement: Agreement
    reward: Reward
    reward_path: Path
    receipt: RewardReceipt | None
    receipt_path: Path | None
    submission_receipt: Receipt | RewardReceipt | None
    report_path: Path | None
    deviations: tuple[str, ...]


def join(
    place: str,
    *,
    name: str,
    key: str | Path | None = None,
    ledger: str | Path | None = None,
    role: str | None = None,
    fingerprint: str | None = None,
    agreement: str | Path | None = None,
    note: str = "",
    membership: str | Path = FILE,
    ca: str | Path | None = None,
) -> Joined:
    """Make a key, ask to join, and write the membership file. Doing it again is harmless.

    Parameters
    ----------
    place : str
        Address of a service, its one-time link, or a shared folder.
    name : str
        The member's name, as in the agreement.
    key, ledger : path, optional
        The signing key, created if it does not exist, and the ledger; by default `NAME.ledger`, and the key beside it.
    role : {"party", "auditor", "operator"}, optional
        By default a party; with a one-time link, the operator.
    fingerprint : str, optional
        The service's fingerprint, as the operator told it through another channel; another one is refused.
    agreement : path, optional
        The agreement that the member knows; `submit` refuses another one.
    note : str
        A line for the operator.
    membership : path
        The membership file to write.
    ca : path, optional
        Certificates to trust, if the service's certificate is from a private authority.

    Returns
    -------
    Joined
        The membership, its state, and the fingerprint to read to the operator.

    Raises
    ------
    ServiceError
        If the place, name or role is invalid, the service has another key, or the operator refused.

    Examples
    --------
    >>> join("https://consortium.example", name="north").state  # doctest: +SKIP
    'requested'
    """
    where, path = place_of(place), Path(membership)
    chosen = role or ("operator" if where.secret else "party")
    if chosen not in ROLES:
        raise ServiceError(f"there is no role {chosen!r}; choose one of {', '.join(ROLES)}")
    if not re.fullmatch(PARTY_NAME, name):
        raise ServiceError(f"{name!r} cannot be a name: use 1 to 64 letters, digits, dots, dashes or underscores")
    if where.secret and chosen != "operator":
        raise ServiceError(f"a one-time link makes an operator, not a {chosen}; leave out --role")
    book = Path(ledger) if ledger is not None else Path(f"{name}.ledger") if chosen == "party" else None
    beside = Path(f"{name}.key") if book is None else book.with_name(book.name + ".key")
    wanted = Membership(
        place=replace(where, secret=None),
        service=None,
        name=name,
        role=chosen,  # type: ignore[arg-type]
        key=beside if key is None else Path(key),
        ledger=book,
        agreement=None if agreement is None else Agreement.load(agreement).identity_digest,
        ca=None if ca is None else Path(ca),
    )
    if where.folder is not None:
        FolderRound(wanted).agreement().party(name)
    if exists(path):
        wanted = as_before(wanted, Membership.load(path), path, given=key is not None)
    own = fingerprint_of(public_hex(load_or_create_key(wanted.key)))
    joined, state = (wanted, "approved") if where.folder else enrol(wanted, where, fingerprint, note)
    if state in ("refused", "revoked"):
        raise ServiceError(
            f"the operator has {state} {name!r} with the key {str(wanted.key)!r}. Ask it why; then join with a new key "
            "(--key NEW.key) and a new file (--membership NEW.json), and be approved again"
        )
    joined.save(path)
    return Joined(joined, state, own, path, bool(where.secret))


def submit(
    source: str | Path | CsvFile | None = None,
    options: ReleaseOptions | None = None,
    *,
    round_id: str | None = None,
    agreement: str | Path | None = None,
    receipt: str | Path | None = None,
    membership: str | Path = FILE,
    announce: Callable[[Agreement], None] | None = None,
    confirm: Callable[[party_release.Plan], bool] | None = None,
    progress: Progress | None = None,
    **overrides: Any,
) -> Submitted:
    """Release from a table, spend privacy once, and send the submission.

    Calling it again after a lost connection sends the same bytes and spends nothing.

    Parameters
    ----------
    source : path, optional
        The party's table, or a submission (.json) released before; without one, the release in the ledger is sent. A
        `CsvFile` says how a CSV file is written.
    options : ReleaseOptions, optional
        Options of the release. The key is that of the membership.
    round_id : str, optional
        The round's id, if several are open.
    agreement : path, optional
        The agreement that the party knows; another one is refused.
    receipt : path, optional
        File for the receipt; by default `NAME.receipt.json`.
    membership : path
        The file that `join` wrote.
    announce : callable, optional
        Called with the agreement before anything is read or spent.
    confirm : callable, optional
        Called with the plan of the spend; nothing is spent unless it returns true.
    progress : callable, optional
        Called with the fraction and the number of rows read.
    **overrides
        Single options by name (`ReleaseOptions`).

    Returns
    -------
    Submitted
        The submission, and the service's signed receipt, which is worth keeping.

    Raises
    ------
    AgreementError
        If the round's agreement is not the one the party knows.
    PrivacyError
        If the ledger has another release under this agreement, or the release is refused.
    ServiceError
        If the round takes no submission; nothing was spent then.

    Examples
    --------
    >>> submit("north.csv", epsilon=0.2).receipt_path  # doctest: +SKIP
    PosixPath('north.receipt.json')
    """
    path = None if source is None else Path(str(source))
    me, book = _party(membership)
    options = _with_own_key(options, overrides, me)
    with closing(round_of(me, round_id=round_id, wanted="open")) as client:
        agreed = _agreed(client, me, agreement, Path(membership), announce)
        submission = _released_before(agreed, me, book, path, options)
        spent = submission is None
        if submission is None:
            assert path is not None
            table = source if isinstance(source, CsvFile) else path
            _check_stated(agreed, options)
            client.check_open()
            submission = party_release.release(
                agreed, table, options, party=me.name, ledger=book, confirm=confirm, progress=progress
            )
        given = client.submit(submission.to_json())
        kept = None
        if given is not None:
            kept = keep_receipt(given, Path(receipt or f"{me.name}.receipt.json"), chosen=bool(receipt))
    unread = None if spent or path is None or _is_submission(path) else path
    return Submitted(me, submission, given, kept, spent, unread)


def preview(
    source: str | Path | CsvFile | None,
    options: ReleaseOptions | None = None,
    *,
    round_id: str | None = None,
    agreement: str | Path | None = None,
    membership: str | Path = FILE,
    announce: Callable[[Agreement], None] | None = None,
    progress: Progress | None = None,
    **overrides: Any,
) -> party_release.Preview:
    """Show what `submit` would send, without spending or sending anything; parameters are as there.

    Returns
    -------
    Preview
        A submission of the form that would be sent, with noise around zero in place of the statistic.
    """
    me, book = _party(membership)
    options = _with_own_key(options, overrides, me)
    with closing(round_of(me, round_id=round_id, wanted="open")) as client:
        agreed = _agreed(client, me, agreement, Path(membership), announce)
        if source is None or _is_submission(Path(str(source))):
            raise ServiceError("--dry-run shows what a table would send; give the table")
        _check_stated(agreed, options)
        table = source if isinstance(source, CsvFile) else Path(source)
        return party_release.preview(agreed, table, options, party=me.name, ledger=book, progress=progress)


def status(*, round_id: str | None = None, membership: str | Path = FILE) -> Status:
    """Return the status of a member: approved or not, and of each round the submissions and progress.

    Parameters
    ----------
    round_id : str, optional
        Only this round.
    membership : path
        The file that `join` wrote.

    Returns
    -------
    Status
        The member's state and its rounds.

    Examples
    --------
    >>> [one.state for one in status().rounds]  # doctest: +SKIP
    ['settling']
    """
    with closing(round_of(Membership.load(Path(membership)), round_id=round_id)) as client:
        return client.status()


def watch(*, round_id: str | None = None, membership: str | Path = FILE) -> Iterator[Status]:
    """Query the status every two seconds, and yield each new one until waiting longer cannot change it.

    Parameters are those of `status`. The last status is that of a member that was refused, or whose rounds are all
    settled or closed.
    """
    with closing(round_of(Membership.load(Path(membership)), round_id=round_id)) as client:
        last = None
        while True:
            current = client.status()
            if current != last:
                yield current
            if is_over(current):
                return
            last = current
            time.sleep(EVERY)


def is_over(status: Status) -> bool:
    """Return True if waiting cannot change the status: the member was refused, or all rounds are settled or closed."""
    if status.state in ("refused", "revoked"):
        return True
    return bool(status.rounds) and all(each.state in ("settled", "closed") for each in status.rounds)


def fetch(
    *,
    round_id: str | None = None,
    output: str | Path | None = None,
    report: str | Path | None = None,
    wait: bool = False,
    membership: str | Path = FILE,
) -> Fetched:
    """Fetch the party's reward and its edition of the report.

    The reward is kept only if it can be read, is the party's own, is of this agreement, and the service signs for it.
    The receipt is kept beside it and must be in the service's log, as must the submission's receipt if it is here.

    Parameters
    ----------
    round_id : str, optional
        The round's id, if several are settled.
    output, report : path, optional
        Files for the reward and the report; by default `NAME.nc` and `NAME.report.html`.
    wait : bool
        Wait until the round is settled.
    membership : path
        The file that `join` wrote.

    Returns
    -------
    Fetched
        The reward and the files that were kept; `deviations` say in which points the agreement was not kept.

    Raises
    ------
    ServiceError
        While the round is not settled.
    VerificationError
        If what arrived is not what the service signed for; nothing is kept then.

    Examples
    --------
    >>> fetch(wait=True).reward.predict(table)  # doctest: +SKIP
    """
    me = Membership.load(Path(membership))
    if me.role != "party":
        raise ServiceError(f"{me.name!r} is a member as {me.role}; rewards are fetched by their parties")
    with closing(round_of(me, round_id=round_id, wanted="settled")) as client:
        data = _reward(client, wait=wait)
        which, agreed = client.round_id, client.agreement()
        reward_path = Path(output) if output is not None else file_name(me, ".nc", data, which)
        reward = checked_reward(data, me, agreed)
        receipt, receipt_path = client.reward_receipt(data, reward.digest, agreed.identity_digest), None
        sent = own_receipt(me, which, f"{me.name}.{which}.receipt.json", f"{me.name}.receipt.json")
        if sent is not None and sent.agreement != agreed.identity_digest:
            raise VerificationError(
                f"the service now calls {agreed.identity_digest} the agreement, but signed for your submission under "
                f"{sent.agreement}; nothing was kept. Keep the receipt; it is the proof"
            )
        if receipt is not None:
            receipt_path = reward_path.with_name(f"{reward_path.stem}.reward-receipt.json")
            earlier = own_receipt(me, which, str(receipt_path))
            client.check_chain([receipt, *(other for other in (sent, earlier) if other is not None)])
        deviations = reward.deviations or made_otherwise(reward)
        keep(data, reward_path)
        if receipt is not None and receipt_path is not None:
            keep(receipt.to_json(), receipt_path)
        written, report_path = client.report(), None
        if written is not None:
            report_path = Path(report) if report is not None else file_name(me, ".report.html", written, which)
            replace_file(written, report_path)
    return Fetched(
        me, which, agreed, reward, reward_path, receipt, receipt_path, sent, report_path, tuple(deviations)
    )  # fmt: skip


def round_of(membership: Membership, *, round_id: str | None = None, wanted: str | None = None) -> RoundClient:
    """Return the round of a membership; of several at a service, the given one or the only one in the wanted state."""
    if membership.place.folder is None:
        return ServiceRound(membership, round_id=round_id, wanted=wanted)
    if round_id is not None:
        raise ServiceError(f"the folder {str(membership.place.folder)!r} is one round; leave out --round")
    return FolderRound(membership)


def _party(membership: str | Path) -> tuple[Membership, Path]:
    """Return the membership of a party, and its ledger."""
    me = Membership.load(Path(membership))
    if me.role != "party" or me.ledger is None:
        raise ServiceError(f"{me.name!r} is a member as {me.role}; parties submit")
    return me, me.ledger


def _agreed(
    client: RoundClient,
    me: Membership,
    given: str | Path | None,
    membership: Path,
    announce: Callable[[Agreement], None] | None,
) -> Agreement:
    """Return the round's agreement; refuse another than the party named, joined with, or has beside its membership."""
    agreed = client.agreement()
    expected = {}
    local = membership.parent / AGREEMENT
    if given is not None:
        expected[f"yours ({given})"] = Agreement.load(given).identity_digest
    elif me.agreement is not None:
        expected["the one you joined with"] = me.agreement
    elif exists(local):
        expected[f"yours ({local})"] = Agreement.load(local).identity_digest
    check_identity(agreed, expected, where=me.place.url or str(me.place.folder))
    agreed.party(me.name)
    if announce is not None:
        announce(agreed)
    return agreed


def _is_submission(source: Path) -> bool:
    return source.suffix.lower() == ".json"


def _released_before(
    agreed: Agreement, me: Membership, book: Path, source: Path | None, options: ReleaseOptions
) -> Submission | None:
    """Return the submission in a file, or in the ledger; None if one is to be released from a table."""
    if source is not None and _is_submission(source):
        submission = Submission.load(source)
        _check_own(submission, agreed, me, source)
        return submission
    stored = Ledger(book).read().stored_submission(agreed.identity_digest, me.name) if exists(book) else None
    if stored is None and source is None:
        raise PrivacyError(
            f"{str(book)!r} has no finished release of {me.name!r} under this agreement; give the table to release "
            f"from, and the guarantee: {_ways(agreed)}"
        )
    if stored is not None and options.states_guarantee:
        asked = options.guarantee(agreed).epsilon
        if asked != stored.stated.epsilon:
            raise PrivacyError(
                f"{str(book)!r} has a release under this agreement at epsilon {stored.stated.epsilon:g}, not "
                f"{asked:g}; nothing was sent. Leave the guarantee out to send that one; a second one is made with "
                "`equipoise party release --again` and sent by its file"
            )
    return stored


def _with_own_key(options: ReleaseOptions | None, overrides: Mapping[str, Any], me: Membership) -> ReleaseOptions:
    """Return the options of a release that is signed by the key of the membership."""
    chosen = ReleaseOptions.of(options, overrides)
    if chosen.key is not None or chosen.again:
        raise ServiceError(
            "a round takes one release, signed by the key that joined; leave key and again out, or release by "
            "`equipoise party release` and submit its file"
        )
    return ReleaseOptions.of(chosen, {"key": me.key})


def _check_stated(agreed: Agreement, options: ReleaseOptions) -> None:
    if not options.states_guarantee:
        raise AgreementError(f"say how much privacy to spend: {_ways(agreed)}. Nothing was read or spent")


def _ways(agreed: Agreement) -> str:
    """List the options that state a guarantee under this agreement."""
    most = f"at order {agreed.privacy.order:g}, of which {agreed.privacy.max_epsilon:g} is the agreed maximum"
    return f"--epsilon E ({most}), --zcdp R or --approx E D"


def _check_own(submission: Submission, agreed: Agreement, me: Membership, source: Path) -> None:
    submission.check(agreed)
    if submission.party != me.name:
        raise SubmissionError(f"{str(source)!r} is the submission of {submission.party!r}, not of {me.name!r}")
    if submission.public_key != public_hex(load_key(me.key)):
        raise SubmissionError(
            f"{str(source)!r} is signed with the key {submission.public_key[:16]}…, not with yours, {str(me.key)!r}; "
            "join with the key you released with (--key)"
        )


def _reward(client: RoundClient, *, wait: bool) -> bytes:
    while (data := client.reward()) is None:
        if not wait:
            raise ServiceError("not yet: the round is not settled; look with `equipoise status`, or wait with --wait")
        time.sleep(EVERY)
    return data
