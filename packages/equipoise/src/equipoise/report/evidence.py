"""Sections for readers who check the settlement: remarks on submissions, diagnostics, and fingerprints."""

from typing import TYPE_CHECKING

from equipoise._util.display import Table
from equipoise.mediation.settings import WITH_NOISE
from equipoise.report.page import Section
from equipoise.report.tables import FOLDED
from equipoise.report.wording import number, seconds

if TYPE_CHECKING:
    from equipoise.mediation.settlement import Settlement

OPTIONS = {
    "estimator": "estimator of values",
    "method": "sampler",
    "rule": "tempering rule",
    "mechanism": "mechanism of rewards",
    "rho": "fairness exponent asked for",
    "seed": "seed",
    "draws": "draws of a posterior, to begin with",
    "chains": "Markov chains",
    "precision": "standard error wanted (nats)",
    "tolerance": "tolerance of a reward (nats)",
    "coalitions": "coalitions to value",
    "budget": "coalitions to value at most",
}


def remarks(settlement: "Settlement") -> Section:
    """Build the section of remarks on odd submissions; it is empty if there are none."""
    words = (
        "Advice, never a reason to reject: an honest party from an unusual population looks odd too, and a careful "
        "liar does not."
    )
    return Section("remarks", "Worth a look", [words], items=[remark.message for remark in settlement.remarks])


def diagnostics(settlement: "Settlement") -> Section:
    """Build the section on the computation: its precision, diagnostics, options, versions and times."""
    asked, reached = settlement.settings.precision, settlement.precision
    valued = settlement.coalitions
    worst = max(coalition.rhat for coalition in valued)
    repeat = "Seed and the digest of the decisions let anybody with the submissions repeat the computation."
    if settlement.settings.mechanism in WITH_NOISE:
        repeat += (
            " They need the noise secret, too, which must be kept from the parties: who knows it can take the added "
            "noise away again."
        )
    words = [
        f"The largest standard error of a target or a reward is {number(reached)} nats; {number(asked)} was asked for. "
        f"{len(valued):,} of {2 ** len(settlement.parties) - 1:,} coalitions were valued, with R̂ up to {worst:.3f}.",
        repeat,
    ]
    problems = [
        f"{{{', '.join(coalition.members)}}}: {problem}" for coalition in valued for problem in coalition.problems
    ]
    coalitions = Table(
        "Coalitions: value in nats ± standard error, draws, and how well the chains mixed",
        ("members", "value", "draws", "R̂", "effective draws"),
        [
            (
                ", ".join(coalition.members),
                coalition.value,
                f"{coalition.draws:,}",
                f"{coalition.rhat:.3f}",
                f"{coalition.ess:,.0f}",
            )
            for coalition in valued
        ],
        folded=len(valued) > FOLDED,
    )
    origin = "chosen by the mediator" if settlement.seed_was_chosen else "follows from the submissions"
    options = [
        (label, f"{settlement.options[name]}, {origin}" if name == "seed" else str(settlement.options[name]))
        for name, label in OPTIONS.items()
        if settlement.options.get(name) is not None
    ]
    versions = list(settlement.environment.items())
    tables = [
        coalitions,
        Table("Choices of the mediator", ("choice", "value"), options, numeric_from=9),
        Table("Versions", ("program", "version"), versions, numeric_from=9),
    ]
    if settlement.timings:
        times = [(name, seconds(time)) for name, time in settlement.timings.items()]
        tables.append(Table("Time taken", ("step", "time"), times))
    return Section("diagnostics", "How it was computed", words, items=problems, tables=tables)


def digests(settlement: "Settlement") -> Section:
    """Build the section with the digests of submissions and rewards."""
    rows = [
        (party, contribution.submission, contribution.digest, settlement.awards[party].digest)
        for party, contribution in settlement.contributions.items()
    ]
    return Section(
        "digests",
        "Fingerprints",
        [
            "A file with another fingerprint is another file. Equal decisions have equal digests, on whichever machine "
            f"they were computed: {settlement.decisions}.",
        ],
        tables=[
            Table(
                "SHA-256 of submissions and rewards",
                ("party", "submission id", "submission file", "reward"),
                rows,
                numeric_from=9,
                codes=True,
                folded=len(rows) > FOLDED,
            )
        ],
    )
