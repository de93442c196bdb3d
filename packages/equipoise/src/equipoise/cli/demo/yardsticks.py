"""The predictive quality of each hospital's models on test patients: own rows, release, reward, and both together."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise._util.display import Table
from equipoise.client.home.compare import ALONE, BOTH, OWN, REWARD
from equipoise.client.home.model import HomeModel, combined, evidence_of, no_evidence, posterior_at_home
from equipoise.client.home.rows import own_rows
from equipoise.estimate import Estimate
from equipoise.mediation.settlement import Award
from equipoise.models.base import Model, Rows
from equipoise.report.tables import error_text
from equipoise.reward.scoring import losses_on, mean_of_rows

DRAWS = 1_600
HEADERS = {OWN: "own rows", ALONE: "alone", REWARD: "reward", BOTH: "at home"}


@dataclass(frozen=True)
class Yardsticks:
    """Losses and errors of a hospital's four models, and the gain in loss of both together over its own rows."""

    losses: dict[str, Estimate]
    errors: dict[str, float | None]
    gain: Estimate
    model: HomeModel

    def to_json(self) -> dict[str, Any]:
        """Return the plain numbers for `--json`."""
        return {
            "losses": {name: loss.value for name, loss in self.losses.items()},
            "errors": self.errors,
            "gain_at_home": {"value": self.gain.value, "error": self.gain.error},
        }


def measure(award: Award, table: Path, test: Rows) -> Yardsticks:
    """Fit a hospital's own rows without and with the others' evidence, at home, and score all four models."""
    reward = award.reward
    assert reward is not None
    evidence, own, model = evidence_of(reward), own_rows(reward.agreement, table), reward.agreement.model
    by_itself, _ = posterior_at_home(reward, no_evidence(reward), own.rows, draws=DRAWS, seed=0)
    home = combined(reward, evidence, own, draws=DRAWS, seed=0)
    terms = {OWN: losses_on(test, by_itself.draws), BOTH: losses_on(test, home.posterior.draws)}
    fitted = {OWN: by_itself.draws, BOTH: home.posterior.draws}
    errors: dict[str, float | None] = {name: model.measured_error(draws, test) for name, draws in fitted.items()}
    errors |= award.errors
    losses = {name: mean_of_rows(values) for name, values in terms.items()} | award.losses
    return Yardsticks(
        {name: losses[name] for name in HEADERS},
        {name: errors[name] for name in HEADERS},
        mean_of_rows(terms[OWN] - terms[BOTH]),
        home,
    )


def tables(model: Model, by_party: Mapping[str, Yardsticks], rows: int) -> list[Table]:
    """Tabulate losses with gains, and errors in the target's unit."""
    headers = tuple(HEADERS.values())
    return [
        Table(
            f"What each hospital can predict with: loss on {rows:,} patients nobody released (mean negative log "
            "probability in nats; less is better)",
            ("hospital", *headers, "gain at home"),
            [
                (party, *(f"{x.value:.3f}" for x in measured.losses.values()), str(measured.gain))
                for party, measured in by_party.items()
            ],
        ),
        Table(
            f"{model.error_name}, on the same patients",
            ("hospital", *headers),
            [
                (party, *(error_text(model, error) for error in measured.errors.values()))
                for party, measured in by_party.items()
            ],
        ),
    ]
