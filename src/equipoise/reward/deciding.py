"""From the values of all coalitions to Shapley values and targets, for one team or several."""

from collections.abc import Sequence
from typing import Literal

from equipoise.estimate import Estimate
from equipoise.reward.targets import Targets, for_team, set_targets
from equipoise.valuation.shapley import ShapleyValues, exact_shapley, weights

Teams = Sequence[Sequence[str]]


def decide(
    parties: Sequence[str], teams: Teams, values: Sequence[Estimate], rho: float | Literal["max"]
) -> tuple[ShapleyValues, list[Targets]]:
    """Shapley values and every team's targets; coalitions are numbered by their bits, nobody first."""
    shapley = exact_shapley([one.value for one in values], [one.error for one in values])
    matrix = weights(len(parties))
    shares = []
    for team in teams:
        mask = mask_of(team, parties)
        chosen = [parties.index(party) for party in team]
        shares.append(for_team(shapley, chosen, values[mask], matrix[chosen, mask] * values[mask].error ** 2))
    alone = [values[1 << index] for index in range(len(parties))]
    return shapley, targets_of_teams(parties, teams, shares, alone, rho)


def targets_of_teams(
    parties: Sequence[str],
    teams: Teams,
    shares: Sequence[ShapleyValues],
    alone: Sequence[Estimate],
    rho: float | Literal["max"],
) -> list[Targets]:
    """Targets of all teams with one exponent: with "max", the largest that is rational in each."""

    def at(rho: float | Literal["max"]) -> list[Targets]:
        found = []
        for share, names in zip(shares, teams, strict=True):
            own = [alone[parties.index(party)] for party in names]
            found.append(set_targets(share, own, rho, names))
        return found

    return at(min(target.rho for target in at(rho)))


def mask_of(members: Sequence[str], parties: Sequence[str]) -> int:
    """The number of a coalition."""
    return sum(1 << parties.index(party) for party in members)
