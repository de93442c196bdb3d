"""How much an experiment computes: quick for two cores, or the paper's own numbers."""

from collections.abc import Callable
from dataclasses import dataclass

from equipoise.inference.engine import Settings
from equipoise.reproduction.settings import Setting

Tick = Callable[[str], None]  # told what is being computed


@dataclass(frozen=True)
class Effort:
    """Repetitions of everything, with other random numbers of the sampler, and how each posterior is sampled."""

    name: str
    runs: int
    linear: Settings
    logistic: Settings

    def settings(self, setting: Setting) -> Settings:
        """Settings by which a data set's posteriors are sampled."""
        return self.logistic if setting.kind == "logistic" else self.linear

    def described(self, setting: Setting) -> dict[str, object]:
        """How a data set's posteriors were sampled, for the record of a run."""
        chosen = self.settings(setting)
        return {
            "effort": self.name,
            "runs": self.runs,
            "sampler": chosen.sampler,
            "rule": chosen.rule,
            "chains": chosen.chains,
            "draws": chosen.draws,
        }


# Draws that two cores make in minutes; twice as many repetitions would not change what is seen.
QUICK = Effort("quick", 3, Settings(draws=3_200), Settings(draws=3_200))

# Paper App. H.1. Linear regression: Gibbs sampling, 16 chains, every 16th of 30,000 sweeps after 10,000 (16 rounds of
# 640). Logistic regression: 25 chains of 2,000 draws after 400, in five groups, which are its five runs; here each run
# is a group of its own. The paper takes what it gets, so chains that disagree are not continued.
FULL = Effort(
    "full",
    5,
    Settings(draws=30_000, chains=16, sampler="gibbs", rule="scaled", max_thinning=1, warm_up=16),
    Settings(draws=10_000, chains=25, max_thinning=1, warm_up=10),
)
