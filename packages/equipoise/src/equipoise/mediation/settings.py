"""How a round is settled, beyond what its agreement and its submissions say: one class for everybody who says it.

`mediate`, the command line, the service's form and API, the digest of a journal and the verifier all use
`SettlementSettings`. What can be checked without an agreement is checked when it is made; the rest when it is resolved
for a round (`equipoise.mediation.task`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from equipoise.agreement import Agreement
from equipoise.errors import EquipoiseError, InferenceError, MediationError
from equipoise.inference.scenario import DRAWS, Method, Rule, is_whole
from equipoise.reward.targets import PRECISION
from equipoise.valuation import Estimator
from equipoise.valuation.sampling import smallest_budget

MAX_PARTIES = 10_000
Whole = Annotated[int, Field(strict=True)]
Nats = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Rho = Annotated[float, Field(strict=True, gt=0, le=1)] | Literal["max"]
Mechanism = Literal["tempering", "noise", "degraded"]
WITH_NOISE = ("noise", "degraded")  # mechanisms that need a secret
Team = Annotated[tuple[str, ...], Field(strict=False, max_length=MAX_PARTIES)]
Teams = Annotated[tuple[Team, ...], Field(strict=False, max_length=MAX_PARTIES)]

Coalitions = Literal["auto", "all", "sampled"]

ALL_UP_TO = 7  # parties: a sample of their coalitions that is as good is nearly all of them
EXACT_UP_TO = 12  # parties, whose coalitions can all be valued
FEWEST_SAMPLED = 4  # parties
FEWEST_CHAINS = 4  # fewer cannot be compared with each other
_PERMISSIONS = frozenset({"partial", "deviate", "force"})  # what may be settled, rather than how
_LEAST = {"seed": 0, "draws": 1, "chains": FEWEST_CHAINS, "budget": 1}
_NAMED: dict[str, tuple[str, Any, type[EquipoiseError]]] = {
    "mechanism": ("reward mechanism", Mechanism, MediationError),
    "estimator": ("estimator", Estimator, InferenceError),
    "method": ("method", Method, InferenceError),
    "rule": ("tempering rule", Rule, InferenceError),
    "coalitions": ("way to choose coalitions", Coalitions, MediationError),
}
_REMEDIES = {
    "rho": 'rho = {value!r} is not a fairness exponent; give a number above 0 and up to 1, or "max"',
    "teams": "teams are lists of party names, not {value!r}",
    "precision": "{name} = {value!r} is not a number of nats above 0",
    "tolerance": "{name} = {value!r} is not a number of nats above 0",
    "noise_secret": "the noise secret must be 64 hexadecimal digits, 0 to 9 and a to f; leave it out for a new one",
}


class SettlementSettings(BaseModel):
    """Settings of a settlement; every one has a default.

    Parameters
    ----------
    seed : int, optional
        Seed of everything that is random but added noise. By default it follows from the agreement and the submissions
        (`equipoise.mediation.seeds`); reports say of another that it was chosen.
    rho : float or "max", optional
        Fairness exponent, above 0 and up to 1, or the largest that leaves everybody better off than alone. By default
        as agreed; another is refused unless the agreement leaves it to the operator.
    mechanism : {"tempering", "noise", "degraded"}, optional
        How rewards are held back (docs/settlement.md). By default as agreed, like `rho`.
    teams : sequence of sequences of str, optional
        A partition of the parties into teams that share what they know. By default, and unless the agreement leaves it
        to the operator, all parties are one team.
    estimator : str
        Estimator of a posterior's value, see docs/estimators.md.
    method : {"auto", "moments", "gibbs", "naive", "prior"}
        Sampler of posteriors, see `equipoise.infer`.
    rule : {"power", "scaled"}, optional
        Tempering rule; by default the sampler's own.
    draws : int
        Draws of every posterior, to begin with.
    chains : int, optional
        Chains of method "gibbs", 4 or more.
    precision : float
        Standard error, in nats, that targets and rewards should have.
    tolerance : float, optional
        How far, in nats, a reward may miss its target; by default twice the precision.
    coalitions : {"auto", "all", "sampled"}
        Which coalitions to value. "all" is for up to 12 parties. "sampled" begins with some and adds more until targets
        have the precision asked for, or all are there. "auto" is all of up to 7 parties, and a sample of more.
    budget : int, optional
        Coalitions to value at most, where they are sampled; by default all of up to 12 parties; beyond,
        1,000, or 18 for each party if that is more.
    noise_secret : str, optional
        64 hexadecimal digits, up to version 0.11 32, that added noise is drawn from. By default those that `folder`
        keeps, or new ones; of degraded rewards the operator's own (`equipoise.mediation.noise_secret`).
    partial : bool
        Settle although parties of the agreement have not submitted.
    deviate : bool
        Settle otherwise than agreed all the same; promise P3 is then broken, and every report shows it.
    force : bool
        Settle with posteriors that have not converged.

    Examples
    --------
    >>> eq.SettlementSettings(rho=0.5, draws=2000).rho
    0.5
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: Annotated[Whole, Field(ge=0)] | None = None
    rho: Rho | None = None
    mechanism: Mechanism | None = None
    teams: Teams | None = None
    estimator: Estimator = "knn-entropy"
    method: Method = "auto"
    rule: Rule | None = None
    draws: Annotated[Whole, Field(ge=1)] = DRAWS
    chains: Annotated[Whole, Field(ge=FEWEST_CHAINS)] | None = None
    precision: Nats = PRECISION
    tolerance: Nats | None = None
    coalitions: Coalitions = "auto"
    budget: Annotated[Whole, Field(ge=1, le=1_000_000)] | None = None
    noise_secret: str | None = Field(None, pattern="^([0-9a-f]{32}|[0-9a-f]{64})$", repr=False)
    partial: bool = False
    deviate: bool = False
    force: bool = False

    @model_validator(mode="before")
    @classmethod
    def _plain_numbers(cls, document: Any) -> Any:
        """NumPy's numbers as Python's."""
        if not isinstance(document, dict):
            return document
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in document.items()}

    @classmethod
    def of(cls, settings: "SettlementSettings | None", overrides: Mapping[str, Any]) -> "SettlementSettings":
        """Settings with some of them replaced; a mistake is refused by its name.

        Parameters
        ----------
        settings : SettlementSettings, optional
            What to begin with; by default the default ones.
        overrides : mapping of str to object
            New values by name.

        Returns
        -------
        SettlementSettings

        Raises
        ------
        TypeError
            There is no such setting.
        MediationError, InferenceError
            A value cannot be used.
        """
        if unknown := sorted(set(overrides) - set(cls.model_fields)):
            raise TypeError(
                f"there is no setting {unknown[0]!r} of a settlement; there are {', '.join(cls.model_fields)}"
            )
        given = {} if settings is None else settings.model_dump(include=set(cls.model_fields))
        try:
            return cls(**given | dict(overrides))
        except ValidationError as error:
            name = str(error.errors()[0]["loc"][0])
            raise _refused(name, {**given, **overrides}.get(name)) from None

    @property
    def options(self) -> dict[str, Any]:
        """What decisions depend on, as plain values: everything but what is merely permitted.

        That all coalitions are valued goes without saying, as in versions up to 0.12.
        """
        found = self.model_dump(mode="json", exclude=set(_PERMISSIONS))
        if self.coalitions == "all":
            del found["coalitions"]
        return found


def _refused(name: str, value: Any) -> EquipoiseError:
    """The error for a value that cannot be used."""
    if name in _NAMED:
        what, known, kind = _NAMED[name]
        return kind(f"there is no {what} {value!r}; choose one of {', '.join(get_args(known))}")
    if name in _LEAST:
        return InferenceError(f"{name} = {value!r} must be a whole number, {_LEAST[name]} or more")
    return MediationError(
        _REMEDIES.get(name, "{name} = {value!r} must be True or False").format(name=name, value=value)
    )


def fits_enumeration(parties: int) -> bool:
    """Whether so many parties have few enough coalitions to value them all."""
    return parties <= EXACT_UP_TO


def default_budget(parties: int) -> int:
    """Coalitions to value at most when nobody says: a sample stops growing before, once errors are small enough."""
    return int(min(2**parties - 1, max(1_000, 18 * parties + 1))) if not fits_enumeration(parties) else 2**parties - 1


def coalitions_to_value(parties: int, coalitions: Coalitions = "auto", budget: int | None = None) -> int:
    """How many coalitions a round of so many parties values, as far as it is known before.

    How far a sample grows depends on the parties; 5n(n − 4) is what `benchmarks/fewer_coalitions.py` saw of 8 to 12.
    """
    if check_coalitions(parties, coalitions) == "all":
        return int(2**parties - 1)
    return min(budget or default_budget(parties), max(smallest_budget(parties), 5 * parties * (parties - 4)))


def check_coalitions(parties: int, coalitions: Coalitions) -> Literal["all", "sampled"]:
    """Which coalitions of so many parties are valued."""
    if coalitions == "auto":
        return "all" if parties <= ALL_UP_TO else "sampled"
    if coalitions == "all" and not fits_enumeration(parties):
        raise MediationError(
            f'coalitions = "all" is for up to {EXACT_UP_TO} parties; {parties} have {2**parties - 1:.4g} coalitions'
        )
    if coalitions == "sampled" and parties < FEWEST_SAMPLED:
        raise MediationError(f'{parties} parties have {2**parties - 1} coalitions; leave out coalitions = "sampled"')
    return coalitions


def check_budget(parties: int, coalitions: Literal["all", "sampled"], budget: Any) -> int | None:
    """A number of coalitions to value, checked for so many parties."""
    if budget is None:
        return None
    if coalitions == "all":
        raise MediationError(
            f"a budget is for coalitions that are sampled, by default those of more than {ALL_UP_TO} parties; of "
            f"{parties} all are valued, so leave it out"
        )
    least = smallest_budget(parties)
    if not is_whole(budget, least):
        raise MediationError(f"budget = {budget!r} coalitions is too small for {parties} parties; give {least} or more")
    return int(budget)


def check_teams(parties: tuple[str, ...], teams: Teams | None) -> Teams:
    """A partition of the parties, members of each team in the parties' order."""
    if teams is None:
        return (parties,)
    named = [name for team in teams for name in team]
    if strangers := [name for name in named if name not in parties]:
        raise MediationError(f"{strangers[0]!r} is in a team but has not submitted; parties are {', '.join(parties)}")
    if len(named) != len(set(named)) or set(named) != set(parties) or not all(teams):
        raise MediationError(
            f"teams {[list(team) for team in teams]} must name each of {', '.join(parties)} exactly once"
        )
    return tuple(ordered(team, parties) for team in teams)


def ordered(members: Sequence[str], parties: Sequence[str]) -> tuple[str, ...]:
    """Members in the order of the parties."""
    chosen = set(members)
    return tuple(party for party in parties if party in chosen)


@dataclass(frozen=True)
class Deviation:
    """One option that is not as agreed, in words.

    `words` name the values used and agreed; `for_parties` leaves out an exponent that would tell others' shares, where
    the agreement fixes no number.
    """

    option: str
    words: str
    for_parties: str


def deviations(
    agreement: Agreement, *, rho: float | Literal["max"], mechanism: str, teams: Sequence[Sequence[str]]
) -> tuple[Deviation, ...]:
    """What differs from the agreement, but for what it leaves to the operator."""
    agreed, found = agreement.reward, []
    if rho != agreed.rho:
        used, said = _exponent(rho), _exponent(agreed.rho)
        words = f"rho = {used} was used where the agreement says {said}"
        unsaid = words if agreed.rho != "max" else f"another rho was used where the agreement says {said}"
        found.append(Deviation("rho", words, unsaid))
    if mechanism != agreed.mechanism:
        words = f'mechanism = "{mechanism}" was used where the agreement says "{agreed.mechanism}"'
        found.append(Deviation("mechanism", words, words))
    if len(teams) != 1:
        named = ", ".join(f"{{{', '.join(team)}}}" for team in teams)
        words = f"{len(teams)} teams were made, {named}, where the agreement has all parties in one"
        found.append(Deviation("teams", words, words))
    return tuple(one for one in found if one.option not in agreed.operator_may_choose)


def _exponent(rho: float | Literal["max"]) -> str:
    return '"max"' if rho == "max" else f"{rho:g}"
