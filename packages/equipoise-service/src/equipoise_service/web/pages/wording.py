"""Wording of pages: the status of a round, the agreement, and the meaning of a guarantee."""

from dataclasses import dataclass
from functools import lru_cache

from equipoise._util.text import counted, duration, short
from equipoise.agreement import Agreement
from equipoise.agreement.explanation import Explanation, explain
from equipoise.models import guarantee as guarantees
from equipoise.models.guarantee import DEFAULT_DELTA, Guarantee
from equipoise.report.wording import listed, number
from equipoise_service.cache import SingleFlightCache
from equipoise_service.rules.access import Actor
from equipoise_service.rules.rounds import RoundView, SeatView
from equipoise_service.rules.settlements import Progress

# Up to this many parties are listed by name; more are counted.
NAMED = 6
# The phases of a settlement.
PHASES = ("Wait for a worker", "Value coalitions", "Find rewards", "Verify rewards")
# Explanations are cached, because making one takes a moment.
_explanations: SingleFlightCache[Explanation] = SingleFlightCache(64)


@dataclass(frozen=True)
class RoundStatus:
    """The status of a round for its viewer: a `word` for its state, styled by `kind`, and the `next` action.

    `path` leads to the page for the action, and `link` is the text of a link to it.
    """

    kind: str
    word: str
    submitted: int
    of: int
    next: str
    path: str = ""
    link: str = ""
    missing: str = ""  # the parties that have not submitted, by name if they are few


def round_status(view: RoundView, actor: Actor) -> RoundStatus:
    """Describe the status of a round for an actor, and the actor's next action."""
    missing = [seat.party for seat in view.seats if seat.submitted is None]
    submitted = len(view.seats) - len(missing)
    words, path, link = _NEXT[actor.role](view, actor)
    names = _named(missing) if missing else ""
    return RoundStatus(view.state, _word(view, submitted), submitted, len(view.seats), words, path, link, names)


def own_seat(view: RoundView, actor: Actor) -> SeatView | None:
    """Return the actor's own seat in a round; None for operators and auditors."""
    if actor.role != "party":
        return None
    return next((seat for seat in view.seats if seat.party == actor.name), None)


def _word(view: RoundView, submitted: int) -> str:
    if view.state == "open":
        if submitted == len(view.seats):
            return "Open: everybody has submitted"
        return "Open: waiting for submissions"
    return {
        "settling": "Being settled",
        "settled": "Settled",
        "closed": "Closed without a settlement",
    }[view.state]


def _for_operator(view: RoundView, _: Actor) -> tuple[str, str, str]:
    here = f"/rounds/{view.id}"
    if view.state != "open":
        words, link = {
            "settling": ("Nothing to do: workers are on it.", "Watch the progress"),
            "settled": ("Read the results, and export the round for the files.", "See the results"),
            "closed": ("Nothing to do.", "Look at the round"),
        }[view.state]
        return words, here, link
    if uninvited := [seat.party for seat in view.seats if seat.invited is None]:
        return f"{_named(uninvited)} cannot see the round yet: invite.", here, "Invite"
    missing = [seat.party for seat in view.seats if seat.submitted is None]
    if not missing:
        return "Everything is there: start the settlement.", here, "Start the settlement"
    if len(missing) == len(view.seats):
        return "Wait for the first submission.", here, "Look at the round"
    return f"Wait for {_named(missing)}, or settle without.", here, "Look at the round"


def _for_party(view: RoundView, actor: Actor) -> tuple[str, str, str]:
    seat = own_seat(view, actor)
    submitted = seat is not None and seat.submitted is not None and not seat.left_out
    if view.state == "settled":
        if submitted:
            return "Your reward is there.", f"/rounds/{view.id}/mine", "See what you get and why"
        return "It was settled without you.", f"/rounds/{view.id}", "Look at the round"
    if view.state == "closed":
        return "Nothing to do.", f"/rounds/{view.id}", "Look at the round"
    if submitted:
        return "Nothing to do: you have submitted.", f"/rounds/{view.id}/mine", "See what you sent"
    if view.state == "settling":
        return "It is being settled without you.", f"/rounds/{view.id}", "Look at the round"
    return "Read the agreement, choose your ε, and submit.", f"/rounds/{view.id}", "Read the agreement"


def _for_auditor(view: RoundView, _: Actor) -> tuple[str, str, str]:
    here = f"/rounds/{view.id}"
    if view.state == "settled":
        return "Check the audit, the receipts and the log.", here, "See the audit"
    return "Nothing to do yet.", here, "Look at the round"


_NEXT = {"operator": _for_operator, "party": _for_party, "auditor": _for_auditor}


def _named(parties: list[str]) -> str:
    return listed(parties) if len(parties) <= NAMED else counted(len(parties), "member")


def progress_words(progress: Progress) -> str:
    """Describe the progress of a settlement on one line: the stage, the share that is done, and the time left."""
    if progress.state != "settling":
        return {"settled": "Settled.", "open": "Not being settled.", "closed": "Closed."}.get(progress.state, "")
    if progress.job_state == "waiting" or progress.stage is None:
        return "Waiting for a worker to begin."
    words = progress.stage[:1].upper() + progress.stage[1:]
    if progress.planned:
        words += f": {progress.done:,} of {progress.planned:,} done"
    if progress.left_s is not None:
        words += f", about {duration(progress.left_s)} left in this phase"
    words += "."
    if progress.elapsed_s:
        words += f" Running for {duration(progress.elapsed_s)}."
    return words


def phase(progress: Progress) -> int:
    """Return the index in `PHASES` of a settlement that was started."""
    if progress.job_state == "waiting" or progress.stage is None:
        return 0
    return {"valuing": 1, "verifying": 3}.get(progress.stage.partition(" ")[0], 2)


def explanation(agreement: Agreement) -> Explanation:
    """Return an explanation of the agreement in sentences and columns."""
    return _explanations.get(agreement.identity_digest, lambda: explain(agreement))


@lru_cache(maxsize=1024)
def guarantee_readings(order: float, epsilon: float) -> tuple[tuple[str, str], ...]:
    """Return the equivalent readings of one guarantee; the first is the one that guidelines use."""
    guarantee = Guarantee(order=order, epsilon=epsilon)
    return (
        (f"ε at δ = {short(DEFAULT_DELTA)}", number(guarantee.epsilon_at(DEFAULT_DELTA))),
        (f"ε (Rényi, order λ = {number(order)})", number(epsilon, 4)),
        ("zCDP", number(guarantee.zcdp, 4)),
    )


@lru_cache(maxsize=1024)
def approximate_epsilon(epsilon: float, order: float) -> str:
    """Return a guarantee in the reading that guidelines use, for a cell of a table."""
    return number(Guarantee(order=order, epsilon=epsilon).epsilon_at(DEFAULT_DELTA))


def guessing(order: float, epsilon: float) -> str:
    """Describe what an attacker who tries to learn about one row can achieve under a guarantee."""
    return guarantees.guessing(Guarantee(order=order, epsilon=epsilon).zcdp)
