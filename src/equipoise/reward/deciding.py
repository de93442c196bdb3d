"""From the values of all coalitions to Shapley values and targets, for one team or several."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.estimate import Estimate
from equipoise.reward.targets import Stakes, Targets, Terms, set_targets
from equipoise.valuation.shapley import ShapleyValues, exact_shapley, members, weights

Teams = Sequence[Sequence[str]]


def decide(
    parties: Sequence[str], teams: Teams, values: Sequence[Estimate], terms: Terms
) -> tuple[ShapleyValues, Targets]:
    """Shapley values and everybody's targets; coalitions are numbered by their bits, nobody first."""
    worth, errors = np.array([one.value for one in values]), np.array([one.error for one in values])
    matrix = quantities(parties, teams)
    found, number = matrix @ worth, len(parties)
    stakes = Stakes(
        found[:number],
        found[number : 2 * number],
        found[2 * number :],
        team_numbers(parties, teams),
        (matrix * errors**2) @ matrix.T,
    )
    return exact_shapley(worth, errors), set_targets(stakes, terms)


def decide_from(
    parties: Sequence[str],
    teams: Teams,
    shapley: ShapleyValues,
    alone: Sequence[Estimate],
    worth: Sequence[Estimate],
    terms: Terms,
) -> Targets:
    """Targets where not all coalitions are known; Shapley values, values alone and of teams as if independent.

    But for the value of all together, whose covariance with the Shapley values is known.
    """
    errors = [one.error for one in (*alone, *worth)]
    covariance = np.diag(np.square([*shapley.errors, *errors]))
    number = len(parties)
    covariance[:number, :number] = shapley.covariance
    if len(teams) == 1:
        covariance[:number, -1] = covariance[-1, :number] = shapley.covariance_with_grand
    return set_targets(
        Stakes(
            shapley.values,
            np.array([one.value for one in alone]),
            np.array([one.value for one in worth]),
            team_numbers(parties, teams),
            covariance,
        ),
        terms,
    )


def quantities(parties: Sequence[str], teams: Teams) -> Floats:
    """What targets depend on, from values of coalitions [2 parties + teams, 2ⁿ]: Shapley values, alone, teams."""
    number = len(parties)
    single = np.zeros((number, 2**number))
    single[np.arange(number), 2 ** np.arange(number)] = 1.0
    whole = np.zeros((len(teams), 2**number))
    whole[np.arange(len(teams)), [mask_of(team, parties) for team in teams]] = 1.0
    return np.concatenate([weights(number), single, whole])


def team_numbers(parties: Sequence[str], teams: Teams) -> NDArray[np.intp]:
    """The number of every party's team."""
    return np.array([next(place for place, team in enumerate(teams) if party in team) for party in parties])


def every_coalition(parties: Sequence[str]) -> list[tuple[str, ...]]:
    """All coalitions as they are numbered, nobody first."""
    number = len(parties)
    return [tuple(parties[place] for place in members(mask, number)) for mask in range(2**number)]


def mask_of(coalition: Sequence[str], parties: Sequence[str]) -> int:
    """The number of a coalition."""
    return sum(1 << parties.index(party) for party in coalition)
