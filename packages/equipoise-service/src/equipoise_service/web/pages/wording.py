"""Where a round stands, what was agreed and what a guarantee means, in words, for whoever looks at a page."""

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

NAMED = 6  # parties that are called by name
PHASES = ("Wait for a worker", "Value coalitions", "Find rewards", "Verify rewards")  # of a settlement
_explanations: SingleFlightCache[Explanation] = SingleFlightCache(64)  # explaining takes a moment


@dataclass(frozen=True)
class RoundStatus:
    """Where a round stands for who looks: a `word` for its state, styled by `kind`, and what to do `next` and where."""

    kind: str
    word: str
    submitted: int
    of: int
    next: str
    place: str = ""
    link: str = ""
    missing: str = ""  # who has not submitted, by name if they are few


def round_status(one: RoundView, actor: Actor) -> RoundStatus:
    """Where a round stands for an actor, and what that actor can do next."""
    missing = [seat.party for seat in one.seats if seat.submitted is None]
    submitted = len(one.seats) - len(missing)
    words, place, link = _NEXT[actor.role](one, actor)
    names = _named(missing) if missing else ""
    return RoundStatus(one.state, _word(one, submitted), submitted, len(one.seats), words, place, link, names)


def own_seat(one: RoundView, actor: Actor) -> SeatView | None:
    """The seat of a party that looks at a round of its own."""
    if actor.role != "party":
        return None
    return next((seat for seat in one.seats if seat.party == actor.name), None)


def _word(one: RoundView, submitted: int) -> str:
    if one.state == "open":
        if submitted == len(one.seats):
            return "Open: everybody has submitted"
        return "Open: waiting for submissions"
    return {
        "settling": "Being settled",
        "settled": "Settled",
        "closed": "Closed without a settlement",
    }[one.state]


def _for_operator(one: RoundView, _: Actor) -> tuple[str, str, str]:
    here = f"/rounds/{one.id}"
    if one.state != "open":
        words, link = {
            "settling": ("Nothing to do: workers are on it.", "Watch the progress"),
            "settled": ("Read the results, and export the round for the files.", "See the results"),
            "closed": ("Nothing to do.", "Look at the round"),
        }[one.state]
        return words, here, link
    if uninvited := [seat.party for seat in one.seats if seat.invited is None]:
        return f"{_named(uninvited)} cannot see the round yet: invite.", here, "Invite"
    missing = [seat.party for seat in one.seats if seat.submitted is None]
    if not missing:
        return "Everything is there: start the settlement.", here, "Start the settlement"
    if len(missing) == len(one.seats):
        return "Wait for the first submission.", here, "Look at the round"
    return f"Wait for {_named(missing)}, or settle without.", here, "Look at the round"


def _for_party(one: RoundView, actor: Actor) -> tuple[str, str, str]:
    seat = own_seat(one, actor)
    submitted = seat is not None and seat.submitted is not None and not seat.left_out
    if one.state == "settled":
        if submitted:
            return "Your reward is there.", f"/rounds/{one.id}/mine", "See what you get and why"
        return "It was settled without you.", f"/rounds/{one.id}", "Look at the round"
    if one.state == "closed":
        return "Nothing to do.", f"/rounds/{one.id}", "Look at the round"
    if submitted:
        return "Nothing to do: you have submitted.", f"/rounds/{one.id}/mine", "See what you sent"
    if one.state == "settling":
        return "It is being settled without you.", f"/rounds/{one.id}", "Look at the round"
    return "Read the agreement, choose your ε, and submit.", f"/rounds/{one.id}", "Read the agreement"


def _for_auditor(one: RoundView, _: Actor) -> tuple[str, str, str]:
    here = f"/rounds/{one.id}"
    if one.state == "settled":
        return "Check the audit, the receipts and the log.", here, "See the audit"
    return "Nothing to do yet.", here, "Look at the round"


_NEXT = {"operator": _for_operator, "party": _for_party, "auditor": _for_auditor}


def _named(parties: list[str]) -> str:
    return listed(parties) if len(parties) <= NAMED else counted(len(parties), "member")


def progress_words(progress: Progress) -> str:
    """How far a settlement is, on one line: what is done now, how much of it, and the time left."""
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
    """Which of `PHASES` a settlement is in that was started."""
    if progress.job_state == "waiting" or progress.stage is None:
        return 0
    return {"valuing": 1, "verifying": 3}.get(progress.stage.partition(" ")[0], 2)


def explanation(agreement: Agreement) -> Explanation:
    """What was agreed, in sentences and columns."""
    return _explanations.get(agreement.identity_digest, lambda: explain(agreement))


@lru_cache(maxsize=1024)
def guarantee_readings(order: float, epsilon: float) -> tuple[tuple[str, str], ...]:
    """One guarantee in its equivalent readings, the one that guidelines use first."""
    guarantee = Guarantee(order=order, epsilon=epsilon)
    return (
        (f"ε at δ = {short(DEFAULT_DELTA)}", number(guarantee.epsilon_at(DEFAULT_DELTA))),
        (f"ε (Rényi, order λ = {number(order)})", number(epsilon, 4)),
        ("zCDP", number(guarantee.zcdp, 4)),
    )


@lru_cache(maxsize=1024)
def approximate_epsilon(epsilon: float, order: float) -> str:
    """A guarantee in the reading that guidelines use, for a cell of a table."""
    return number(Guarantee(order=order, epsilon=epsilon).epsilon_at(DEFAULT_DELTA))


def guessing(order: float, epsilon: float) -> str:
    """What the guarantee means to somebody who tries to learn about one row."""
    return guarantees.guessing(Guarantee(order=order, epsilon=epsilon).zcdp)
