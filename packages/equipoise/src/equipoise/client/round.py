"""What a party does in a round, whether a service or a shared folder is between it and the mediator."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from equipoise.agreement import Agreement
from equipoise.errors import AgreementError
from equipoise.protocol.receipts import Receipt, RewardReceipt


@dataclass(frozen=True)
class Progress:
    """How far a settlement is; `left_s` is an estimate, None while there is none."""

    stage: str | None
    done: int
    planned: int | None
    elapsed_s: float | None
    left_s: float | None
    problem: str | None


@dataclass(frozen=True)
class RoundStatus:
    """A round as a member may see it. `state` is open, settling, settled or closed; `mine` whether I submitted."""

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
    """Where a member stands. `state` is requested, approved, refused or revoked; in a folder always approved."""

    name: str
    role: str
    state: str
    fingerprint: str
    rounds: tuple[RoundStatus, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The status as plain values."""
        return asdict(self)


class RoundClient(Protocol):
    """What a member can do in one round, through a service or a folder."""

    @property
    def round_id(self) -> str | None:
        """Which round it is, where there can be several."""

    def agreement(self) -> Agreement:
        """The agreement of the round."""

    def check_open(self) -> None:
        """Refuse before anything is spent what would be refused afterwards."""

    def submit(self, data: bytes) -> Receipt | None:
        """Hand a submission over; the same bytes may be handed over again. A folder gives no receipt."""

    def status(self) -> Status:
        """Where the member and its rounds stand."""

    def reward(self) -> bytes | None:
        """The member's reward, None while there is none."""

    def reward_receipt(self, data: bytes, digest: str, agreement: str) -> RewardReceipt | None:
        """The service's word that it handed out this file, the reward of that digest; a folder gives none."""

    def check_chain(self, receipts: Sequence[Receipt | RewardReceipt]) -> None:
        """Refuse a log that no longer has the events of the member's receipts; a folder has no log."""

    def report(self) -> bytes | None:
        """The member's edition of the report, None while there is none."""

    def close(self) -> None:
        """Close the connection, if there is one."""


def check_identity(agreement: Agreement, expected: dict[str, str], *, where: str) -> None:
    """Refuse an agreement other than the one the party knows, by whatever names it knows it."""
    for what, identity in expected.items():
        if identity != agreement.identity_digest:
            raise AgreementError(
                f"{where} has the agreement {agreement.identity_digest}, but {what} is {identity}: they mean different "
                "things. Nothing was read or sent; settle with the operator which one is agreed"
            )
