"""The effort of an experiment: quick, for two cores, or the paper's own numbers."""

from collections.abc import Callable
from dataclasses import dataclass

from equipoise_paper.gibbs import GibbsSettings
from equipoise_paper.settings import Setting

# Called with a description of the next computation.
Tick = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    """The number of runs, which differ in the sampler's random numbers, and the sampling of each posterior.

    `GibbsSettings` select Gibbs sampling; a number is the number of draws by the library's own sampler.
    """

    name: str
    runs: int
    linear: GibbsSettings | int
    logistic: int

    def sampling(self, setting: Setting) -> GibbsSettings | int:
        """Return the settings by which a data set's posteriors are sampled."""
        return self.logistic if setting.kind == "logistic" else self.linear

    def described(self, setting: Setting) -> dict[str, object]:
        """Describe the sampling of a data set's posteriors, for the record of an experiment."""
        known = {"effort": self.name, "runs": self.runs}
        chosen = self.sampling(setting)
        if not isinstance(chosen, GibbsSettings):
            return {**known, "sampler": "moments", "draws": chosen}
        return {**known, "sampler": "gibbs", "rule": "scaled", "chains": chosen.chains, "draws": chosen.draws}


# Two cores make these draws in minutes. Twice as many repetitions would not change the pictures visibly.
QUICK = Effort("quick", 3, 3_200, 3_200)

# Paper App. H.1. Linear regression: Gibbs sampling, 16 chains, every 16th of 30,000 sweeps after 10,000 (16 rounds of
# 640). The paper has a fixed length, so chains that disagree are not continued. Logistic regression: 25 chains of 2,000
# draws in five groups, which are the paper's five runs; here each run has as many draws as such a group, by the
# library's own sampler, which needs no chains.
FULL = Effort(
    "full",
    5,
    GibbsSettings(draws=30_000, chains=16, max_thinning=1, warm_up=16),
    10_000,
)
