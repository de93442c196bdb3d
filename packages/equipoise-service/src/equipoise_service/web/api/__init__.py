"""The HTTP API, version 1."""

from starlette.routing import BaseRoute

from equipoise_service.web.api import people, results, rounds, service

__all__ = ["ROUTES"]

# A flat list, because with nested routers a request is compared with every route once per level.
ROUTES: list[BaseRoute] = [
    route
    for router in (
        service.router,
        people.router,
        people.sign_in_router,
        rounds.router,
        rounds.submission_router,
        rounds.settlement_router,
        results.router,
        results.event_router,
        service.docs_router,
    )
    for route in router.routes
]
