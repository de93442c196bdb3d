"""Reports of settled rounds: the own edition for a party, the whole for the operator and the auditor.

The rules are asked every time whether who asks may see it; rendering, which takes a second, is done once.
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

_RENDERED: SingleFlightCache[str] = SingleFlightCache(512)  # a round is settled once, so that they stay true
_RESULT = "result"
TABS = {_RESULT: "Result", "model": "Model", "audit": "Audit", "files": "Files"}
_TAB_OF = {  # by the key of a section; all others are of the result
    **dict.fromkeys(("beliefs", "losses", "priors", "diagnostics"), "model"),
    **dict.fromkeys(("audit", "remarks", "digests", "agreement"), "audit"),
}


def report_page(context: Context, actor: Actor, round_id: str) -> str:
    """The report of a round for who asks, as one HTML file."""
    return _report(context, actor, round_id, "page", rendered)


def report_fragment(context: Context, actor: Actor, round_id: str, tab: str) -> Markup:
    """The sections of one of the `TABS` in the report of a round for who asks, as a part of a page."""

    def render(page: Page) -> str:
        sections = [one for one in page.sections if _TAB_OF.get(one.key, _RESULT) == tab]
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
