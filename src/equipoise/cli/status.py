"""`equipoise status`: where a member stands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.options import JsonOption, MembershipOption, RoundOption
from equipoise.cli.output import echo

if TYPE_CHECKING:
    from equipoise.client.exchange import RoundStatus, Status

EVERY = 2.0  # seconds between two looks


def status(
    round_id: RoundOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Look again until it is settled.")] = False,
    membership: MembershipOption = Path("equipoise.json"),
    as_json: JsonOption = False,
) -> None:
    """Say where you stand: approved or not, invited, submitted, settling (with the time left), settled.

    Example: equipoise status --watch
    """
    import time
    from contextlib import closing

    from equipoise.cli.output import print_json
    from equipoise.client.exchange import exchange_of
    from equipoise.client.membership import Membership

    me = Membership.load(membership)
    with closing(exchange_of(me, round_id=round_id)) as exchange:
        found = exchange.status()
        last = None
        while watch and not _is_over(found):
            if found != last and not as_json:
                echo(" · ".join(_lines(found)), err=True)
            last = found
            time.sleep(EVERY)
            found = exchange.status()
    if as_json:
        print_json(found.to_json())
        return
    for line in _lines(found):
        echo(line)


def _is_over(found: "Status") -> bool:
    """Whether waiting longer changes nothing: refused, or every round is settled or closed."""
    if found.state in ("refused", "revoked"):
        return True
    return bool(found.rounds) and all(one.state in ("settled", "closed") for one in found.rounds)


def _lines(found: "Status") -> list[str]:
    words = {
        "requested": f"waiting for approval; your fingerprint is {found.fingerprint.upper()}",
        "approved": "a member",
        "refused": "refused by the operator",
        "revoked": "no longer a member",
    }
    lines = [f"{found.name} ({found.role}): {words.get(found.state, found.state)}"]
    if found.state == "approved" and not found.rounds:
        lines.append("no round yet; the operator creates one and invites you")
    return lines + [_line(one, found) for one in found.rounds]


def _line(one: "RoundStatus", found: "Status") -> str:
    title = f" “{one.title}”" if one.title else ""
    which = f"round {one.id}{title}" if one.id else f"the round{title}"
    who = f"{len(one.submitted)} of {len(one.parties)} submitted"
    mine = ""
    if found.role == "party":
        mine = ", you too" if one.mine else ", not you" + (" yet" if one.state == "open" else "")
    return f"{which}: {one.state}{_progress(one)}; {who}{mine}"


def _progress(one: "RoundStatus") -> str:
    from equipoise.cli.progress_words import progress_words

    progress = one.progress
    if progress is None:
        return ""
    if one.state == "settling":
        return f" ({progress_words(progress)})"
    return f" (the last attempt failed: {progress.problem})" if progress.problem else ""
