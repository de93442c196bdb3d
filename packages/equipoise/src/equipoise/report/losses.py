"""Sections on the models: posteriors of the parameters, and how well they predict."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from equipoise.report import beliefs as believing
from equipoise.report import charts, tables
from equipoise.report.outcome import MOST_ROWS, largest, left_out
from equipoise.report.page import Figure, Section

if TYPE_CHECKING:
    from equipoise.estimate import Estimate
    from equipoise.mediation.other_priors import UnderPrior
    from equipoise.mediation.settlement import Settlement

MOST_CHARTS = 24


def under_other_priors(priors: "Mapping[str, UnderPrior]") -> Section:
    """Build the section on the order and shares of the parties under other priors."""
    agreed, *others = priors.values()
    parties = agreed.order
    words = [
        "A value says how much is learnt beyond the prior, so it depends on the prior. Here the same releases were "
        "valued again, with beliefs half and twice as wide as agreed. Nothing was decided by it.",
        "The order of the parties stays the same."
        if all(under_prior.order == parties for under_prior in others)
        else "The order of the parties changes: how much each brings could be argued about, within these numbers.",
    ]
    table = tables.under_other_priors(priors)
    return Section("priors", "Had the prior been another", words, tables=[table])


def beliefs(settlement: "Settlement") -> Section:
    """Build the section of posteriors: prior, alone, reward and team, for each party on the same axes."""
    agreement = settlement.agreement
    most = [party for party in settlement.parties if party in largest(settlement, MOST_CHARTS)]
    shown = {
        party: believing.panels(agreement, {"prior": settlement.prior, **settlement.awards[party].posteriors})
        for party in most
    }
    limits = [_union([charts.interval_limits(one[index]) for one in shown.values()]) for index in range(_count(shown))]
    figures = [
        Figure(
            charts.intervals(panels, whose=party, limits=limits),
            "Medians, halves and nine tenths of each belief.",
            party,
        )
        for party, panels in shown.items()
    ]
    kinds = {name for party in most for name in settlement.awards[party].posteriors}
    words = believing.introduction(agreement, sorted(kinds))
    knowing = {f"team of {', '.join(team)}": settlement.awards[team[0]].posteriors for team in settlement.teams}
    shown_tables = [
        tables.coefficients(agreement, summaries["team"], f"What the {who} knows, in the columns’ own units")
        for who, summaries in knowing.items()
        if "team" in summaries
    ]
    shown_tables += [
        tables.coefficients(agreement, award.posteriors["reward"], f"What the reward of {party} says", folded=True)
        for party, award in settlement.awards.items()
        if party in most and "reward" in award.posteriors
    ]
    return Section("beliefs", "What is learnt", [*words, *left_out(settlement, most)], figures, tables=shown_tables)


def predictions(settlement: "Settlement") -> Section | None:
    """Build the section on losses on test rows; None if there were no test rows."""
    losses = {party: award.losses for party, award in settlement.awards.items() if award.losses}
    if not losses:
        return None
    return losses_section(losses, dict(list(losses.items())[:MOST_ROWS]))


def losses_section(losses: dict[str, dict[str, "Estimate"]], drawn: dict[str, dict[str, "Estimate"]]) -> Section:
    """Build the section on losses: all in a table, those of `drawn` in a chart."""
    words = (
        "How much each model is surprised by rows nobody released: mean negative log probability of a test row (for "
        "a number, its density per unit of the target), in nats. Less is better; 0.1 less means that the truth was "
        "given about a tenth more probability. Errors are those of which rows happen to be in the test; all models "
        "meet the same rows, so their differences are surer than that."
    )
    figure = Figure(
        charts.losses(drawn),
        "Loss on test rows; less is better. Bars reach two standard errors either way. An arrow stands for a number "
        "that is further off, and in the table.",
    )
    return Section("losses", "How well the models predict", [words], [figure], tables=[tables.losses(losses)])


def _union(limits: Sequence[charts.Limits]) -> charts.Limits:
    return min(low for low, _ in limits), max(high for _, high in limits)


def _count(shown: dict[str, list[charts.Panel]]) -> int:
    return len(next(iter(shown.values())))
