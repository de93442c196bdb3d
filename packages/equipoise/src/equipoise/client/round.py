"""Interface of a round for its members, through a service or a shared folder."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from equipoise.agreement import Agreement
from equipoise.errors import AgreementError
from equipoise.protocol.receipts import Receipt, RewardReceipt


@dataclass(frozen=True)
class Progress:
    """Progress of a settlement; `left_s` is an estimate, None while there is none."""

    stage: str | None
    done: int
    planned: int | None
    elapsed_s: float | None
    left_s: float | None
    problem: str | None


@dataclass(frozen=True)
class RoundStatus:
    """A round as a member may see it. `state` is open, settling, settled or closed; `mine`: the member submitted."""

    id: str | None
    title: str
    state: str
    agreement: str
    parties: tuple[str, ...]
    submitted: tuple[str, ...]
    mine: bool
    progress: Progress | None = None


@dataclass(frozen=True)
class Status:
    """Status of a member. `state` is requested, approved, refused or revoked; in a folder always approved."""

    name: str
    role: str
    state: str
    fingerprint: str
    rounds: tuple[RoundStatus, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the status as plain values."""
        return asdict(self)


class RoundClient(Protocol):
    """Actions of a member in one round, through a service or a folder."""

    @property
    def round_id(self) -> str | None:
        """The round's id; None in a folder, which is a single round."""

    def agreement(self) -> Agreement:
        """Return the agreement of the round."""

    def check_open(self) -> None:
        """Refuse, before any privacy is spent, a submission that would be refused afterwards."""

    def submit(self, data: bytes) -> Receipt | None:
        """Send a submission; the same bytes may be sent again. A folder gives no receipt."""

    def status(self) -> Status:
        """Return the status of the member and its rounds."""

    def reward(self) -> bytes | None:
        """Return the member's reward, None while there is none."""

    def reward_receipt(self, data: bytes, digest: str, agreement: str) -> RewardReceipt | None:
        """Return the service's signed receipt for this file, the reward with that digest; a folder gives none."""

    def check_chain(self, receipts: Sequence[Receipt | RewardReceipt]) -> None:
        """Refuse a log that no longer has the events of the member's receipts; a folder has no log."""

    def report(self) -> bytes | None:
        """Return the member's edition of the report, None while there is none."""

    def close(self) -> None:
        """Close the connection, if there is one."""


def check_identity(agreement: Agreement, expected: dict[str, str], *, where: str) -> None:
    """Refuse an agreement whose identity differs from any that the party expects; keys say where these are from."""
    for what, identity in expected.items():
        if identity != agreement.identity_digest:
            raise AgreementError(
                f"{where} has the agreement {agreement.identity_digest}, but {what} is {identity}: they mean different "
                "things. Nothing was read or sent; settle with the operator which one is agreed"
            )
