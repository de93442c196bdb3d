"""`report.html`: a settlement for people to read, as one file that needs nothing else, or as a part of another page.

The operator's edition shows everything. A party's edition shows what that party may know and nothing of the others: it
is rendered from a `PartyView`, which holds no more than that.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise._util.files import replaced_file
from equipoise.errors import MediationError
from equipoise.mediation import folders
from equipoise.mediation.settlement import Settlement
from equipoise.report.page import Page, rendered, rendered_fragment, style_sheet
from equipoise.report.view import PartyView, view_of

if TYPE_CHECKING:
    from equipoise.mediation.other_priors import UnderPrior

FILE = folders.REPORT

__all__ = ["FILE", "fragment", "operator_page", "party_page", "render", "style_sheet", "write_report", "write_reports"]


def render(settlement: Settlement, *, party: str | None = None) -> str:
    """Render the report as HTML: the operator's edition, or that of one party."""
    return rendered(_page(settlement, party))


def fragment(settlement: Settlement, *, party: str | None = None) -> str:
    """Render summary, contents and sections of an edition, as one `<div>` for a page with a title and `style_sheet`.

    It holds no style and no script, so the page may forbid both within itself. Headings begin at the second level.
    """
    return rendered_fragment(_page(settlement, party))


def operator_page(settlement: Settlement, priors: "Mapping[str, UnderPrior] | None" = None) -> Page:
    """Build the operator's edition; `priors` is the round under other priors."""
    # Both editions load Matplotlib, which importing this package should not.
    from equipoise.report.operator import operator_page as page

    return page(settlement, priors)


def party_page(view: PartyView) -> Page:
    """Build a party's edition."""
    from equipoise.report.party import party_page as page

    return page(view)


def _page(settlement: Settlement, party: str | None, priors: "Mapping[str, UnderPrior] | None" = None) -> Page:
    if party is None:
        return operator_page(settlement, priors)
    if party not in settlement.contributions:
        raise MediationError(f"{party!r} took no part; the parties are {', '.join(settlement.parties)}")
    return party_page(view_of(settlement, party))


def write_report(
    settlement: Settlement,
    path: str | Path,
    *,
    party: str | None = None,
    priors: "Mapping[str, UnderPrior] | None" = None,
) -> None:
    """Write one edition, readable by its owner alone; an existing file is replaced once the new one is whole.

    `priors`, the round under other priors, is for the operator's edition.
    """
    text = rendered(_page(settlement, party, priors))
    target = Path(path)
    try:
        target.parent.parent.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(mode=folders.PRIVATE, exist_ok=True)
        with replaced_file(target, mode=0o600) as partial:
            partial.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise MediationError(
            f"cannot write the report {str(target)!r}: {error.strerror or error}; free some room, or choose another "
            "place"
        ) from error


def write_reports(settlement: Settlement, folder: str | Path) -> None:
    """Write every edition: `report.html` for the operator, and `for/PARTY/report.html` for each party."""
    root = Path(folder)
    folders.make_passable(root)
    write_report(settlement, root / FILE)
    for party in settlement.parties:
        write_report(settlement, folders.make_folder_of(root, party) / FILE, party=party)
