"""How much an experiment computes: quick for two cores, or the paper's own numbers."""

from collections.abc import Callable
from dataclasses import dataclass

from equipoise_paper.gibbs import GibbsSettings
from equipoise_paper.settings import Setting

Tick = Callable[[str], None]  # told what is being computed


@dataclass(frozen=True)
class Effort:
    """Repetitions of everything, with other random numbers of the sampler, and how each posterior is sampled.

    Settings are those of Gibbs sampling; a number is that of draws by the library's own sampler.
    """

    name: str
    runs: int
    linear: GibbsSettings | int
    logistic: int

    def sampling(self, setting: Setting) -> GibbsSettings | int:
        """Return how a data set's posteriors are sampled."""
        return self.logistic if setting.kind == "logistic" else self.linear

    def described(self, setting: Setting) -> dict[str, object]:
        """How a data set's posteriors were sampled, for the record of a run."""
        known = {"effort": self.name, "runs": self.runs}
        chosen = self.sampling(setting)
        if not isinstance(chosen, GibbsSettings):
            return {**known, "sampler": "moments", "draws": chosen}
        return {**known, "sampler": "gibbs", "rule": "scaled", "chains": chosen.chains, "draws": chosen.draws}


# Draws that two cores make in minutes; twice as many repetitions would not change what is seen.
QUICK = Effort("quick", 3, 3_200, 3_200)

# Paper App. H.1. Linear regression: Gibbs sampling, 16 chains, every 16th of 30,000 sweeps after 10,000 (16 rounds of
# 640). The paper takes what it gets, so chains that disagree are not continued. Logistic regression: 25 chains of 2,000
# draws in five groups, which are its five runs; here each run has as many draws as a group of the library's own
# sampler, which needs no chains.
FULL = Effort(
    "full",
    5,
    GibbsSettings(draws=30_000, chains=16, max_thinning=1, warm_up=16),
    10_000,
)
