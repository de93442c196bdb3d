"""The dashboard: pages rendered on the server, for people with a browser.

Pages contain HTTP and wording, but no rules: everything that they show comes from a rule that was called for the person
who is signed in. They work without JavaScript; with it, the progress of a settlement updates by itself.
"""

from starlette.routing import BaseRoute

from equipoise_service.web.pages import events, home, party, people, rendering, rounds

__all__ = ["ROUTES"]

ROUTES: list[BaseRoute] = [
    route for pages in (home, people, rounds, party, events, rendering) for route in pages.router.routes
]
