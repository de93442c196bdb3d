"""How well everybody's posterior predicts with each prior, on the paper's data sets: held-out loss, paired by noise.

python benchmarks/held_out.py --data FOLDER [--rounds 8] [--epsilon 0.2] [--settings Syn CaliH Diab]

Mean negative log probability of test rows, lower is better. `paper` is the paper's prior, which knows the data (its
own public rows, or the distribution they came from); `conjugate` and `standardised` are the defaults of agreements of
format 1 and 2, which know bounds alone; `typical` is format 2 with the range of most values of every column stated. A
difference is taken round by round, with the same rows and noise; its standard error is over rounds.
"""

import argparse
from pathlib import Path

import numpy as np

import equipoise as eq
from equipoise.agreement import Agreement
from equipoise.reward.scoring import losses_on
from equipoise_paper import settings
from equipoise_paper.releases import plain_submissions
from equipoise_paper.settings import PARTIES, Setting

DRAWS = 3_200
PRIORS = ("paper", "conjugate", "standardised", "typical")


class Other(Setting):
    """A setting whose agreement has the default priors of a format."""

    chosen = "conjugate"

    def agreement(self, parties: object) -> Agreement:
        """As agreed in the setting, but for the priors."""
        agreed = super().agreement(parties).model_dump(mode="json", exclude_none=True)  # type: ignore[arg-type]
        model = {key: value for key, value in agreed["model"].items() if key not in ("prior", "data_prior")}
        if self.chosen == "typical":
            features = np.concatenate([features for features, _ in self.tables.values()])
            targets = np.concatenate([targets for _, targets in self.tables.values()])
            for column, values in zip(model["features"], features.T, strict=True):
                column["typical"] = _middle(values)
            if self.kind == "linear":
                model["target"]["typical"] = _middle(targets)
        return Agreement.model_validate(
            {**agreed, "format": 1 if self.chosen == "conjugate" else 2, "model": model},
        )


def _middle(values: np.ndarray) -> list[float]:
    """Where most values are: two standard deviations, rounded as somebody who knows such columns would."""
    low, high = values.mean() - 2 * values.std(), values.mean() + 2 * values.std()
    return [float(f"{max(low, values.min()):.2g}"), float(f"{min(high, values.max()):.2g}")]


def with_prior(setting: Setting, prior: str) -> Setting:
    """The setting with another prior."""
    if prior == "paper":
        return setting
    other = Other(**{name: getattr(setting, name) for name in setting.__dataclass_fields__})
    object.__setattr__(other, "chosen", prior)
    return other


def loss(setting: Setting, epsilon: float, number: int) -> float:
    """Measure the loss of everybody's posterior with one round's noise."""
    agreement, sent = plain_submissions(setting, dict.fromkeys(PARTIES, epsilon), number)
    posterior = eq.infer(agreement, sent, draws=DRAWS, seed=number)
    return float(losses_on(setting.test_rows, posterior.draws).mean())


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.2, 2.0])
    parser.add_argument("--settings", nargs="+", default=["Syn", "CaliH", "Diab"])
    parser.add_argument("--priors", nargs="+", default=list(PRIORS), choices=PRIORS)
    options = parser.parse_args()
    for name in options.settings:
        setting = settings.syn() if name == "Syn" else getattr(settings, name.lower())(options.data)
        for epsilon in options.epsilon:
            base: np.ndarray | None = None
            for prior in options.priors:
                losses = np.array([loss(with_prior(setting, prior), epsilon, n) for n in range(options.rounds)])
                base = losses if prior == "conjugate" else base
                line = f"{name:6} eps {epsilon:<4g} {prior:13} {losses.mean():.3f}"
                if base is not None and prior != "conjugate":
                    apart = losses - base
                    line += f"  against conjugate {apart.mean():+.3f} ± {apart.std(ddof=1) / len(apart) ** 0.5:.3f}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
