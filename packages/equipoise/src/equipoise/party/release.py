"""The release of a differentially private statistic, once.

**What is promised.** The submission returned is a (λ, ε)-Rényi differentially private function of the table under
replacement of one row, or of all rows of one individual where that is agreed (the ledger records which). Row count,
agreement, party name and (λ, ε) are public and travel in the clear.

**Precondition.** The agreement's bounds were chosen without looking at the table. Each individual owns one row, or the
agreement names the column that says whose rows they are. Tables that share individuals share the ledger.

**Argument.** `exact_statistic` applies a fixed public map to each row, clips it to the agreed box and ball, and adds
exactly, so replacing a row changes the statistic by at most `layout.sensitivity` (proofs in `models/`). `perturb` adds
discrete Gaussian noise that is ρ-zCDP at that sensitivity with ρ ≤ ε/λ. All later steps see only its output.

**What is not covered.** A table is refused if many of its values would be clipped, or if a cell does not fit. Such a
refusal depends on rows and is outside the guarantee; `docs/privacy.md` lists them all.

**Order of steps**, so that a crash never leaves an unrecorded release: refuse what can be refused without data; read
the table; refuse it if it is hardly in the agreed units; ask the party; put the spend on disk; draw noise; sign; store
the submission in the ledger; hand it out.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equipoise._util.files import exists
from equipoise.agreement import Agreement
from equipoise.errors import ClippingWarning, GuaranteeError, KeyFileError, LedgerError, PrivacyError, TableError
from equipoise.models import LARGEST_NOISE, Layout, layout_of
from equipoise.models.guarantee import Guarantee
from equipoise.party.individuals import check_stated_rows
from equipoise.party.inspection import Problem, odd_problems
from equipoise.party.ledger import Ledger
from equipoise.party.mechanism import noise_scale, perturb
from equipoise.party.options import ReleaseOptions
from equipoise.party.statistics import CLIPPED_IS_MANY, ExactStatistic, Progress, exact_statistic
from equipoise.party.units import Unit
from equipoise.protocol.keys import load_key, load_or_create_key, public_hex
from equipoise.protocol.submission import FORMAT, PLACEHOLDER_ID, VERSION, StatedGuarantee, Submission


@dataclass(frozen=True)
class Preview:
    """A dry run's submission, in the form of the real one, with placeholders for what does not exist yet.

    Its statistic is noise around zero, its id and signature are zeros, and so is its key if none has been made. `odd`
    lists oddities that a release accepts but are worth a look; `individuals` has the number of individuals by their
    number of rows, if the agreement names a column of owners.
    """

    submission: Submission
    guarantee: Guarantee
    layout: Layout
    clipped: dict[str, float]
    ignored_columns: tuple[str, ...]
    odd: tuple[Problem, ...] = ()
    individuals: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A release's planned spend, for the party's eyes only.

    `clipped` is the share of each column's first values that lie outside the agreed bounds; `spent_zcdp` and `cap_zcdp`
    are the ledger's before the release, the former that of the table's cohort if it has one. `charged_zcdp` is what the
    release adds to it: more than the guarantee says if the ledger counts individuals of several rows. `unit` is what
    the release protects, `total_unit` what the ledger's numbers are for.
    """

    guarantee: Guarantee
    count: int
    clipped: dict[str, float]
    ledger: Path
    new_ledger: bool
    spent_zcdp: float
    charged_zcdp: float
    cap_zcdp: float
    unit: Unit
    total_unit: str


Confirm = Callable[[Plan], bool]


def release(
    agreement: Agreement | str | Path,
    source: Any,
    options: ReleaseOptions | None = None,
    *,
    party: str,
    ledger: str | Path,
    confirm: Confirm | None = None,
    progress: Progress | None = None,
    **overrides: Any,
) -> Submission:
    """Read a table, spend privacy, and return the signed submission.

    Parameters
    ----------
    agreement : Agreement or path
        What the parties agreed to.
    source : path, data frame, Arrow table, dictionary or array
        The private table; it is read once, in pieces, and never leaves this machine.
    options : ReleaseOptions, optional
        Guarantee, key and what else a party chooses. A guarantee must be stated, here or by name; all others have
        defaults.
    party : str
        The party's name in the agreement.
    ledger : path
        The party's record of privacy spent, one for all tables that share individuals; the first release makes it.
    confirm : callable, optional
        Asked last, with a `Plan`; nothing is spent unless it says yes.
    progress : callable, optional
        Told how much of the table was read.
    **overrides
        Single options by name (`ReleaseOptions`): `epsilon`, `zcdp` or `approx`, and `key`, `again`, `cap_zcdp`,
        `family`, `cohort`, `allow_clipping`.

    Returns
    -------
    Submission
        To be sent to the mediator.

    Raises
    ------
    TableError
        The table does not fit the agreement.
    AgreementError
        The party or the guarantee is not within the agreement.
    PrivacyError
        The ledger refuses the spend, the guarantee cannot be had, or the release was not confirmed.
    KeyFileError
        The signing key cannot be used.

    Examples
    --------
    >>> sent = eq.release("agreement.toml", "north.csv", party="north", epsilon=1.0, ledger="north.ledger")
    >>> sent.save("north.json")
    >>> print(f"{sent.count} rows at ({sent.stated.epsilon_at(1e-6):.2f}, 1e-6)-DP")
    60 rows at (4.89, 1e-6)-DP
    """
    agreement = Agreement.of(agreement)
    options = ReleaseOptions.of(options, overrides)
    guarantee = options.guarantee(agreement)
    book, signing_key = _refuse_before_data(agreement, party, guarantee, ledger, options)
    layout = layout_of(agreement)
    exact = exact_statistic(layout, source, progress=progress)
    _check_stated_rows(book, agreement, source)
    if not options.allow_clipping:
        _refuse_clipping(exact)
    if confirm is not None and not confirm(_plan(book, agreement, guarantee, exact, options)):
        raise PrivacyError("the release was not confirmed; nothing was spent")
    signing_key = signing_key or load_or_create_key(book.key_path)
    spend = book.spend(
        agreement, party, guarantee, count=exact.count, again=options.again, cap_zcdp=options.cap_zcdp,
        family=options.family, cohort=options.cohort,
    )  # fmt: skip
    noisy = perturb(exact.values, sensitivity=layout.sensitivity, zcdp=certified_zcdp(guarantee))
    unsigned = _unsigned(agreement, party, guarantee, exact.count, noisy, spend, public_hex(signing_key))
    submission = unsigned.model_copy(update={"signature": signing_key.sign(unsigned.signed_bytes()).hex()})
    submission.check(agreement)
    book.record_release(submission)
    _warn_of_clipping(exact)
    return submission


def resend(agreement: Agreement | str | Path, *, party: str, ledger: str | Path) -> Submission:
    """Return the submission already made under an agreement. It costs nothing: the same bytes reveal nothing new.

    Parameters
    ----------
    agreement : Agreement or path
        What the parties agreed to.
    party : str
        The party's name in the agreement.
    ledger : path
        The ledger that the release was recorded in.

    Returns
    -------
    Submission
        The latest one, if there are several.

    Raises
    ------
    LedgerError
        The ledger holds none, or cannot be read.

    Examples
    --------
    >>> sent = eq.release("agreement.toml", "north.csv", party="north", epsilon=1.0, ledger="north.ledger")
    >>> eq.resend("agreement.toml", party="north", ledger="north.ledger") == sent
    True
    """
    stored = Ledger(ledger).read().stored_submission(Agreement.of(agreement).identity_digest, party)
    if stored is None:
        raise LedgerError(
            f"the ledger {str(ledger)!r} holds no finished submission of {party!r} under this agreement; release one"
        )
    return stored


def preview(
    agreement: Agreement | str | Path,
    source: Any,
    options: ReleaseOptions | None = None,
    *,
    party: str,
    ledger: str | Path,
    progress: Progress | None = None,
    **overrides: Any,
) -> Preview:
    """Do everything a release does except spend, perturb, sign and store.

    The table is read, twice if it can be, so every error of a release but a refusal of much clipping shows here first,
    and all problems of the table at once. Its statistic is thrown away: even a perturbed one on the screen would be a
    release.

    Parameters
    ----------
    agreement : Agreement or path
        What the parties agreed to.
    source : path, data frame, Arrow table, dictionary or array
        The private table.
    options : ReleaseOptions, optional
        Options of the release.
    party : str
        The party's name in the agreement.
    ledger : path
        The party's ledger, which need not exist yet; nothing is written.
    progress : callable, optional
        Told how much of the table was read.
    **overrides
        Single options by name, as for a release. `family` and `allow_clipping` make no difference here.

    Returns
    -------
    Preview
        `submission` has the form of the real one, with noise around zero as its statistic; `guarantee`; `layout`, what
        the numbers of a statistic are; for the party alone, `clipped`, the share of each column's first values outside
        the agreed bounds, `odd`, what else is worth a look, and `individuals`, how many have how many rows; and
        `ignored_columns`.

    Raises
    ------
    TableError
        The table does not fit the agreement; the message names every problem, with its rows and what to do.
    AgreementError, PrivacyError, KeyFileError
        A release would be refused.

    Examples
    --------
    >>> seen = eq.preview("agreement.toml", "north.csv", party="north", epsilon=1.0, ledger="north.ledger")
    >>> seen.submission.count, seen.ignored_columns
    (60, ('id',))
    """
    agreement = Agreement.of(agreement)
    options = ReleaseOptions.of(options, overrides)
    guarantee = options.guarantee(agreement)
    book, signing_key = _refuse_before_data(agreement, party, guarantee, ledger, options)
    layout = layout_of(agreement)
    odd = odd_problems(layout, source)
    exact = exact_statistic(layout, source, progress=progress)
    _check_stated_rows(book, agreement, source)
    noise = perturb([0] * len(layout), sensitivity=layout.sensitivity, zcdp=certified_zcdp(guarantee))
    odd += _few_rows(exact.count, layout, guarantee)
    public_key = public_hex(signing_key) if signing_key else "0" * 64
    sample = _unsigned(agreement, party, guarantee, exact.count, noise, PLACEHOLDER_ID, public_key)
    return Preview(sample, guarantee, layout, exact.clipped, exact.ignored_columns, odd, exact.individuals)


def _few_rows(count: int, layout: Layout, guarantee: Guarantee) -> tuple[Problem, ...]:
    """Remark on a table that the noise hides, if its rows are too few to add up to it."""
    noise = max(layout.noise_deviations(guarantee))
    if count >= noise:
        return ()
    remedy = (
        f"no sum of so few can exceed the noise, of standard deviation {noise:.3g}, so that nothing can be learnt from "
        "this release; choose a larger epsilon, or take no part"
    )
    return (Problem("the table", "hidden by noise", count, None, remedy, refused=False),)


def certified_zcdp(guarantee: Guarantee) -> float:
    """Return a float ρ with λρ ≤ ε for sure: division rounds to nearest, so step below."""
    return math.nextafter(guarantee.zcdp, 0.0)


def _refuse_before_data(
    agreement: Agreement,
    party: str,
    guarantee: Guarantee,
    ledger: str | Path,
    options: ReleaseOptions,
) -> tuple[Ledger, Ed25519PrivateKey | None]:
    """Refuse what can be refused without reading a row: party, key, ledger, budget, unrepresentable noise."""
    book = Ledger(ledger)
    signing_key = _signing_key(agreement, party, book, options.key)
    book.check_spend(agreement, party, guarantee, again=options.again, cap_zcdp=options.cap_zcdp, cohort=options.cohort)
    zcdp = certified_zcdp(guarantee)
    if zcdp == 0 or noise_scale(layout_of(agreement).sensitivity, zcdp) > LARGEST_NOISE:
        raise GuaranteeError(
            f"epsilon = {guarantee.epsilon:g} asks for more noise than 64-bit numbers hold, and nothing would be left "
            "of the data; choose a larger one"
        )
    return book, signing_key


def _check_stated_rows(book: Ledger, agreement: Agreement, source: Any) -> None:
    """Refuse more rows of an individual than the ledger states, if it counts individuals and this protects rows."""
    if agreement.individuals is not None or book.is_new():
        return
    account = book.read().account
    if account.rows_per_individual is not None and account.individual is not None:
        check_stated_rows(source, account.individual, account.rows_per_individual)


def _refuse_clipping(exact: ExactStatistic) -> None:
    much = {name: share for name, share in exact.clipped.items() if share > CLIPPED_IS_MANY}
    if much:
        shares = ", ".join(f"{share:.0%} of the first values of {name!r}" for name, share in much.items())
        raise TableError(
            f"{shares} lie beyond the agreed range and would be moved to its ends; nothing was spent. Is the table in "
            "the agreed units? If it is, the range is too narrow: agree on a wider one from common knowledge, not from "
            "this table, or release all the same with --allow-clipping (allow_clipping=True). (These shares are not "
            "private: keep them to yourself.)"
        )


def _plan(
    book: Ledger, agreement: Agreement, guarantee: Guarantee, exact: ExactStatistic, options: ReleaseOptions
) -> Plan:
    unit = Unit.of(agreement.individuals)
    if book.is_new():
        spent, charged, total_unit = 0.0, guarantee.zcdp, str(unit)
        cap = guarantee.zcdp if options.cap_zcdp is None else options.cap_zcdp
    else:
        history = book.read()
        account = history.account_after(guarantee.zcdp, options.cohort, unit)
        spent = history.spent_on(options.cohort) if options.cohort else history.total_zcdp
        charged, total_unit, cap = account.times(unit) * guarantee.zcdp, account.unit, history.cap_zcdp
    return Plan(
        guarantee=guarantee,
        count=exact.count,
        clipped=exact.clipped,
        ledger=book.path,
        new_ledger=book.is_new(),
        spent_zcdp=spent,
        charged_zcdp=charged,
        cap_zcdp=cap,
        unit=unit,
        total_unit=total_unit,
    )


def _warn_of_clipping(exact: ExactStatistic) -> None:
    for name, share in exact.clipped.items():
        if share > CLIPPED_IS_MANY:
            warnings.warn(
                f"{share:.0%} of the first values of {name!r} lie beyond the agreed range and were moved to its ends; "
                "is the column in the agreed unit? If it is, the range is too narrow: agree on a wider one from common "
                "knowledge, not from this table. (This share is not private: keep it to yourself.)",
                ClippingWarning,
                stacklevel=3,
            )


def _signing_key(agreement: Agreement, party: str, book: Ledger, key: str | Path | None) -> Ed25519PrivateKey | None:
    """Return the signing key, checked against the agreement, or None if it is yet to be made beside the ledger."""
    pinned = agreement.party(party).public_key
    path = book.key_path if key is None else Path(key)
    if key is None and not exists(path):
        if pinned is not None:
            raise KeyFileError(f"the agreement names key {pinned[:16]}… for {party!r}; give its file with --key (key=)")
        return None
    loaded = load_key(path)
    if pinned is not None and public_hex(loaded) != pinned:
        raise KeyFileError(
            f"the agreement names key {pinned[:16]}… for {party!r}, but {str(path)!r} is {public_hex(loaded)[:16]}…; "
            "give the right file with --key (key=)"
        )
    return loaded


def _unsigned(
    agreement: Agreement,
    party: str,
    guarantee: Guarantee,
    count: int,
    statistic: list[int],
    spend: str,
    public_key: str,
) -> Submission:
    return Submission(
        format=FORMAT,
        version=VERSION,
        agreement=agreement.identity_digest,
        party=party,
        id=spend,
        guarantee=StatedGuarantee(order=guarantee.order, epsilon=guarantee.epsilon),
        count=count,
        statistic=statistic,
        public_key=public_key,
        signature="0" * 128,
    )
