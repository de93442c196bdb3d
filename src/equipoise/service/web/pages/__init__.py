"""The dashboard: pages rendered on the server, for people with a browser.

Pages know HTTP and words, no rules; whatever is shown to somebody came from a rule that was asked in that person's
name. They work without JavaScript; with it, progress moves by itself.
"""

from fastapi import APIRouter

from equipoise.service.web.pages import entrance, events, mine, people, rounds, static
from equipoise.service.web.pages.problems import PageRoute, problem_page

__all__ = ["problem_page", "router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)
for _pages in (entrance, people, rounds, mine, events, static):
    router.include_router(_pages.router)
