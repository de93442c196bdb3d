"""Sections on the outcome: values of coalitions, Shapley values, and awards."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise._util.text import counted
from equipoise.report import charts, tables
from equipoise.report.page import Figure, Section
from equipoise.report.wording import listed, number

if TYPE_CHECKING:
    from equipoise.mediation.settlement import Settlement

# Up to this many parties, every coalition is drawn.
ALL_COALITIONS = 6
# Rows of a chart.
MOST_ROWS = 40
BARS = "Bars reach two standard errors either way."


def coalitions(settlement: "Settlement") -> Section:
    """Build the section on values of coalitions."""
    parties, values = settlement.parties, {one.members: one.value for one in settlement.coalitions}
    words = [
        "What a group of parties could know by pooling their releases, compared with knowing nothing but the prior. "
        "Adding a party helps on average, but less and less: what one tells, another may have told already."
    ]
    shown = dict(sorted(values.items(), key=lambda item: (len(item[0]), -item[1].value)))
    if len(parties) > ALL_COALITIONS:
        most = largest(settlement, (MOST_ROWS - 1) // 2)
        ends = {(party,) for party in most} | {tuple(p for p in parties if p != one) for one in most} | {parties}
        shown = {members: value for members, value in shown.items() if members in ends}
        words.append(
            f"Shown are parties alone, all but one, and all together"
            f"{'' if len(most) == len(parties) else f', for the {len(most)} parties with the largest Shapley values'}; "
            f"{counted(len(values), 'coalition')} were valued, and all of them are in the table of diagnostics."
        )
    figure = Figure(charts.coalition_values(shown, parties), f"Values of coalitions in nats. {BARS}")
    return Section("values", "What coalitions are worth", words, [figure])


def shapley(settlement: "Settlement") -> Section:
    """Build the section on Shapley values and how certain their order is."""
    words = [
        "A party’s Shapley value is what it adds, averaged over all orders in which the parties could have joined. "
        "Shares of the rewards follow from it."
    ]
    # Only versions up to 0.6 repaired Shapley values.
    if settlement.shapley_repair > 1:
        words.append(
            "One would have been negative; contributions to nobody count "
            f"{number(settlement.shapley_repair)} times as much, as the paper has it, so that none is."
        )
    if settlement.nothing:
        words.append(
            f"What {listed(settlement.nothing)} {'brings' if len(settlement.nothing) == 1 else 'bring'} cannot be told "
            "from nothing and counts as nothing; nobody else’s share depends on it."
        )
    if not settlement.exact:
        words.append(
            f"Of all coalitions {len(settlement.coalitions):,} were valued, until errors were as small as asked or the "
            "budget was spent; the errors include the choice of coalitions."
        )
    most = largest(settlement, MOST_ROWS)
    figure = Figure(
        charts.shapley_values({party: settlement.shapley[party] for party in most}), f"Shapley values in nats. {BARS}"
    )
    rankings = tables.rankings(settlement)
    return Section(
        "shapley",
        "What each party brings",
        [*words, *left_out(settlement, most)],
        [figure],
        tables=[rankings] if rankings else [],
    )


def awards(settlement: "Settlement") -> Section:
    """Build the section on awards: values alone, targets, and attained values."""
    most = largest(settlement, MOST_ROWS)
    shown = [settlement.awards[party] for party in settlement.parties if party in most]
    surplus = settlement.terms.shares_surplus
    share = "that and its fair share of what it can gain" if surplus else "its fair share of what its team knows"
    words = [
        f"Going alone, a party would know what its own release tells. Its target is {share}, and its reward is a model "
        "made to be worth the target. In every team the party that brings most gets all.",
        "“Alone” is the release with its noise, which is all that was sent. A party’s rows at home tell it more; what "
        "the reward adds to those only the party can see.",
    ]
    if len(settlement.teams) > 1:
        words.append("Teams share what each of them is worth: " + "; ".join(map(", ".join, settlement.teams)) + ".")
    own = [award.party for award in settlement.awards.values() if award.falls_back]
    if own:
        short = (
            f"The share of {listed(own)} would be worth less than it is alone"
            if settlement.settings.mechanism == "degraded"
            else f"No share would leave {listed(own)} as well off as alone"
        )
        words.append(
            f"{short}; as agreed beforehand, "
            f"{'it gets the posterior of its own release' if len(own) == 1 else 'each gets that of its own release'}."
        )
    missed = [award.party for award in settlement.awards.values() if not award.within_tolerance]
    if missed:
        words.append(f"Not within tolerance of the target: {', '.join(missed)}.")
    figure = Figure(
        charts.gains(
            [charts.Gain(one.party, one.alone, one.target, one.attained, settlement.value(*one.team)) for one in shown]
        ),
        f"From alone to the reward, in nats. {BARS}",
    )
    errors = tables.errors(settlement.agreement.model, settlement.errors, tables.yardstick(settlement))
    shown_tables = [*([errors] if errors else []), tables.awards(settlement, similarity=True)]
    notes = [f"{award.party}: {note}" for award in settlement.awards.values() for note in award.notes]
    words += left_out(settlement, most)
    return Section("awards", "What each party gets", words, [figure], notes, shown_tables)


def largest(settlement: "Settlement", most: int) -> list[str]:
    """Return the `most` parties with the largest Shapley values, largest first."""
    return sorted(settlement.parties, key=lambda party: -settlement.shapley[party].value)[:most]


def left_out(settlement: "Settlement", shown: Sequence[str]) -> list[str]:
    """Return a sentence on parties that a chart leaves out, if there are any."""
    if len(shown) == len(settlement.parties):
        return []
    return [f"The {len(shown)} parties with the largest Shapley values are drawn, of {len(settlement.parties)}."]
