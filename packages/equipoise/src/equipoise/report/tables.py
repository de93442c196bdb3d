"""Tables of a settlement as data: built once, shown by the command line, the report and the pages of the service."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from equipoise._util.display import Table
from equipoise._util.text import short
from equipoise.agreement import Agreement
from equipoise.estimate import Estimate
from equipoise.mediation.findings import Finding
from equipoise.mediation.settings import WITH_NOISE
from equipoise.models.base import Model
from equipoise.models.guarantee import DEFAULT_DELTA, Guarantee, guess_percent
from equipoise.reward.summary import Summary, coefficient_rows

if TYPE_CHECKING:
    from equipoise.mediation.other_priors import UnderPrior
    from equipoise.mediation.settlement import Contribution, Settlement

FOLDED = 16  # rows beyond which a table is folded
WHOSE = {"prior": "without data", "alone": "alone", "reward": "with its reward", "team": "whole team"}
MEASURED = "on the test rows"
EXPECTED = "as the reward expects it, for rows like the party’s own"
FEW_EXPONENTS = (0.1, 0.25, 0.5, 0.75, 1.0)
EXPONENTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class Verdict(str):
    """A cell that says what was found: "holds", "fails" or "cannot tell"."""

    __slots__ = ()


def errors(model: Model, by_party: Mapping[str, Mapping[str, float]], how: str) -> Table | None:
    """How far off models are, in the target's unit, before and after; None where nothing is known of it."""
    known = {party: one for party, one in by_party.items() if one}
    if not known:
        return None
    names = [name for name in WHOSE if any(name in one for one in known.values())]
    return Table(
        f"{model.error_name}, {how}",
        ("party", *(WHOSE[name] for name in names)),
        [(party, *(error_text(model, one.get(name)) for name in names)) for party, one in known.items()],
    )


def yardstick(settlement: "Settlement") -> str:
    """Say how the errors of a settlement were found, for the title of a table."""
    awards = settlement.awards.values()
    if any(award.errors_are_measured for award in awards):
        return MEASURED
    return (
        "as the whole team’s model expects it, for rows like the party’s own" if settlement.errors_at(1.0) else EXPECTED
    )


def errors_by_exponent(settlement: "Settlement") -> Table | None:
    """Table of the errors of everybody's model at other fairness exponents; None where they are not known."""
    model, shown = settlement.agreement.model, sorted({*FEW_EXPONENTS, settlement.rho})
    by_exponent = [settlement.errors_at(rho) for rho in shown]
    if not by_exponent[0]:
        return None
    return Table(
        f"{model.error_name} at other fairness exponents, {yardstick(settlement)}",
        ("party", "alone", *(f"ρ = {rho:.3g}" for rho in shown)),
        [
            (party, error_text(model, alone["alone"]), *(error_text(model, one[party]) for one in by_exponent))
            for party, alone in settlement.errors.items()
            if party in by_exponent[0]
        ],
    )


def error_text(model: Model, error: float | None) -> str:
    """An error in the target's unit, or in percent of the rows."""
    if error is None:
        return ""
    return f"{error:.1%}" if model.errors_are_shares else short(float(f"{error:.3g}"))


def before_and_after(model: Model, by_name: Mapping[str, float]) -> str:
    """The error alone, and with the reward."""
    return f"{error_text(model, by_name['alone'])} → {error_text(model, by_name['reward'])}"


def awards(settlement: "Settlement", *, similarity: bool) -> Table:
    """What each party gets and what it follows from, in nats; and how similar to the team's posterior it is."""
    noise = settlement.settings.mechanism in WITH_NOISE
    return Table(
        f"Values in nats ± standard error, fairness exponent {settlement.rho:.3g}",
        (
            "party",
            "alone",
            "Shapley value",
            "target",
            "attained",
            "τ" if noise else "κ",
            *(["similarity"] if similarity else []),
        ),
        [
            (
                award.party,
                award.alone,
                settlement.shapley[award.party],
                award.target,
                award.attained,
                f"{award.tau if noise else award.kappa:.3g}",
                award.similarity,
            )[: 6 + similarity]
            for award in settlement.awards.values()
        ],
    )


def contributions(settlement: "Settlement") -> Table:
    """Who released how many rows, at which privacy; all readings are of one guarantee."""
    by_party = settlement.contributions
    orders = {one.order for one in by_party.values()}
    common = f" (order λ = {short(next(iter(orders)))})" if len(orders) == 1 else ""
    rows = []
    for party, one in by_party.items():
        guarantee = guarantee_of(one)
        rows.append(
            (
                party,
                f"{one.rows:,}",
                f"{guarantee.epsilon_at(DEFAULT_DELTA):.3g}",
                guess_percent(guarantee.zcdp),
                f"{one.epsilon:.4g}" + ("" if common else f" at λ = {short(one.order)}"),
                f"{guarantee.zcdp:.4g}",
            )
        )
    headers = ("party", "rows", f"ε at δ = {short(DEFAULT_DELTA)}", "guess", f"Rényi ε{common}", "zCDP")
    return Table("Releases and their guarantees", headers, rows)


def guarantee_of(contribution: "Contribution") -> Guarantee:
    """What a party's release promises."""
    return Guarantee(order=contribution.order, epsilon=contribution.epsilon)


def losses(by_party: Mapping[str, Mapping[str, Estimate]]) -> Table:
    """Losses on rows that nobody released."""
    names = [name for name in WHOSE if any(name in one for one in by_party.values())]
    return Table(
        "Loss on test rows, which nobody released (mean negative log probability in nats ± standard error; less is "
        "better)",
        ("party", *(WHOSE[name] for name in names)),
        [(party, *(str(one.get(name, "")) for name in names)) for party, one in by_party.items()],
    )


def coefficients(agreement: Agreement, summary: Summary, title: str, *, folded: bool = False) -> Table:
    """Parameters in the columns' own units, levels against the reference, and odds ratios of a logistic regression."""
    headers, rows = coefficient_rows(agreement, summary)
    return Table(title, headers, [(agreement.model.row_name(name), *cells) for name, *cells in rows], folded=folded)


def audit(findings: Sequence[Finding], *, reasons: bool) -> Table:
    """Promises with their verdicts; reasons carry numbers of all parties."""
    return Table(
        "Audit of the paper’s promises",
        ("code", "promise", "verdict", *(["why"] if reasons else [])),
        [(one.code, one.promise, Verdict(one.verdict), *([one.reason] if reasons else [])) for one in findings],
        numeric_from=9,
    )


def rankings(settlement: "Settlement") -> Table | None:
    """How sure the order of the parties is; None if there is nobody to compare."""
    found = [
        (one.higher, one.lower, "above 0.999" if one.probability > 0.999 else f"{one.probability:.3f}")
        for one in settlement.audit.rankings
    ]
    if not found:
        return None
    return Table(
        "How sure the order is: the probability that a party truly contributes more than the next",
        ("party", "contributes more than", "probability"),
        found,
        numeric_from=2,
        folded=len(found) > FOLDED,
    )


def under_other_priors(priors: "Mapping[str, UnderPrior]") -> Table:
    """What parties bring and get had the prior been another."""
    parties = next(iter(priors.values())).order
    return Table(
        "Had the prior been another: Shapley values in nats ± standard error, and targets as shares of the largest",
        ("prior", "all together", "ρ", *parties),
        [
            (
                name,
                one.team,
                f"{one.rho:.3g}",
                *(f"{one.shapley[party]} ({one.share(party):.0%})" for party in parties),
            )
            for name, one in priors.items()
        ],
    )


def exponents(settlement: "Settlement") -> list[tuple[float, dict[str, float], list[str]]]:
    """Fairness exponents, everybody's targets there, and who would be worse off than alone."""
    found = []
    for rho in sorted({*EXPONENTS, settlement.rho, *filter(None, (settlement.rational_rho, settlement.stable_rho))}):
        targets = settlement.targets_at(rho)
        worse = [party for party in settlement.parties if targets[party] < settlement.value(party).value - 1e-9]
        found.append((rho, targets, worse))
    return found


def sweep(settlement: "Settlement") -> Table:
    """Everybody's target at several fairness exponents."""
    marks = {
        "chosen": settlement.rho,
        "rationality bound": settlement.rational_rho,
        "stability bound": settlement.stable_rho,
    }

    def remark(rho: float, worse: list[str]) -> str:
        marked = [name for name, where in marks.items() if where == rho]
        return "; ".join([*marked, *([f"{', '.join(worse)} better off alone"] if worse else [])])

    return Table(
        "Targets in nats at other fairness exponents",
        ("rho", *settlement.parties, "note"),
        [
            (f"{rho:.3g}", *(f"{targets[party]:.2f}" for party in settlement.parties), remark(rho, worse))
            for rho, targets, worse in exponents(settlement)
        ],
        numeric_from=0,
    )
