"""Reports of settled rounds: a party gets its own edition, operators and auditors the whole report.

Every request checks the permission; only the rendered report, which takes a second to make, is cached.
"""

from collections.abc import Callable
from dataclasses import replace

from markupsafe import Markup

from equipoise.report import operator_page, party_page
from equipoise.report.page import Page, rendered, rendered_fragment
from equipoise_service.cache import SingleFlightCache
from equipoise_service.context import Context
from equipoise_service.rules import results
from equipoise_service.rules.access import Actor

# A round is settled once, so cached reports never become outdated.
_RENDERED: SingleFlightCache[str] = SingleFlightCache(512)
_RESULT = "result"
TABS = {_RESULT: "Result", "model": "Model", "audit": "Audit", "files": "Files"}
# Tabs by the key of a section. All other sections belong to the result.
_TAB_OF = {
    **dict.fromkeys(("beliefs", "losses", "priors", "diagnostics"), "model"),
    **dict.fromkeys(("audit", "remarks", "digests", "agreement"), "audit"),
}


def report_page(context: Context, actor: Actor, round_id: str) -> str:
    """Return the report of a round for an actor, as one HTML file."""
    return _report(context, actor, round_id, "page", rendered)


def report_fragment(context: Context, actor: Actor, round_id: str, tab: str) -> Markup:
    """Return the sections of one of the `TABS` in an actor's report of a round, as a part of a page."""

    def render(page: Page) -> str:
        sections = [section for section in page.sections if _TAB_OF.get(section.key, _RESULT) == tab]
        return rendered_fragment(replace(page, sections=sections, summary=page.summary if tab == _RESULT else ()))

    html = _report(context, actor, round_id, f"fragment {tab}", render)
    return Markup(html)  # noqa: S704  (escaped by the report's templates)


def _report(context: Context, actor: Actor, round_id: str, form: str, render: Callable[[Page], str]) -> str:
    if actor.role == "party":
        own = results.party_view(context, actor, round_id)
        key = (context.public_key, round_id, own.party, form)
        return _RENDERED.get(key, lambda: render(party_page(own)))
    settlement = results.settlement(context, actor, round_id)
    return _RENDERED.get((context.public_key, round_id, "", form), lambda: render(operator_page(settlement)))
