"""The dashboard: pages rendered on the server, for people with a browser.

Pages know HTTP and words, no rules; whatever is shown to somebody came from a rule that was asked in that person's
name. They work without JavaScript; with it, progress moves by itself.
"""

from starlette.routing import BaseRoute

from equipoise_service.web.pages import events, home, party, people, rendering, rounds

__all__ = ["ROUTES"]

ROUTES: list[BaseRoute] = [
    route for pages in (home, people, rounds, party, events, rendering) for route in pages.router.routes
]
