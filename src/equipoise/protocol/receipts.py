"""A receipt: the service's signed word that it has a submission, for the party to keep.

It names the event that recorded the submission and that event's digest, so that a log without it, or with another in
its place, contradicts the receipt.
"""

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from equipoise.canonical import StrictJSONError, canonical_json, strict_json
from equipoise.errors import VerificationError
from equipoise.protocol.public_keys import verify
from equipoise.schema import PartyName
from equipoise.section import Hex64

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT: Literal["equipoise-receipt"] = "equipoise-receipt"
RoundName = Annotated[str, Field(pattern=r"^[a-z0-9]{4,40}$")]


class Receipt(BaseModel):
    """What was received, from whom, for which round, when; signed by the service."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal["equipoise-receipt"]
    version: Literal[1]
    round: RoundName
    agreement: Hex64
    party: PartyName
    submission: Hex64  # its id
    digest: Hex64  # SHA-256 of the file
    received: Annotated[int, Field(ge=0)]  # milliseconds since 1970, by the service's clock
    event: Annotated[int, Field(ge=1)]
    event_digest: Hex64
    service: Hex64  # its public key
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]

    @classmethod
    def signed(
        cls,
        key: "Ed25519PrivateKey",
        *,
        round: str,  # noqa: A002  (the product's word for it)
        agreement: str,
        party: str,
        submission: str,
        digest: str,
        received: int,
        event: int,
        event_digest: str,
    ) -> Self:
        """Make one."""
        unsigned = {
            "format": FORMAT,
            "version": 1,
            "round": round,
            "agreement": agreement,
            "party": party,
            "submission": submission,
            "digest": digest,
            "received": received,
            "event": event,
            "event_digest": event_digest,
            "service": key.public_key().public_bytes_raw().hex(),
        }
        return cls.model_validate({**unsigned, "signature": key.sign(canonical_json(unsigned)).hex()})

    @classmethod
    def parse(cls, data: bytes, *, name: str = "receipt") -> Self:
        """Read one that was received; it is not yet checked."""
        try:
            return cls.model_validate(strict_json(data))
        except (StrictJSONError, ValidationError) as error:
            raise VerificationError(f"{name} is not a receipt: {error}") from error

    def to_json(self) -> bytes:
        """The bytes that travel: canonical JSON and a newline."""
        return canonical_json(self.model_dump()) + b"\n"

    def check(self, service: str) -> None:
        """Refuse a receipt that this service (by its public key) did not sign."""
        if self.service != service:
            raise VerificationError(
                f"the receipt for {self.party!r} names the service {self.service[:16]}…, not {service[:16]}…"
            )
        verify(service, self.signature, canonical_json(self.model_dump(exclude={"signature"})), what="the receipt")
