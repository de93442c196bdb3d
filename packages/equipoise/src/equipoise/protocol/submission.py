"""The submission: the only thing that leaves a party's machine, and the checks on its arrival.

A submission is a JSON object of integers, short strings and the stated guarantee, signed with Ed25519 over its
canonical form. Reading one assumes a hostile sender: `Submission.parse` refuses whatever does not have exactly that
form, and `Submission.check` refuses whatever does not belong to the agreement. The noise is never taken on trust: the
receiver recomputes it from the agreement and (λ, ε).
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from equipoise._util.canonical import StrictJSONError, canonical_json, read_limited, strict_json
from equipoise._util.files import write_new_file
from equipoise._util.recognition import mixed_up
from equipoise.agreement import Agreement
from equipoise.agreement.schema import PartyName
from equipoise.errors import SubmissionError
from equipoise.models import LARGEST_NOISE, layout_of
from equipoise.models.guarantee import MAX_STATISTIC_LENGTH, Guarantee
from equipoise.models.section import Hex64, validate_public_key

FORMAT: Literal["equipoise-submission"] = "equipoise-submission"
VERSION = 1

PLACEHOLDER_ID = "0" * 64  # id in a preview, which no spend paid for
SignatureHex = Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]
# Standard deviations of the noise beyond anything that rows can add up to. The discrete Gaussian is sub-Gaussian with
# its σ (E e^{tX} = e^{t²σ²/2} Σ_x e^{−(x−tσ²)²/2σ²} / Σ_x e^{−x²/2σ²}, and by Poisson summation no shift of that sum
# exceeds the unshifted one), so a number of an honest statistic is that far off with a probability below e⁻⁸⁰⁰, and one
# of the 2¹⁵ of the longest with less than 1e-340. Sums that would leave 64 bits are saturated, towards the middle.
IMPOSSIBLE = 40.0
_SEARCHED = 2e-3  # OpenDP's search may find a scale that is smaller than the formula's by half as much
_DIGITS = 20  # digits of −2⁶³, with its sign
_FRAME = 1_024  # upper bound of the bytes besides the numbers
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]


def _summary_alone(schema: dict[str, Any]) -> None:
    """Keep only the summary of a docstring in the service's API documents, which need no Python examples."""
    schema["description"] = schema["description"].split("\n\n")[0]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, json_schema_extra=_summary_alone)


class StatedGuarantee(_Strict):
    """The guarantee (λ, ε) as a submission states it."""

    order: Annotated[float, Field(gt=1, allow_inf_nan=False)]
    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Submission(_Strict):
    """A party's perturbed statistic with everything needed to use it: the only thing that leaves its machine.

    `release` makes one; `load` reads one. It cannot be changed.

    Attributes
    ----------
    format, version : str, int
        Of the document.
    agreement : str
        Identity of the agreement it was made for.
    party : str
        Who made it.
    id : str
        Hash of the ledger entry that paid for it, so that a ledger can be checked against submissions that are out in
        the world. It reveals nothing: the entry holds a random number.
    guarantee : StatedGuarantee
        Rényi order and ε as written; `stated` has the other readings.
    count : int
        Rows of the table.
    statistic : list of int
        Perturbed sums, in grid steps; `values` has them in their own units.
    public_key, signature : str
        Ed25519, in hexadecimal digits.

    Examples
    --------
    >>> sent = eq.release("agreement.toml", "north.csv", party="north", epsilon=1.0, ledger="north.ledger")
    >>> sent.save("north.json")
    >>> received = eq.Submission.load("north.json")
    >>> received.check(eq.Agreement.load("agreement.toml"))
    """

    format: Literal["equipoise-submission"]
    version: Annotated[int, Field(ge=1, le=1)]
    agreement: Hex64
    party: PartyName
    id: Hex64
    guarantee: StatedGuarantee
    count: Annotated[int, Field(ge=1, le=2**53)]
    statistic: Annotated[list[Int64], Field(min_length=1, max_length=MAX_STATISTIC_LENGTH)]
    public_key: Hex64
    signature: SignatureHex

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a submission file; what it says is not yet checked against an agreement.

        Parameters
        ----------
        path : path
            A file that `save` wrote, or anybody.

        Returns
        -------
        Submission

        Raises
        ------
        SubmissionError
            It cannot be read, or is not exactly a submission.
        """
        try:
            data = read_limited(Path(path))
        except (OSError, ValueError) as error:
            raise SubmissionError(f"cannot read the submission {str(path)!r}: {error}") from error
        try:
            return cls.parse(data, name=str(path))
        except SubmissionError as error:
            raise SubmissionError(mixed_up(Path(path), "a submission") or str(error)) from error

    @classmethod
    def parse(cls, data: bytes, *, name: str = "submission") -> Self:
        """Read a submission received as bytes; what it says is not yet checked against an agreement.

        Parameters
        ----------
        data : bytes
            As `to_json` writes them.
        name : str
            What error messages call it.

        Returns
        -------
        Submission

        Raises
        ------
        SubmissionError
            It is not exactly a submission.
        """
        try:
            document = strict_json(data, max_bytes=max_submission_bytes(MAX_STATISTIC_LENGTH))
            return cls.model_validate(document)
        except StrictJSONError as error:
            raise SubmissionError(f"{name} is not a submission: {error}") from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            key = ".".join(str(part) for part in first["loc"]) or "document"
            raise SubmissionError(
                f"{name} is not a submission: {key}: {first['msg']}; ask the party to send its file again, unchanged"
            ) from error

    def to_json(self) -> bytes:
        """Return the bytes that travel: canonical JSON and a newline."""
        return canonical_json(self.model_dump()) + b"\n"

    def save(self, path: str | Path) -> None:
        """Write the submission to a new file, whole or not at all; one that exists is refused (`SubmissionError`)."""
        try:
            write_new_file(Path(path), self.to_json(), mode=0o644)
        except OSError as error:
            raise SubmissionError(f"cannot write {str(path)!r}: {error.strerror}; choose another name") from error

    def signed_bytes(self) -> bytes:
        """Return the bytes that the signature covers: all of the submission but the signature."""
        return canonical_json(self.model_dump(exclude={"signature"}))

    def check(self, agreement: Agreement) -> None:
        """Refuse a submission that is forged, altered, or does not fit an agreement.

        Parameters
        ----------
        agreement : Agreement
            What it should have been made for.

        Raises
        ------
        SubmissionError
            For the first thing that is wrong: a preview, another agreement, a stranger, another key, a guarantee beyond
            the agreement, a wrong number of sums, a false signature, or sums that no table and no noise give.
        """
        who = f"the submission of {self.party!r}"
        # Not left to the signature: to an all-zero key, all-zero signatures of one text in four are genuine.
        if self.id == PLACEHOLDER_ID:
            raise SubmissionError(f"{who} is a preview, paid for by no ledger; ask the party to release")
        if self.agreement != agreement.identity_digest:
            raise SubmissionError(
                f"{who} was made for agreement {self.agreement[:12]}…, not {agreement.identity_digest[:12]}…; "
                "all parties must release under the same agreement file"
            )
        if self.party not in agreement.party_names:
            raise SubmissionError(f"{who} comes from no party of this agreement ({', '.join(agreement.party_names)})")
        pinned = agreement.party(self.party).public_key
        if pinned is not None and pinned != self.public_key:
            raise SubmissionError(
                f"{who} is signed with key {self.public_key[:16]}…, but the agreement names {pinned[:16]}…"
            )
        if self.guarantee.order != agreement.privacy.order:
            raise SubmissionError(
                f"{who} states order {self.guarantee.order:g}; the agreed order is {agreement.privacy.order:g}"
            )
        if self.guarantee.epsilon > agreement.privacy.max_epsilon:
            raise SubmissionError(
                f"{who} states epsilon {self.guarantee.epsilon:g}, above the agreed {agreement.privacy.max_epsilon:g}"
            )
        least = agreement.privacy.min_epsilon
        if least is not None and self.guarantee.epsilon < least:
            raise SubmissionError(f"{who} states epsilon {self.guarantee.epsilon:g}, below the agreed {least:g}")
        layout = layout_of(agreement)
        # A release rounds in the same way.
        zcdp = math.nextafter(self.stated.zcdp, 0.0)
        if zcdp == 0 or layout.sensitivity / math.sqrt(2 * zcdp) > LARGEST_NOISE * (1 + _SEARCHED):
            raise SubmissionError(
                f"{who} states epsilon {self.guarantee.epsilon:g}, with which nothing can be released: the noise would "
                "exceed 64-bit numbers; ask the party to release with a larger one"
            )
        if len(self.statistic) != len(layout):
            raise SubmissionError(f"{who} has {len(self.statistic)} numbers; this agreement needs {len(layout)}")
        if self.count > layout.max_rows:
            limit = "agreed (max_rows)" if layout.max_rows == layout.agreed_rows else "possible"
            raise SubmissionError(f"{who} claims {self.count:,} rows; at most {layout.max_rows:,} are {limit}")
        self._check_signature(who)
        self._check_magnitudes(who, agreement)

    def values(self, agreement: Agreement) -> tuple[float, ...]:
        """Return the perturbed sums of scaled columns, in the order of the agreement's statistic."""
        steps = layout_of(agreement).steps_per_unit
        return tuple(value / step for value, step in zip(self.statistic, steps, strict=True))

    @property
    def stated(self) -> Guarantee:
        """The guarantee as a `Guarantee`, which has its other readings: (ε, δ), zCDP and what it means."""
        return Guarantee(order=self.guarantee.order, epsilon=self.guarantee.epsilon)

    def _check_magnitudes(self, who: str, agreement: Agreement) -> None:
        """Refuse numbers that no rows and no noise give; merely implausible ones are for the mediator to remark on."""
        layout, values = layout_of(agreement), self.values(agreement)
        noise = layout.noise_deviations(self.stated)
        beyond = layout.beyond_rows(values, self.count, noise)
        worst = max(range(len(beyond)), key=beyond.__getitem__)
        if beyond[worst] > IMPOSSIBLE:
            low, high = (self.count * limit for limit in layout.row_limits[worst])
            raise SubmissionError(
                f"{who} has {values[worst]:.4g} for {layout.entries[worst].name!r}, which for {self.count:,} rows lies "
                f"between {low:.4g} and {high:.4g}, and is {beyond[worst]:.3g} standard deviations of its noise "
                "outside: no table and no noise give that; ask the party to release again from the agreed columns"
            )
        if contradiction := layout.contradiction(values, self.count, noise, IMPOSSIBLE):
            raise SubmissionError(
                f"{who} contradicts itself: {contradiction}, in {self.count:,} rows. No table and no noise give that; "
                "ask the party to release again from the agreed columns"
            )

    def _check_signature(self, who: str) -> None:
        try:
            validate_public_key(self.public_key)
        except ValueError as error:
            raise SubmissionError(f"{who} cannot be trusted: {error}") from error
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.public_key))
        try:
            key.verify(bytes.fromhex(self.signature), self.signed_bytes())
        except InvalidSignature as error:
            raise SubmissionError(
                f"{who} was altered after it was signed; ask the party to send its file again, unchanged"
            ) from error


def max_submission_bytes(numbers: int) -> int:
    """Return the largest size, as `to_json` writes it, of a submission with this many numbers."""
    return _FRAME + (_DIGITS + 1) * numbers


def validate_submissions(agreement: Agreement, submissions: Iterable[Submission]) -> tuple[Submission, ...]:
    """Return submissions in the order of the agreement's parties; refuse forged and duplicate ones."""
    by_party: dict[str, Submission] = {}
    for submission in submissions:
        submission.check(agreement)
        if submission.party in by_party:
            raise SubmissionError(
                f"{submission.party!r} is there twice; keep one of its submissions, each party's counts once"
            )
        by_party[submission.party] = submission
    return tuple(by_party[name] for name in agreement.party_names if name in by_party)
