"""Estimate of the cost of a round: number of posteriors, and their time from a short measurement on this machine."""

from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from equipoise._util.canonical import MAX_DOCUMENT_BYTES, strict_json
from equipoise._util.cores import usable_cores
from equipoise._util.text import counted, duration
from equipoise.agreement import Agreement
from equipoise.mediation.advice.engines import engine_of
from equipoise.mediation.advice.imagined import Assumed, Coalition, imagine
from equipoise.mediation.journal import FORMAT
from equipoise.mediation.settings import WITH_NOISE, Mechanism, SettlementSettings, coalitions_to_value

# Rows of each party in the measured round.
TYPICAL_ROWS = 1_000
# Posteriors of the tempering curve; a target close to 0 needs a few more.
CURVE = 7
# Verifications of a reward by tempering.
TRIES = 1.5
# Posteriors on the way to a reward made by noise.
NOISE_TRIES = 8
# Draws that the precision needs, as a multiple of the first draws.
MORE_DRAWS = 1.5
# Seconds to compare each party's reward with the others' once it is made.
COMPARING = 0.7
# The estimate may be wrong by this factor.
SURE = 2


@dataclass(frozen=True)
class Cost:
    """Expected cost of a round.

    Attributes
    ----------
    coalitions, rewards : int
        Posteriors to value coalitions by, and those to make rewards with.
    kept : int
        Number of them that the journal of an earlier run has.
    posterior : float
        Seconds that one posterior takes on one core.
    processes : int
        Number of posteriors sampled at once.
    seconds : float
        Seconds for the whole round; `least` and `most` are a factor of two away.
    """

    coalitions: int
    rewards: int
    kept: int
    posterior: float
    processes: int
    seconds: float

    @property
    def least(self) -> float:
        """Seconds in a good case."""
        return self.seconds / SURE

    @property
    def most(self) -> float:
        """Seconds in a bad case: many more draws are needed."""
        return self.seconds * SURE

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as plain numbers."""
        return {**asdict(self), "least_seconds": self.least, "most_seconds": self.most}

    @property
    def words(self) -> str:
        """The estimate in a sentence or two."""
        at_once = "" if self.processes == 1 else f", {self.processes} at once"
        kept = f", of which {self.kept:,} are kept from before" if self.kept else ""
        return (
            f"This will take about {duration(self.seconds)} here, perhaps half or twice that: "
            f"{counted(self.coalitions, 'coalition')} to value and about {self.rewards} posteriors for rewards{kept}, "
            f"about {max(self.posterior, 0.1):.2g} s of a core each{at_once}. Estimated from a measurement on this "
            "machine, if it does nothing else, and for usual data."
        )


def planned_posteriors(parties: int, settings: SettlementSettings, mechanism: Mechanism) -> tuple[int, int]:
    """Return the expected numbers of posteriors, for coalitions and for rewards with usual targets.

    All parties but one get less than the whole posterior. Rewards come with draws of the others' evidence; degraded
    rewards come with sums instead, which cost no posterior.
    """
    held_back = parties - 1
    if mechanism in WITH_NOISE:
        making = NOISE_TRIES * held_back
    else:
        making = round(CURVE + TRIES * held_back) if held_back else 0
    of_others = parties if held_back and mechanism != "degraded" else 0
    return coalitions_to_value(parties, settings.coalitions, settings.budget), making + of_others


def estimate_cost(
    agreement: Agreement,
    settings: SettlementSettings | None = None,
    *,
    parties: int | None = None,
    journal: str | Path | None = None,
) -> Cost:
    """Estimate the cost of settling a round of an agreement on this machine; this takes a few seconds.

    Only the agreement is read. `parties` is the number of parties that will submit, all by default. Results in the
    `journal` of an earlier run are subtracted.
    """
    settings = settings or SettlementSettings()
    mechanism = settings.mechanism or agreement.reward.mechanism
    coalitions, rewards = planned_posteriors(parties or len(agreement.parties), settings, mechanism)
    kept = min(0 if journal is None else _entries(Path(journal)), coalitions + rewards)
    posterior = _seconds_of_posterior(agreement)
    processes = min(usable_cores(), coalitions + rewards)
    # Rewards made by noise are searched for one after the other.
    at_once, in_turn = (0, rewards) if mechanism in WITH_NOISE else (rewards, 0)
    seconds = posterior * ((MORE_DRAWS * coalitions + at_once) / processes + in_turn)
    seconds = seconds * (1 - kept / (coalitions + rewards)) + COMPARING * len(agreement.parties)
    return Cost(coalitions, rewards, kept, posterior, processes, seconds)


def _seconds_of_posterior(agreement: Agreement) -> float:
    """Measure the seconds of one core that the posterior of all parties takes, in a simulated round."""
    engine = engine_of(agreement)
    assumed = [Assumed(TYPICAL_ROWS, agreement.privacy.max_epsilon)] * len(agreement.parties)
    (one,) = imagine(engine, assumed, 1, np.random.default_rng(0))
    everybody = Coalition(np.ones(len(assumed)), np.zeros(len(assumed)))
    begun = process_time()
    engine.sample(one, [everybody], 0)
    return process_time() - begun


def _entries(journal: Path) -> int:
    """Count the results in a journal, without checking that they can be used; 0 if it is no journal."""
    try:
        with journal.open("rb") as file:
            header = strict_json(file.readline(MAX_DOCUMENT_BYTES))
            return sum(1 for _ in file) if header.get("format") == FORMAT else 0
    except (OSError, ValueError, AttributeError):
        return 0
