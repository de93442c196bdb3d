"""`equipoise status`: where a member stands."""

import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import JsonOption, MembershipOption, RoundOption
from equipoise.cli.output import echo, print_json
from equipoise.client.exchange import Progress, RoundStatus, Status, exchange_of
from equipoise.client.membership import Membership

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


def _is_over(found: Status) -> bool:
    """Whether waiting longer changes nothing: refused, or every round is settled or closed."""
    if found.state in ("refused", "revoked"):
        return True
    return bool(found.rounds) and all(one.state in ("settled", "closed") for one in found.rounds)


def _lines(found: Status) -> list[str]:
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


def _line(one: RoundStatus, found: Status) -> str:
    title = f" “{one.title}”" if one.title else ""
    which = f"round {one.id}{title}" if one.id else f"the round{title}"
    who = f"{len(one.submitted)} of {len(one.parties)} submitted"
    mine = ""
    if found.role == "party":
        mine = ", you too" if one.mine else ", not you" + (" yet" if one.state == "open" else "")
    return f"{which}: {one.state}{_progress(one)}; {who}{mine}"


def _progress(one: RoundStatus) -> str:
    progress = one.progress
    if progress is None:
        return ""
    if one.state == "settling":
        return f" ({progress_words(progress)})"
    return f" (the last attempt failed: {progress.problem})" if progress.problem else ""


def progress_words(progress: Progress) -> str:
    """Stage, how much of it is done, and the time left as far as it can be told."""
    words = progress.stage or "waiting for a worker"
    if progress.planned:
        words += f", {progress.done} of {progress.planned}"
    if progress.left_s is not None:
        words += f", about {duration(progress.left_s)} left"
    return words


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
