"""The page that compares the models a party can predict with, made on its own computer, where its rows are.

The page is made from losses alone; the code that reads rows (`equipoise.client.home`) is no part of a report.
"""

from collections.abc import Mapping
from pathlib import Path

from equipoise._util.display import Table
from equipoise._util.files import replaced_file
from equipoise._version import __version__
from equipoise.errors import MediationError
from equipoise.estimate import Estimate
from equipoise.report import charts
from equipoise.report.page import Figure, Page, Section, rendered
from equipoise.report.tables import Verdict

MEANINGS = {
    "own rows": "your own table, fitted at home without noise; what you would use without any round",
    "alone": "the model of your release, noise and all; what the mediator’s “alone” and P4 compare with",
    "reward": "what the mediator sent you",
    "both": "reward and own rows together (“equipoise party combine”): the model to use",
}
CONCLUSIONS = {
    "holds": "P4′ holds: at home you predict no worse than with your own rows.",
    "fails": "P4′ fails: with the others’ evidence you predict worse. Use your own rows alone.",
    "cannot tell": "P4′: whether you predict better at home than with your own rows cannot be told from so few rows.",
}


def comparison_page(party: str, losses: Mapping[str, Estimate], table: Table, verdict: str, best: str | None) -> Page:
    """Build the page of held-out losses of the models that a party can have at home."""
    meanings = [f"{name}: {MEANINGS[name]}." for name in losses]
    if "alone" not in losses:
        meanings.append("alone: not measured; give “--alone” the reward of a round that you settle by yourself.")
    first = f"Of the models that {party} can have, held-out rows are predicted best by: {best}."
    figure = Figure(
        charts.losses({party: losses}),
        "Loss on held-out rows; less is better. Bars reach two standard errors either way. All models meet the same "
        "rows, so their differences, in the table, are surer than that.",
    )
    section = Section("compared", "What you can predict with", [], [figure], meanings, [table])
    return Page(
        title="At home",
        edition=f"For {party} alone: made of its own rows on its own computer, and sent to nobody",
        summary=[*([first] if best else []), *table.notes[1:]],  # the first is the verdict, which has a sign here
        sign=Verdict(verdict),
        conclusion=CONCLUSIONS[verdict],
        sections=[section],
        footer=f"Made by Equipoise {__version__}",
    )


def write_comparison(
    path: Path, party: str, losses: Mapping[str, Estimate], table: Table, verdict: str, best: str | None
) -> None:
    """Write the page, readable by its owner alone."""
    text = rendered(comparison_page(party, losses, table, verdict, best))
    try:
        with replaced_file(path, mode=0o600) as partial:
            partial.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise MediationError(
            f"cannot write the page {str(path)!r}: {error.strerror or error}; choose another place"
        ) from error
