"""Where a settlement leaves its agreement: what the agreement fixes, and the operator chose otherwise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from equipoise.agreement import Agreement


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
