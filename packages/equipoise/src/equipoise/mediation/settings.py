"""Settings of a settlement, beyond its agreement and its submissions.

`mediate`, the command line, the service's form and API, the digest of a journal and the verifier all use the class
`SettlementSettings`. It checks everything that needs no agreement when it is made. The rest is checked when the
settings are resolved for a round (`equipoise.mediation.task`).
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
# Mechanisms that need a secret.
WITH_NOISE = ("noise", "degraded")
Team = Annotated[tuple[str, ...], Field(strict=False, max_length=MAX_PARTIES)]
Teams = Annotated[tuple[Team, ...], Field(strict=False, max_length=MAX_PARTIES)]

Coalitions = Literal["auto", "all", "sampled"]

# Parties up to which all coalitions are valued by default: a sample with the same precision would have nearly all.
ALL_UP_TO = 7
# Parties up to which all coalitions can be valued.
EXACT_UP_TO = 12
# Parties from which coalitions can be sampled.
FEWEST_SAMPLED = 4
# Fewer chains cannot be compared with each other.
FEWEST_CHAINS = 4
# Settings that permit a settlement and do not change its numbers.
_PERMISSIONS = frozenset({"partial", "deviate", "force"})
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
        Mechanism that holds rewards back (docs/settlement.md). By default as agreed, like `rho`.
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
        Nats by which a reward may miss its target; by default twice the precision.
    coalitions : {"auto", "all", "sampled"}
        Coalitions to value. "all" is for up to 12 parties. "sampled" begins with some and adds more until targets have
        the requested precision or no more are left. "auto" means all for up to 7 parties, and a sample for more.
    budget : int, optional
        Maximum number of coalitions to value if they are sampled. The default is all for up to 12 parties, and for more
        parties 1,000, or 18 for each party if that is more.
    noise_secret : str, optional
        64 hexadecimal digits (up to version 0.11: 32) that added noise is drawn from. The default is the secret in
        `folder`, or a new one; for degraded rewards it follows from the operator's own
        (`equipoise.mediation.noise_secret`).
    partial : bool
        Settle even if parties of the agreement have not submitted.
    deviate : bool
        Settle even if the settings deviate from the agreement; promise P3 is then broken, and every report shows it.
    force : bool
        Settle even with posteriors that have not converged.

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
        """Convert NumPy's numbers to Python's."""
        if not isinstance(document, dict):
            return document
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in document.items()}

    @classmethod
    def of(cls, settings: "SettlementSettings | None", overrides: Mapping[str, Any]) -> "SettlementSettings":
        """Replace some settings; an error message names the setting that cannot be used.

        Parameters
        ----------
        settings : SettlementSettings, optional
            Settings to start from; by default all defaults.
        overrides : mapping of str to object
            New values by name.

        Returns
        -------
        SettlementSettings

        Raises
        ------
        TypeError
            A setting does not exist.
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
        """Settings that decisions depend on, as plain values: all but the permissions.

        If all coalitions are valued, that setting is left out, as in versions up to 0.12.
        """
        options = self.model_dump(mode="json", exclude=set(_PERMISSIONS))
        if self.coalitions == "all":
            del options["coalitions"]
        return options


def _refused(name: str, value: Any) -> EquipoiseError:
    """Make the error for a value that cannot be used."""
    if name in _NAMED:
        what, known, kind = _NAMED[name]
        return kind(f"there is no {what} {value!r}; choose one of {', '.join(get_args(known))}")
    if name in _LEAST:
        return InferenceError(f"{name} = {value!r} must be a whole number, {_LEAST[name]} or more")
    return MediationError(
        _REMEDIES.get(name, "{name} = {value!r} must be True or False").format(name=name, value=value)
    )


def fits_enumeration(parties: int) -> bool:
    """Return True if this number of parties has few enough coalitions to value them all."""
    return parties <= EXACT_UP_TO


def default_budget(parties: int) -> int:
    """Return the default maximum of coalitions to value; a sample stops earlier once errors are small enough."""
    return int(min(2**parties - 1, max(1_000, 18 * parties + 1))) if not fits_enumeration(parties) else 2**parties - 1


def coalitions_to_value(parties: int, coalitions: Coalitions = "auto", budget: int | None = None) -> int:
    """Estimate the number of coalitions that a round of this number of parties values.

    The size of a sample depends on the parties' data; 5n(n − 4) is what `benchmarks/fewer_coalitions.py` measured for 8
    to 12 parties.
    """
    if check_coalitions(parties, coalitions) == "all":
        return int(2**parties - 1)
    return min(budget or default_budget(parties), max(smallest_budget(parties), 5 * parties * (parties - 4)))


def check_coalitions(parties: int, coalitions: Coalitions) -> Literal["all", "sampled"]:
    """Resolve "auto" for this number of parties, and refuse a choice that does not fit it."""
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
    """Check a maximum number of coalitions for this number of parties, and return it."""
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
    """Check that teams are a partition of the parties; return it with members in the parties' order."""
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
    """Return members in the order of the parties."""
    chosen = set(members)
    return tuple(party for party in parties if party in chosen)


@dataclass(frozen=True)
class Deviation:
    """One option that is not as agreed, in words.

    `words` name the values used and agreed. `for_parties` leaves out the exponent used if the agreement fixes no
    number, because it would reveal others' shares.
    """

    option: str
    words: str
    for_parties: str


def deviations(
    agreement: Agreement, *, rho: float | Literal["max"], mechanism: str, teams: Sequence[Sequence[str]]
) -> tuple[Deviation, ...]:
    """Return deviations from the agreement, except in options that it leaves to the operator."""
    agreed, differing = agreement.reward, []
    if rho != agreed.rho:
        used, said = _exponent(rho), _exponent(agreed.rho)
        words = f"rho = {used} was used where the agreement says {said}"
        unsaid = words if agreed.rho != "max" else f"another rho was used where the agreement says {said}"
        differing.append(Deviation("rho", words, unsaid))
    if mechanism != agreed.mechanism:
        words = f'mechanism = "{mechanism}" was used where the agreement says "{agreed.mechanism}"'
        differing.append(Deviation("mechanism", words, words))
    if len(teams) != 1:
        named = ", ".join(f"{{{', '.join(team)}}}" for team in teams)
        words = f"{len(teams)} teams were made, {named}, where the agreement has all parties in one"
        differing.append(Deviation("teams", words, words))
    return tuple(deviation for deviation in differing if deviation.option not in agreed.operator_may_choose)


def _exponent(rho: float | Literal["max"]) -> str:
    return '"max"' if rho == "max" else f"{rho:g}"
