"""Editions of the report as parts of pages. Drawing takes a second, so the latest few are kept."""

from collections.abc import Callable

from markupsafe import Markup

from equipoise.service.cache import Kept
from equipoise.service.context import Context
from equipoise.service.rules import results
from equipoise.service.rules.access import Actor
from equipoise.service.rules.rounds import RoundView

_drawn: Kept[Markup] = Kept(256)


def operator_edition(context: Context, actor: Actor, view: RoundView) -> Markup:
    """Everything that was decided, for the operator and the auditor."""
    from equipoise.report import fragment

    settlement = results.settlement(context, actor, view.id)  # also asks whether it may be seen
    return _once((context.audience, str(view.decisions), ""), lambda: fragment(settlement))


def party_edition(context: Context, actor: Actor, view: RoundView) -> Markup:
    """What a party may know."""
    from equipoise.report.page import rendered_fragment
    from equipoise.report.party import party_page

    own = results.party_view(context, actor, view.id)
    return _once((context.audience, str(view.decisions), own.party), lambda: rendered_fragment(party_page(own)))


def _once(key: tuple[str, str, str], make: Callable[[], str]) -> Markup:
    return _drawn.get(key, lambda: Markup(make()))  # noqa: S704  (escaped by the report's templates)
