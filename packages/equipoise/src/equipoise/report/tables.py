"""Tables of a settlement as data, shown by the command line, the report and the pages of the service."""

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

# Tables with more rows are folded.
FOLDED = 16
WHOSE = {"prior": "without data", "alone": "alone", "reward": "with its reward", "team": "whole team"}
MEASURED = "on the test rows"
EXPECTED = "as the reward expects it, for rows like the party’s own"
FEW_EXPONENTS = (0.1, 0.25, 0.5, 0.75, 1.0)
EXPONENTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class Verdict(str):
    """A cell with a verdict: "holds", "fails" or "cannot tell"."""

    __slots__ = ()


def errors(model: Model, by_party: Mapping[str, Mapping[str, float]], how: str) -> Table | None:
    """Return the table of the models' errors, in the target's unit, before and after; None if none are known."""
    known = {party: row for party, row in by_party.items() if row}
    if not known:
        return None
    names = [name for name in WHOSE if any(name in row for row in known.values())]
    return Table(
        f"{model.error_name}, {how}",
        ("party", *(WHOSE[name] for name in names)),
        [(party, *(error_text(model, row.get(name)) for name in names)) for party, row in known.items()],
    )


def yardstick(settlement: "Settlement") -> str:
    """Say how the errors of a settlement were determined, for the title of a table."""
    awards = settlement.awards.values()
    if any(award.errors_are_measured for award in awards):
        return MEASURED
    return (
        "as the whole team’s model expects it, for rows like the party’s own" if settlement.errors_at(1.0) else EXPECTED
    )


def errors_by_exponent(settlement: "Settlement") -> Table | None:
    """Return the table of every model's error at other fairness exponents; None if they are not known."""
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
    """Format an error in the target's unit, or in percent of the rows."""
    if error is None:
        return ""
    return f"{error:.1%}" if model.errors_are_shares else short(float(f"{error:.3g}"))


def before_and_after(model: Model, by_name: Mapping[str, float]) -> str:
    """Format the error alone and with the reward, with an arrow between."""
    return f"{error_text(model, by_name['alone'])} → {error_text(model, by_name['reward'])}"


def awards(settlement: "Settlement", *, similarity: bool) -> Table:
    """Return the table of awards and the values behind them, in nats; `similarity` is that to the team's posterior."""
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
    """Return the table of releases: rows and privacy of each; all columns of ε state the same guarantee."""
    by_party = settlement.contributions
    orders = {contribution.order for contribution in by_party.values()}
    common = f" (order λ = {short(next(iter(orders)))})" if len(orders) == 1 else ""
    rows = []
    for party, contribution in by_party.items():
        guarantee = guarantee_of(contribution)
        rows.append(
            (
                party,
                f"{contribution.rows:,}",
                f"{guarantee.epsilon_at(DEFAULT_DELTA):.3g}",
                guess_percent(guarantee.zcdp),
                f"{contribution.epsilon:.4g}" + ("" if common else f" at λ = {short(contribution.order)}"),
                f"{guarantee.zcdp:.4g}",
            )
        )
    headers = ("party", "rows", f"ε at δ = {short(DEFAULT_DELTA)}", "guess", f"Rényi ε{common}", "zCDP")
    return Table("Releases and their guarantees", headers, rows)


def guarantee_of(contribution: "Contribution") -> Guarantee:
    """Return the privacy guarantee of a party's release."""
    return Guarantee(order=contribution.order, epsilon=contribution.epsilon)


def losses(by_party: Mapping[str, Mapping[str, Estimate]]) -> Table:
    """Return the table of losses on rows that nobody released."""
    names = [name for name in WHOSE if any(name in row for row in by_party.values())]
    return Table(
        "Loss on test rows, which nobody released (mean negative log probability in nats ± standard error; less is "
        "better)",
        ("party", *(WHOSE[name] for name in names)),
        [(party, *(str(row.get(name, "")) for name in names)) for party, row in by_party.items()],
    )


def coefficients(agreement: Agreement, summary: Summary, title: str, *, folded: bool = False) -> Table:
    """Return the table of parameters in the columns' own units, with odds ratios for a logistic regression.

    Levels are relative to the reference.
    """
    headers, rows = coefficient_rows(agreement, summary)
    return Table(title, headers, [(agreement.model.row_name(name), *cells) for name, *cells in rows], folded=folded)


def audit(findings: Sequence[Finding], *, reasons: bool) -> Table:
    """Return the table of promises with their verdicts; `reasons` carry numbers of all parties."""
    return Table(
        "Audit of the paper’s promises",
        ("code", "promise", "verdict", *(["why"] if reasons else [])),
        [
            (finding.code, finding.promise, Verdict(finding.verdict), *([finding.reason] if reasons else []))
            for finding in findings
        ],
        numeric_from=9,
    )


def rankings(settlement: "Settlement") -> Table | None:
    """Return the table of probabilities that one party contributes more than the next; None for a single party."""
    rows = [
        (pair.higher, pair.lower, "above 0.999" if pair.probability > 0.999 else f"{pair.probability:.3f}")
        for pair in settlement.audit.rankings
    ]
    if not rows:
        return None
    return Table(
        "How sure the order is: the probability that a party truly contributes more than the next",
        ("party", "contributes more than", "probability"),
        rows,
        numeric_from=2,
        folded=len(rows) > FOLDED,
    )


def under_other_priors(priors: "Mapping[str, UnderPrior]") -> Table:
    """Return the table of Shapley values and targets under other priors."""
    parties = next(iter(priors.values())).order
    return Table(
        "Had the prior been another: Shapley values in nats ± standard error, and targets as shares of the largest",
        ("prior", "all together", "ρ", *parties),
        [
            (
                name,
                under_prior.team,
                f"{under_prior.rho:.3g}",
                *(f"{under_prior.shapley[party]} ({under_prior.share(party):.0%})" for party in parties),
            )
            for name, under_prior in priors.items()
        ],
    )


def exponents(settlement: "Settlement") -> list[tuple[float, dict[str, float], list[str]]]:
    """Return fairness exponents, all targets there, and the parties that would be worse off than alone."""
    by_exponent = []
    for rho in sorted({*EXPONENTS, settlement.rho, *filter(None, (settlement.rational_rho, settlement.stable_rho))}):
        targets = settlement.targets_at(rho)
        worse = [party for party in settlement.parties if targets[party] < settlement.value(party).value - 1e-9]
        by_exponent.append((rho, targets, worse))
    return by_exponent


def sweep(settlement: "Settlement") -> Table:
    """Return the table of all targets at several fairness exponents."""
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
