"""Files that a party keeps of a round: receipts, rewards and reports. Each is checked before it is written."""

import tempfile
from pathlib import Path

from equipoise._util.canonical import read_limited
from equipoise._util.files import exists, replaced_file, write_new_file
from equipoise.agreement import Agreement
from equipoise.client.membership import Membership
from equipoise.errors import EquipoiseError, MediationError, ServiceError, VerificationError
from equipoise.protocol.receipts import Receipt, RewardReceipt, any_receipt
from equipoise.reward.model import Reward


def keep_receipt(receipt: Receipt, path: Path, *, chosen: bool) -> Path:
    """Write the receipt; if a receipt of another round has the name, name this one after its round."""
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
        return keep_receipt(receipt, path.with_name(f"{receipt.party}.{receipt.round}.receipt.json"), chosen=True)
    except OSError as error:
        raise ServiceError(
            f"the submission was taken, but {str(path)!r} cannot be written: {error.strerror}; run this again for the "
            "receipt"
        ) from error
    return path


def file_name(me: Membership, ending: str, data: bytes, round_id: str | None) -> Path:
    """Return the file to write: the party's name, with the round's id if a file of another round has that name."""
    path = Path(f"{me.name}{ending}")
    if round_id is None or not exists(path) or read_limited(path, max_bytes=len(data)) == data:
        return path
    if ending == ".nc":
        try:
            Reward.load(path)
        except EquipoiseError:
            # It is an unrelated file, and `keep` refuses to replace it.
            return path
    return Path(f"{me.name}.{round_id}{ending}")


def own_receipt(me: Membership, round_id: str | None, *names: str) -> Receipt | RewardReceipt | None:
    """Return the receipt that `submit` or `fetch` left here for this round; skip files that are something else."""
    for name in names:
        try:
            receipt = any_receipt(read_limited(Path(name)))
        except (OSError, VerificationError):
            continue
        if (receipt.round, receipt.service) == (round_id, me.service):
            receipt.check(receipt.service)
            return receipt
    return None


def checked_reward(data: bytes, me: Membership, agreed: Agreement) -> Reward:
    """Return the reward that arrived; refuse one that cannot be read, or of another party or agreement."""
    try:
        with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
            path = Path(folder) / "reward.nc"
            path.write_bytes(data)
            reward = Reward.load(path)
    except OSError as error:
        raise MediationError(
            f"cannot write into {tempfile.gettempdir()!r}: {error.strerror}; free some room there, or name another "
            "folder for temporary files in TMPDIR"
        ) from error
    if reward.party != me.name:
        raise VerificationError(f"what arrived is the reward of {reward.party!r}, not of {me.name!r}; nothing was kept")
    if reward.agreement.identity_digest != agreed.identity_digest:
        raise VerificationError(
            f"what arrived is a reward of agreement {reward.agreement.identity_digest}, not of "
            f"{agreed.identity_digest}; nothing was kept"
        )
    return reward


def made_otherwise(reward: Reward) -> tuple[str, ...]:
    """Return a deviation if the reward's scenario shows another mechanism than agreed, for rewards that hide it."""
    scenario, agreed = reward.posterior.scenario, reward.agreement.reward
    used: str = agreed.mechanism
    if scenario.tau:
        used = "noise" if reward.party in scenario.tau else "degraded"
    elif 0 < scenario.kappa < 1:
        used = "tempering"
    if used == agreed.mechanism or "mechanism" in agreed.operator_may_choose:
        return ()
    return (f'mechanism = "{used}" was used where the agreement says "{agreed.mechanism}", and the reward hides it',)


def keep(data: bytes, path: Path) -> None:
    """Write checked data; another file of that name is not replaced."""
    if exists(path) and read_limited(path, max_bytes=len(data)) == data:
        return
    try:
        write_new_file(path, data, mode=0o600)
    except FileExistsError:
        raise MediationError(f"{str(path)!r} is another file; choose another name with --output") from None
    except OSError as error:
        raise MediationError(
            f"cannot write {str(path)!r}: {error.strerror}; choose another place with --output"
        ) from error


def replace_file(data: bytes, path: Path) -> None:
    """Write the report; an existing one is replaced, because it can be fetched again."""
    try:
        with replaced_file(path, mode=0o600) as partial:
            partial.write_bytes(data)
    except OSError as error:
        raise MediationError(
            f"cannot write {str(path)!r}: {error.strerror}; choose another place with --report"
        ) from error
