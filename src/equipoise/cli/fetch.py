"""`equipoise fetch`: get the reward and the report that are one's own."""

import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from equipoise._util.canonical import read_limited
from equipoise._util.files import is_there, replaced_file, write_new_file
from equipoise.agreement import Agreement
from equipoise.cli.options import JsonOption, MembershipOption, RoundOption
from equipoise.cli.output import print_alarm, print_json, print_lines
from equipoise.client.exchange import Exchange, exchange_of
from equipoise.client.membership import Membership
from equipoise.errors import EquipoiseError, MediationError, ServiceError, VerificationError
from equipoise.protocol.receipts import Receipt, RewardReceipt, any_receipt
from equipoise.reward.model import Reward

EVERY = 2.0  # seconds between two looks


def fetch(
    round_id: RoundOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the reward [NAME.nc].")] = None,
    report: Annotated[Path | None, typer.Option(help="File for your report [NAME.report.html].")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is there.")] = False,
    membership: MembershipOption = Path("equipoise.json"),
    as_json: JsonOption = False,
) -> None:
    """Get your reward and your edition of the report; exit code 11 while there is none.

    The reward is kept only if it can be read, is yours, is of this agreement, and the service signs for it. The receipt
    is kept beside it, and must be in the service's log, as must that of your submission if it is here.

    Example: equipoise fetch --wait -o north.nc
    """
    me = Membership.load(membership)
    if me.role != "party":
        raise ServiceError(f"{me.name!r} is a member as {me.role}; rewards are fetched by their parties")
    with closing(exchange_of(me, round_id=round_id, wanted="settled")) as exchange:
        data = _reward(exchange, wait=wait)
        which, agreed = exchange.round_id, exchange.agreement()
        reward_path = output or _name(me, ".nc", data, which)
        reward = _check(data, me, agreed)
        receipt, receipt_path = exchange.reward_receipt(data, reward.digest, agreed.identity), None
        sent = _own_receipt(me, which, f"{me.name}.{which}.receipt.json", f"{me.name}.receipt.json")
        if sent is not None and sent.agreement != agreed.identity:
            raise VerificationError(
                f"the service now calls {agreed.identity} the agreement, but signed for your submission under "
                f"{sent.agreement}; nothing was kept. Keep the receipt; it is the proof"
            )
        if receipt is not None:
            receipt_path = reward_path.with_name(f"{reward_path.stem}.reward-receipt.json")
            earlier = _own_receipt(me, which, str(receipt_path))
            exchange.check_chain([receipt, *(one for one in (sent, earlier) if one is not None)])
        deviations = reward.deviations or made_otherwise(reward)
        _keep(data, reward_path)
        if receipt is not None and receipt_path is not None:
            _keep(receipt.to_json(), receipt_path)
        written, report_path = exchange.report(), None
        if written is not None:
            report_path = report or _name(me, ".report.html", written, which)
            _replace(written, report_path)
    if as_json:
        found = {"party": me.name, "round": which, "title": agreed.title, "deviations": list(deviations)}
        found["decisions"] = None if receipt is None else receipt.decisions
        paths = {"reward": reward_path, "receipt": receipt_path, "report": report_path}
        print_json(found | {name: None if path is None else str(path) for name, path in paths.items()})
        return
    words = " ".join((*((which,) if which else ()), *((f"“{agreed.title}”",) if agreed.title else ())))
    there = "there is no report of yours (yet)" if report_path is None else f"your report {report_path}"
    print_lines(f"Your reward of {f'round {words}' if words else 'the round'} is {reward_path}, {there}.")
    if receipt is not None:
        and_sent = " and that of your submission" if sent is not None else ""
        print_lines(f"The service's signed receipt is {receipt_path}; its log has it{and_sent}. Keep it.")
        print_lines(f"The decisions are {receipt.decisions[:16]}…: the others have the same, unless the service lies.")
    print_lines(f"Predict with it: equipoise predict {reward_path} --data FILE")
    for one in deviations:
        print_alarm(f"The agreement was not kept: {one}.")


def _reward(exchange: Exchange, *, wait: bool) -> bytes:
    while (data := exchange.reward()) is None:
        if not wait:
            raise ServiceError("not yet: the round is not settled; look with `equipoise status`, or wait with --wait")
        time.sleep(EVERY)
    return data


def _name(me: Membership, ending: str, data: bytes, round_id: str | None) -> Path:
    """The file to write: the party's name, with the round's id if that name has what is of another round."""
    path = Path(f"{me.name}{ending}")
    if round_id is None or not is_there(path) or read_limited(path, max_bytes=len(data)) == data:
        return path
    if ending == ".nc":
        try:
            Reward.load(path)
        except EquipoiseError:
            return path  # somebody else's file, of which `_keep` tells
    return Path(f"{me.name}.{round_id}{ending}")


def _own_receipt(me: Membership, round_id: str | None, *names: str) -> Receipt | RewardReceipt | None:
    """What `equipoise submit` or `fetch` left here for this round; a file that is something else is passed over."""
    for name in names:
        try:
            found = any_receipt(read_limited(Path(name)))
        except (OSError, VerificationError):
            continue
        if (found.round, found.service) == (round_id, me.service):
            found.check(found.service)
            return found
    return None


def _keep(data: bytes, path: Path) -> None:
    """Write what is known to be right; another file of that name is not replaced."""
    if is_there(path) and read_limited(path, max_bytes=len(data)) == data:
        return
    try:
        write_new_file(path, data, mode=0o600)
    except FileExistsError:
        raise MediationError(f"{str(path)!r} is another file; choose another name with --output") from None
    except OSError as error:
        raise MediationError(
            f"cannot write {str(path)!r}: {error.strerror}; choose another place with --output"
        ) from error


def _check(data: bytes, me: Membership, agreed: Agreement) -> Reward:
    with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
        path = Path(folder) / "reward.nc"
        path.write_bytes(data)
        reward = Reward.load(path)
    if reward.party != me.name:
        raise VerificationError(f"what arrived is the reward of {reward.party!r}, not of {me.name!r}; nothing was kept")
    if reward.agreement.identity != agreed.identity:
        raise VerificationError(
            f"what arrived is a reward of agreement {reward.agreement.identity}, not of {agreed.identity}; nothing was "
            "kept"
        )
    return reward


def made_otherwise(reward: Reward) -> tuple[str, ...]:
    """What its own draws say of how it was made, where it does not say so itself."""
    scenario, agreed = reward.posterior.scenario, reward.agreement.reward
    used = "noise" if scenario.tau else "tempering" if 0 < scenario.kappa < 1 else agreed.mechanism
    if used == agreed.mechanism or "mechanism" in agreed.operator_may_choose:
        return ()
    return (f'mechanism = "{used}" was used where the agreement says "{agreed.mechanism}", and the reward hides it',)


def _replace(data: bytes, path: Path) -> None:
    """Write the report; one that was there is replaced, for it can always be had again."""
    try:
        with replaced_file(path, mode=0o600) as partial:
            partial.write_bytes(data)
    except OSError as error:
        raise MediationError(
            f"cannot write {str(path)!r}: {error.strerror}; choose another place with --report"
        ) from error
