"""Receipts: the service's signed statements that it holds a submission, or handed out a reward, for the party to keep.

A receipt names the event that recorded it and that event's digest, so that a log without that event, or with another
one instead, contradicts the receipt. Nor can earlier events be rewritten, because the digest covers all of them.
"""

from typing import Annotated, ClassVar, Literal, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from equipoise._util.canonical import StrictJSONError, canonical_json, strict_json
from equipoise.agreement.schema import PartyName
from equipoise.errors import VerificationError
from equipoise.models.section import Hex64
from equipoise.protocol.keys import verify

RoundName = Annotated[str, Field(pattern=r"^[a-z0-9]{4,40}$")]
Moment = Annotated[int, Field(ge=0)]  # milliseconds since 1970, by the service's clock


class _Signed(BaseModel):
    """The fields that both kinds share: the party, the event, and the service's signature."""

    KIND: ClassVar[str]
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Literal[1]
    round: RoundName
    agreement: Hex64
    party: PartyName
    digest: Hex64  # SHA-256 of the file
    event: Annotated[int, Field(ge=1)]
    event_digest: Hex64
    service: Hex64  # its public key
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]

    @classmethod
    def signed(cls, key: Ed25519PrivateKey, **said: str | int) -> Self:
        """Create a receipt with all its fields but format, version, service and signature, and sign it."""
        unsigned = {"format": cls.KIND, "version": 1, "service": key.public_key().public_bytes_raw().hex(), **said}
        return cls.model_validate({**unsigned, "signature": key.sign(canonical_json(unsigned)).hex()})

    @classmethod
    def parse(cls, data: bytes, *, name: str = "receipt") -> Self:
        """Parse a received receipt; `check` verifies it."""
        try:
            return cls.model_validate(strict_json(data))
        except (StrictJSONError, ValidationError) as error:
            raise VerificationError(f"{name} is not a receipt: {error}") from error

    def to_json(self) -> bytes:
        """Return the bytes that travel: canonical JSON and a newline."""
        return canonical_json(self.model_dump()) + b"\n"

    def check(self, service: str) -> None:
        """Refuse a receipt that this service (given by its public key) did not sign."""
        if self.service != service:
            raise VerificationError(
                f"the receipt for {self.party!r} names the service {self.service[:16]}…, not {service[:16]}…"
            )
        verify(service, self.signature, canonical_json(self.model_dump(exclude={"signature"})), what="the receipt")


class Receipt(_Signed):
    """A signed statement of which submission was received, from whom, for which round and when."""

    KIND = "equipoise-receipt"
    format: Literal["equipoise-receipt"]
    submission: Hex64  # its id
    received: Moment


class RewardReceipt(_Signed):
    """A signed statement of which reward was handed out, to whom, of which decisions and when."""

    KIND = "equipoise-reward-receipt"
    format: Literal["equipoise-reward-receipt"]
    decisions: Hex64  # of the settlement
    reward: Hex64  # `Reward.digest`, as decided
    handed_out: Moment


def any_receipt(data: bytes, *, name: str = "receipt") -> Receipt | RewardReceipt:
    """Parse a receipt of either kind."""
    try:
        kind = RewardReceipt if strict_json(data).get("format") == RewardReceipt.KIND else Receipt
    except (StrictJSONError, AttributeError) as error:
        raise VerificationError(f"{name} is not a receipt: {error}") from error
    return kind.parse(data, name=name)
