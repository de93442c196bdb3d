"""The web application: its routes, and its middleware in the order that a request passes through."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware

from equipoise._version import __version__
from equipoise_service.context import Context
from equipoise_service.logs import RequestLog, log_failure
from equipoise_service.rules import authentication
from equipoise_service.settings import Settings
from equipoise_service.web import api, pages
from equipoise_service.web.api.service import HealthCheck
from equipoise_service.web.error_handlers import add_exception_handlers
from equipoise_service.web.middleware import AddressRateLimit, BodyLimit, SecurityHeaders, ServerErrors, TrustedHost
from equipoise_service.web.rate_limit import RateLimits

DESCRIPTION = (
    "A mediator for private collaborative machine learning: parties submit, the operator settles, everybody sees what "
    'they may. Errors are {"error": {"code": …, "message": …}}. Times are milliseconds since 1970.'
)
_SWEEP = 600.0  # seconds


def create_app(context: Context, settings: Settings) -> FastAPI:
    """Create the web application of one service. Pages and the API share the rules, but not how people sign in."""
    limits = RateLimits(settings.rates)
    app = FastAPI(
        title="Equipoise",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        lifespan=_sweeping,
        middleware=[  # from the outside in
            Middleware(RequestLog),
            Middleware(SecurityHeaders, settings=settings),
            Middleware(ServerErrors),
            Middleware(TrustedHost, settings=settings),
            Middleware(AddressRateLimit, limits=limits),
            Middleware(BodyLimit, settings=settings),
        ],
    )
    app.state.context = context
    app.state.settings = settings
    app.state.limits = limits
    app.state.health = HealthCheck(context)
    add_exception_handlers(app)
    app.router.routes.extend([*api.ROUTES, *pages.ROUTES])
    return app


@asynccontextmanager
async def _sweeping(app: FastAPI) -> AsyncIterator[None]:
    """Delete expired secrets and nonces from time to time while the server runs."""

    async def sweep() -> None:
        while True:
            try:
                await asyncio.to_thread(authentication.delete_expired, app.state.context)
            # The database may be unavailable; the next sweep deletes what this one could not.
            except Exception as error:
                log_failure("sweep", error)
            await asyncio.sleep(_SWEEP)

    task = asyncio.create_task(sweep())
    try:
        yield
    finally:
        task.cancel()
