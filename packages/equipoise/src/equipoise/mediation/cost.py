"""What a round will cost: how many posteriors, and how long they take on this machine, from a short measurement."""

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

TYPICAL_ROWS = 1_000  # of a party, to measure with
CURVE = 7  # posteriors of the tempering curve; a few more where a target is next to nothing
TRIES = 1.5  # verifications of a reward by tempering
NOISE_TRIES = 8  # posteriors on the way to a reward made by noise
MORE_DRAWS = 1.5  # times the first draws, for the precision asked for
COMPARING = 0.7  # seconds for each party's reward, which is compared with others once it is made
SURE = 2  # the estimate may be wrong by this factor


@dataclass(frozen=True)
class Cost:
    """What a round is expected to cost.

    Attributes
    ----------
    coalitions, rewards : int
        Posteriors to value coalitions by, and those to make rewards with.
    kept : int
        How many of them an earlier run has left.
    posterior : float
        Seconds of one on one core.
    processes : int
        How many are sampled at once.
    seconds : float
        Seconds in all; `least` and `most` are a factor of two away.
    """

    coalitions: int
    rewards: int
    kept: int
    posterior: float
    processes: int
    seconds: float

    @property
    def least(self) -> float:
        """Seconds, if all goes well."""
        return self.seconds / SURE

    @property
    def most(self) -> float:
        """Seconds, if many draws are needed."""
        return self.seconds * SURE

    def to_json(self) -> dict[str, Any]:
        """The estimate as plain numbers."""
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
    """How many posteriors a round of so many parties takes: for coalitions, and for rewards, those of usual targets.

    Everybody but one gets less than all. Rewards come with draws of the others' evidence, degraded ones with sums.
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
    """Estimate what settling a round of an agreement would cost on this machine; takes a second or a few.

    Nothing is read but the agreement: `parties` says how many will submit, all by default. What a `journal` of an
    earlier run holds is taken off.
    """
    settings = settings or SettlementSettings()
    mechanism = settings.mechanism or agreement.reward.mechanism
    coalitions, rewards = planned_posteriors(parties or len(agreement.parties), settings, mechanism)
    kept = min(0 if journal is None else _entries(Path(journal)), coalitions + rewards)
    posterior = _seconds_of_posterior(agreement)
    processes = min(usable_cores(), coalitions + rewards)
    # Rewards made by noise are found one after the other.
    at_once, in_turn = (0, rewards) if mechanism in WITH_NOISE else (rewards, 0)
    seconds = posterior * ((MORE_DRAWS * coalitions + at_once) / processes + in_turn)
    seconds = seconds * (1 - kept / (coalitions + rewards)) + COMPARING * len(agreement.parties)
    return Cost(coalitions, rewards, kept, posterior, processes, seconds)


def _seconds_of_posterior(agreement: Agreement) -> float:
    """Measure the seconds of one core that a posterior of everybody takes, of an imagined round."""
    engine = engine_of(agreement)
    assumed = [Assumed(TYPICAL_ROWS, agreement.privacy.max_epsilon)] * len(agreement.parties)
    (one,) = imagine(engine, assumed, 1, np.random.default_rng(0))
    everybody = Coalition(np.ones(len(assumed)), np.zeros(len(assumed)))
    begun = process_time()
    engine.sample(one, [everybody], 0)
    return process_time() - begun


def _entries(journal: Path) -> int:
    """How many results a journal has, if it is one; whether they are of use, whoever opens it finds out."""
    try:
        with journal.open("rb") as file:
            header = strict_json(file.readline(MAX_DOCUMENT_BYTES))
            return sum(1 for _ in file) if header.get("format") == FORMAT else 0
    except (OSError, ValueError, AttributeError):
        return 0
