"""The dashboard: pages rendered on the server, for people with a browser.

Pages know HTTP and words, no rules; whatever is shown to somebody came from a rule that was asked in that person's
name. They work without JavaScript; with it, progress moves by itself.
"""

from fastapi import APIRouter

from equipoise.service.web.pages import events, home, party, people, rendering, rounds

__all__ = ["router"]

router = APIRouter(route_class=rendering.PageRoute, include_in_schema=False)
for _pages in (home, people, rounds, party, events, rendering):
    router.include_router(_pages.router)
