"""Editions of the report as parts of pages. Drawing takes a second, so the latest few are kept."""

import threading
from collections import OrderedDict
from collections.abc import Callable

from markupsafe import Markup

from equipoise.service import results
from equipoise.service.access import Actor
from equipoise.service.context import Context
from equipoise.service.rounds import RoundView

_MOST = 32
_kept: OrderedDict[tuple[str, str, str], Markup] = OrderedDict()
_lock = threading.Lock()


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
    """One at a time: many readers of a new settlement would otherwise all draw it at once."""
    with _lock:
        if key not in _kept:
            _kept[key] = Markup(make())  # noqa: S704  (escaped by the report's templates)
            while len(_kept) > _MOST:
                _kept.popitem(last=False)
        _kept.move_to_end(key)
        return _kept[key]
