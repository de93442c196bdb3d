"""Reports of settled rounds: the own edition for a party, the whole for the operator and the auditor.

The rules are asked every time whether who asks may see it; rendering, which takes a second, is done once.
"""

from collections.abc import Callable

from markupsafe import Markup

from equipoise.report.page import Page, rendered, rendered_fragment
from equipoise.service.cache import SingleFlightCache
from equipoise.service.context import Context
from equipoise.service.rules import results
from equipoise.service.rules.access import Actor

_RENDERED: SingleFlightCache[str] = SingleFlightCache(512)  # a round is settled once, so that they stay true


def report_page(context: Context, actor: Actor, round_id: str) -> str:
    """The report of a round for who asks, as one HTML file."""
    return _report(context, actor, round_id, rendered)


def report_fragment(context: Context, actor: Actor, round_id: str) -> Markup:
    """The report of a round for who asks, as a part of a page."""
    return Markup(_report(context, actor, round_id, rendered_fragment))  # noqa: S704  (escaped by the report's templates)


def _report(context: Context, actor: Actor, round_id: str, render: Callable[[Page], str]) -> str:
    # What draws reports loads JAX, which most requests need not wait for.
    if actor.role == "party":
        from equipoise.report.party import party_page

        own = results.party_view(context, actor, round_id)
        key = (context.public_key, round_id, own.party, render.__name__)
        return _RENDERED.get(key, lambda: render(party_page(own)))
    from equipoise.report.operator import operator_page

    settlement = results.settlement(context, actor, round_id)
    return _RENDERED.get((context.public_key, round_id, "", render.__name__), lambda: render(operator_page(settlement)))
