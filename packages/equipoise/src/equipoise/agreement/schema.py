"""The sections of an agreement besides its model: privacy, reward rule, parties.

`document.py` assembles them. Every check here names the value and the remedy; pydantic adds the key.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictInt, field_validator, model_validator

from equipoise._util.text import first_repeat
from equipoise.models.columns import ColumnName
from equipoise.models.layout import Aggregate
from equipoise.models.section import Positive, PublicKey, Section

PARTY_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
PartyName = Annotated[str, Field(pattern=PARTY_NAME)]


class Privacy(Section):
    """The Rényi order λ that everyone's ε refers to, and the weakest privacy (largest ε) anyone may choose.

    `min_epsilon`, if given, is the smallest ε anyone may choose: a party with more noise brings next to nothing.
    `max_rows` is the largest table that a party may claim to have: a claim costs nothing, and counts for much. The
    protected unit is one row. With `individual`, the column that says whose row it is, the unit is all rows of an
    individual, at most `rows_per_individual` of them. More are refused, or with `excess = "drop"` only the first of
    them are used. With `aggregate` all rows of an individual are combined into one instead, and protecting it costs no
    more than protecting a row.
    """

    added_later = frozenset({"min_epsilon", "max_rows", "individual", "rows_per_individual", "excess", "aggregate"})

    order: Annotated[float, Field(strict=True, gt=1, le=1000, allow_inf_nan=False)] = 2.0
    max_epsilon: Positive
    min_epsilon: Positive | None = None
    max_rows: Annotated[StrictInt, Field(ge=1, le=2**53)] | None = None
    individual: ColumnName | None = None
    rows_per_individual: Annotated[StrictInt, Field(ge=1, le=100)] = 1
    excess: Literal["refuse", "drop"] = "refuse"
    aggregate: Aggregate | None = None

    @model_validator(mode="after")
    def _individuals(self) -> Self:
        several = self.rows_per_individual != 1 or self.excess != "refuse"
        if self.individual is None and (several or self.aggregate is not None):
            raise ValueError(
                "rows_per_individual, excess and aggregate need `individual`, the name of the column that says whose "
                "row it is"
            )
        if self.aggregate is not None and several:
            raise ValueError(
                f'aggregate = "{self.aggregate}" makes one row of all that somebody has; remove rows_per_individual '
                "and excess, which say how many are taken"
            )
        return self

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.min_epsilon is not None and self.min_epsilon > self.max_epsilon:
            raise ValueError(
                f"min_epsilon = {self.min_epsilon:g} is above max_epsilon = {self.max_epsilon:g}; nobody could release"
            )
        return self


OperatorsChoice = Literal["mechanism", "rho", "teams"]


class RewardRule(Section):
    """The rule that turns contributions into rewards: mechanism, rule and fairness exponent ρ.

    `rho = "max"` means the largest individually rational exponent.

    `rho = "max"` means the largest individually rational exponent.

    By the rule "surplus" a reward is worth v_i + (φ_i/φ_max)^ρ (v_N − v_i), by "proportional", which is the paper's and
    that of formats 1 and 2, v_N (φ_i/φ_max)^ρ. Since format 3 the former is the default, with ρ = 0.5. `fallback`
    concerns the proportional rule: parties for whom no ρ will do get their own posterior ("alone") or their share
    ("shares"). The operator keeps to all of this and settles with everybody in one team, except for the options in
    `operator_may_choose`.
    """

    added_later = frozenset({"rule", "fallback", "operator_may_choose"})

    mechanism: Literal["tempering", "noise", "degraded"] = "tempering"
    rule: Literal["surplus", "proportional"] = "proportional"
    rho: float | Literal["max"] = "max"
    fallback: Literal["alone", "shares"] = "alone"
    operator_may_choose: tuple[OperatorsChoice, ...] = ()

    @field_validator("operator_may_choose")
    @classmethod
    def _in_one_order(cls, names: tuple[OperatorsChoice, ...]) -> tuple[OperatorsChoice, ...]:
        if repeated := first_repeat(list(names)):
            raise ValueError(f"{repeated!r} is listed twice")
        return tuple(sorted(names))

    @field_validator("rho", mode="before")
    @classmethod
    def _in_range(cls, rho: Any) -> Any:
        if rho != "max" and (isinstance(rho, bool) or not isinstance(rho, int | float) or not 0 < rho <= 1):
            raise ValueError(f'{rho!r} is not a fairness exponent; write a number above 0 and up to 1, or "max"')
        return rho


class Party(Section):
    """A member: a short name, and optionally the Ed25519 public key that its submissions must be signed with."""

    name: PartyName
    public_key: PublicKey | None = None
