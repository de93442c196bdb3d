"""A round in a folder that its members share: `agreement.toml`, `submissions/`, and the output of `equipoise mediate`.

Access is controlled by the folder's permissions; a service controls it itself. The mediator may write into the folder
itself or into `settlement` in it, and lets each party into its own folder there (`equipoise.mediation.folders`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from equipoise._util.canonical import read_limited
from equipoise._util.files import exists, write_new_file
from equipoise.agreement import Agreement
from equipoise.client.membership import Membership, address_meant
from equipoise.client.round import RoundStatus, Status
from equipoise.errors import ServiceError, SubmissionError
from equipoise.mediation import folders
from equipoise.protocol.keys import fingerprint, load_key, public_hex
from equipoise.protocol.receipts import Receipt, RewardReceipt

AGREEMENT = "agreement.toml"
SUBMISSIONS = "submissions"
ENDING = ".submission.json"
MAX_BYTES = 2**30


class FolderRound:
    """A round that is exchanged through one shared folder, without a service."""

    def __init__(self, membership: Membership) -> None:
        assert membership.place.folder is not None
        self.membership, self.folder = membership, membership.place.folder

    @property
    def round_id(self) -> None:
        """None: a folder is a single round without id."""

    def agreement(self) -> Agreement:
        """Load the agreement in the folder."""
        if not exists(self.folder):
            meant = address_meant(self.folder)
            remedy = f"for a service, write {meant}" if meant else "is the path right, and is the folder mounted?"
            raise ServiceError(f"there is no folder {str(self.folder)!r}; {remedy}")
        if not exists(self.folder / AGREEMENT):
            raise ServiceError(f"the folder {str(self.folder)!r} has no {AGREEMENT}; is it the one of the round?")
        return Agreement.load(self.folder / AGREEMENT)

    def check_open(self) -> None:
        """Refuse a second submission of the party, and one that comes after the settlement."""
        if (settlement := self._settlement()) is not None:
            raise ServiceError(f"the round is settled ({str(settlement)!r}); no submission is taken any more")
        if exists(self._own()):
            raise SubmissionError(
                f"{str(self._own())!r} is there, and this ledger has no release that it could be; each party submits "
                "once. Send what you submitted again by its file, or use the ledger that paid for it"
            )

    def submit(self, data: bytes) -> Receipt | None:
        """Write the submission; an existing one is never replaced."""
        path = self._own()
        try:
            path.parent.mkdir(exist_ok=True)
            write_new_file(path, data, mode=0o644)
        except FileExistsError:
            if read_limited(path) != data:
                raise SubmissionError(
                    f"{str(path)!r} is another submission of {self.membership.name!r}; each party submits once, and "
                    "what is there is never replaced"
                ) from None
        except OSError as error:
            raise SubmissionError(f"cannot write {str(path)!r}: {error.strerror}; send it again later") from error
        return None

    def status(self) -> Status:
        """Return the status of the round: the parties that submitted, and open or settled."""
        agreed = self.agreement()
        submitted = tuple(name for name in agreed.party_names if exists(self._submission(name)))
        me = self.membership
        state = "settled" if self._settlement() is not None else "open"
        round_status = RoundStatus(
            None, agreed.title, state, agreed.identity_digest, agreed.party_names, submitted, me.name in submitted
        )
        own = fingerprint(public_hex(load_key(me.key)))
        return Status(me.name, me.role, "approved", own, (round_status,))

    def reward(self) -> bytes | None:
        """Read the member's reward, where the mediator put it."""
        return self._result(folders.places_of_reward)

    def reward_receipt(self, _data: bytes, _digest: str, _agreement: str) -> None:
        """Return None: a folder signs no receipts."""

    def check_chain(self, _receipts: Sequence[Receipt | RewardReceipt]) -> None:
        """Check nothing: a folder has no log of events."""

    def report(self) -> bytes | None:
        """Read the member's edition of the report, if the mediator wrote one; it comes a moment after the reward."""
        folder = self._settlement()
        if folder is None or not any(map(exists, folders.places_of_report(folder, self.membership.name))):
            return None
        return self._result(folders.places_of_report)

    def close(self) -> None:
        """Close nothing: no connection is held."""

    def _submission(self, party: str) -> Path:
        return self.folder / SUBMISSIONS / f"{party}{ENDING}"

    def _own(self) -> Path:
        return self._submission(self.membership.name)

    def _settlement(self) -> Path | None:
        """Return the folder with `settlement.json`, which is written last; None if there is none."""
        for folder in (self.folder / "settlement", self.folder):
            if exists(folder / folders.SETTLEMENT):
                return folder
        return None

    def _result(self, places: Callable[[Path, str], tuple[Path, ...]]) -> bytes | None:
        folder = self._settlement()
        if folder is None:
            return None
        me = self.membership.name
        candidates = places(folder, me)
        path = next((candidate for candidate in candidates if exists(candidate)), candidates[0])
        try:
            data = read_limited(path, max_bytes=MAX_BYTES)
        except FileNotFoundError:
            raise ServiceError(f"the round is settled, but there is no {str(path)!r}; did {me!r} submit?") from None
        except OSError as error:
            raise ServiceError(
                f"cannot read {str(path)!r}: {error.strerror}; ask the operator to let you into "
                f"{str(folders.folder_of(folder, me))!r}, or to send you what is in it"
            ) from error
        if len(data) > MAX_BYTES:
            raise ServiceError(f"{str(path)!r} is larger than {MAX_BYTES:,} bytes; nothing was copied")
        return data
