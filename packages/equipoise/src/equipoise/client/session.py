"""A whole party's side of a round in Python: join, submit, look, fetch. The command line calls these functions.

The round is at a service or in a shared folder; `join` notes which, and the others read that note. What is computed
from rows happens here, on the party's machine (`equipoise.party`): only a released submission is handed over.
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
from equipoise.client.kept_files import (
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
from equipoise.protocol.keys import fingerprint as fingerprint_of
from equipoise.protocol.keys import load_key, load_or_create_key, public_hex
from equipoise.protocol.receipts import Receipt, RewardReceipt
from equipoise.protocol.submission import Submission
from equipoise.reward.model import Reward

ROLES = ("party", "auditor", "operator")
EVERY = 2.0  # seconds between two looks

Progress = Callable[[float | None, int], None]


@dataclass(frozen=True)
class Joined:
    """A membership as it was noted, and what became of the request. `by_link` is a one-time link's operator."""

    membership: Membership
    state: str  # requested or approved
    fingerprint: str  # of one's own key, to be read to the operator
    path: Path
    by_link: bool


@dataclass(frozen=True)
class Submitted:
    """What was handed over. `spent` says whether it was released just now; a folder gives no receipt."""

    membership: Membership
    submission: Submission
    receipt: Receipt | None
    receipt_path: Path | None
    spent: bool
    unread: Path | None  # the table that was not read, because the ledger had a release


@dataclass(frozen=True)
class Fetched:
    """A reward that was checked and kept, with what came with it."""

    membership: Membership
    round_id: str | None
    agreement: Agreement
    reward: Reward
    reward_path: Path
    receipt: RewardReceipt | None
    receipt_path: Path | None
    submission_receipt: Receipt | RewardReceipt | None  # one's own of `submit`, if it is here; the log has it, too
    report_path: Path | None
    deviations: tuple[str, ...]  # where the agreement was not kept


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
    """Make a key, ask to join, and note where one is a member. Doing it again is harmless.

    Parameters
    ----------
    place : str
        Address of a service, its one-time link, or a shared folder.
    name : str
        One's name, as in the agreement.
    key, ledger : path, optional
        The signing key, made if it is not there, and the ledger; by default `NAME.ledger`, and the key beside it.
    role : {"party", "auditor", "operator"}, optional
        By default a party; with a one-time link, the operator.
    fingerprint : str, optional
        The service's fingerprint, as its operator told it by another way; another one is refused.
    agreement : path, optional
        The agreement one knows; another one is refused by `submit`.
    note : str
        A line for the operator.
    membership : path
        Where to note it.
    ca : path, optional
        Certificates to trust, if the service's is of one's own authority.

    Returns
    -------
    Joined
        The membership, whether it is approved, and the fingerprint to read to the operator.

    Raises
    ------
    ServiceError
        If the place, name or role cannot be, the service has another key, or the operator refused.

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
    *,
    epsilon: float | None = None,
    zcdp: float | None = None,
    approx: tuple[float, float] | None = None,
    round_id: str | None = None,
    agreement: str | Path | None = None,
    cap_zcdp: float | None = None,
    cohort: str = "",
    family: str = "",
    allow_clipping: bool = False,
    receipt: str | Path | None = None,
    membership: str | Path = FILE,
    announce: Callable[[Agreement], None] | None = None,
    confirm: Callable[[party_release.Plan], bool] | None = None,
    progress: Progress | None = None,
) -> Submitted:
    """Release from a table, spend privacy once, and hand the submission over.

    Calling it again after a lost connection hands the same bytes over and spends nothing.

    Parameters
    ----------
    source : path, optional
        One's table, or a submission (.json) released before; without one, what the ledger holds is handed over. A
        `CsvFile` says how a CSV file is written.
    epsilon, zcdp, approx : optional
        The guarantee, one of: Rényi epsilon at the agreed order, zCDP rho, or (epsilon, delta).
    round_id : str, optional
        Which round, if there are several that are open.
    agreement : path, optional
        The agreement one knows; another one is refused.
    cap_zcdp, family : optional
        Of a new ledger: the most it may ever spend, and which individuals it covers.
    cohort : str, optional
        Which part of the ledger's individuals the table is about; see `equipoise.release`.
    allow_clipping : bool
        Release although much of a column lies outside the agreed bounds.
    receipt : path, optional
        File for the receipt; by default `NAME.receipt.json`.
    membership : path
        The note that `join` made.
    announce : callable, optional
        Called with the agreement before anything is read or spent.
    confirm : callable, optional
        Called with what would be spent; nothing is unless it returns true.
    progress : callable, optional
        Called with the fraction and the number of rows read.

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
    guarantee: dict[str, Any] = {"epsilon": epsilon, "zcdp": zcdp, "approx": approx}
    me, book = _party(membership)
    with closing(round_of(me, round_id=round_id, wanted="open")) as client:
        agreed = _agreed(client, me, agreement, Path(membership), announce)
        submission = _released_before(agreed, me, book, path, guarantee)
        spent = submission is None
        if submission is None:
            assert path is not None
            table = source if isinstance(source, CsvFile) else path
            _check_stated(agreed, guarantee)
            client.check_open()
            submission = party_release.release(
                agreed, table, party=me.name, ledger=book, key=me.key, cap_zcdp=cap_zcdp, cohort=cohort,
                family=family, allow_clipping=allow_clipping, confirm=confirm, progress=progress, **guarantee,
            )  # fmt: skip
        given = client.submit(submission.to_json())
        kept = None
        if given is not None:
            kept = keep_receipt(given, Path(receipt or f"{me.name}.receipt.json"), chosen=bool(receipt))
    unread = None if spent or path is None or _is_submission(path) else path
    return Submitted(me, submission, given, kept, spent, unread)


def preview(
    source: str | Path | CsvFile | None,
    *,
    epsilon: float | None = None,
    zcdp: float | None = None,
    approx: tuple[float, float] | None = None,
    round_id: str | None = None,
    agreement: str | Path | None = None,
    cap_zcdp: float | None = None,
    cohort: str = "",
    membership: str | Path = FILE,
    announce: Callable[[Agreement], None] | None = None,
    progress: Progress | None = None,
) -> party_release.Preview:
    """Show what `submit` would hand over, without spending or sending anything; parameters are as there.

    Returns
    -------
    Preview
        A submission of the form that would leave, with noise around zero in the place of the statistic.
    """
    guarantee: dict[str, Any] = {"epsilon": epsilon, "zcdp": zcdp, "approx": approx}
    me, book = _party(membership)
    with closing(round_of(me, round_id=round_id, wanted="open")) as client:
        agreed = _agreed(client, me, agreement, Path(membership), announce)
        if source is None or _is_submission(Path(str(source))):
            raise ServiceError("--dry-run shows what a table would send; give the table")
        _check_stated(agreed, guarantee)
        return party_release.preview(
            agreed, source if isinstance(source, CsvFile) else Path(source), party=me.name, ledger=book, key=me.key,
            cap_zcdp=cap_zcdp, cohort=cohort,
            progress=progress, **guarantee,
        )  # fmt: skip


def status(*, round_id: str | None = None, membership: str | Path = FILE) -> Status:
    """Say where a member stands: approved or not, and of each round who has submitted and how far it is.

    Parameters
    ----------
    round_id : str, optional
        Only this round.
    membership : path
        The note that `join` made.

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
    """Look every two seconds, and yield each status that is new, until waiting longer changes nothing.

    Parameters are those of `status`. The last one is of a member that was refused, or all of whose rounds are settled
    or closed.
    """
    with closing(round_of(Membership.load(Path(membership)), round_id=round_id)) as client:
        last = None
        while True:
            found = client.status()
            if found != last:
                yield found
            if is_over(found):
                return
            last = found
            time.sleep(EVERY)


def is_over(found: Status) -> bool:
    """Whether waiting longer changes nothing: refused, or every round is settled or closed."""
    if found.state in ("refused", "revoked"):
        return True
    return bool(found.rounds) and all(one.state in ("settled", "closed") for one in found.rounds)


def fetch(
    *,
    round_id: str | None = None,
    output: str | Path | None = None,
    report: str | Path | None = None,
    wait: bool = False,
    membership: str | Path = FILE,
) -> Fetched:
    """Get one's reward and one's edition of the report.

    The reward is kept only if it can be read, is one's own, is of this agreement, and the service signs for it. The
    receipt is kept beside it, and must be in the service's log, as must that of the submission if it is here.

    Parameters
    ----------
    round_id : str, optional
        Which round, if there are several that are settled.
    output, report : path, optional
        Files for the reward and the report; by default `NAME.nc` and `NAME.report.html`.
    wait : bool
        Wait until the round is settled.
    membership : path
        The note that `join` made.

    Returns
    -------
    Fetched
        The reward and where everything is kept; `deviations` say where the agreement was not kept.

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
            client.check_chain([receipt, *(one for one in (sent, earlier) if one is not None)])
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
    """The round of a membership; of several at a service the one given, or the only one in the wanted state."""
    if membership.place.folder is None:
        return ServiceRound(membership, round_id=round_id, wanted=wanted)
    if round_id is not None:
        raise ServiceError(f"the folder {str(membership.place.folder)!r} is one round; leave out --round")
    return FolderRound(membership)


def _party(membership: str | Path) -> tuple[Membership, Path]:
    """The membership of a party, and its ledger."""
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
    """The round's agreement, if it is the one the party says, joined with, or has beside its membership."""
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
    agreed: Agreement, me: Membership, book: Path, source: Path | None, guarantee: Mapping[str, Any]
) -> Submission | None:
    """The submission in a file, or in the ledger; None if one is to be released from a table."""
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
    if stored is not None and any(value is not None for value in guarantee.values()):
        asked = agreed.guarantee(**guarantee).epsilon
        if asked != stored.stated.epsilon:
            raise PrivacyError(
                f"{str(book)!r} has a release under this agreement at epsilon {stored.stated.epsilon:g}, not "
                f"{asked:g}; nothing was sent. Leave the guarantee out to send that one; a second one is made with "
                "`equipoise party release --again` and sent by its file"
            )
    return stored


def _check_stated(agreed: Agreement, guarantee: Mapping[str, Any]) -> None:
    if all(value is None for value in guarantee.values()):
        raise AgreementError(f"say how much privacy to spend: {_ways(agreed)}. Nothing was read or spent")


def _ways(agreed: Agreement) -> str:
    """How a guarantee is stated here."""
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
