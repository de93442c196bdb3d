"""The web application: what it is made of, and in which order a request passes through."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware

from equipoise._version import __version__
from equipoise.service.context import Context
from equipoise.service.logs import RequestLog, log_failure
from equipoise.service.rules import sign_in as signing_in
from equipoise.service.settings import Settings
from equipoise.service.web import api, pages
from equipoise.service.web.body_limit import WholeBodies
from equipoise.service.web.health import Health
from equipoise.service.web.problems import Unforeseen, add_problems
from equipoise.service.web.rate_limit import AddressLimit, Limits
from equipoise.service.web.security_headers import CarefulHeaders
from equipoise.service.web.trusted_host import OwnHost

DESCRIPTION = (
    "A mediator for private collaborative machine learning: parties submit, the operator settles, everybody sees what "
    'they may. Errors are {"error": {"code": …, "message": …}}. Times are milliseconds since 1970.'
)
_SWEEP = 600.0  # seconds between clearing away expired secrets and nonces


def create_app(context: Context, settings: Settings) -> FastAPI:
    """An app on one service's data. Pages and the API share the rules, not the way people sign in."""
    limits = Limits(settings.rates)
    app = FastAPI(
        title="Equipoise",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        lifespan=_tidying,
        middleware=[  # from the outside in
            Middleware(RequestLog),
            Middleware(CarefulHeaders, settings=settings),
            Middleware(Unforeseen),
            Middleware(OwnHost, settings=settings),
            Middleware(AddressLimit, limits=limits),
            Middleware(WholeBodies, settings=settings),
        ],
    )
    app.state.context = context
    app.state.settings = settings
    app.state.limits = limits
    app.state.health = Health(context)
    add_problems(app)
    app.include_router(api.router)
    app.include_router(pages.router)
    return app


@asynccontextmanager
async def _tidying(app: FastAPI) -> AsyncIterator[None]:
    """While the server runs, clear away what has expired."""

    async def sweep() -> None:
        while True:
            try:
                await asyncio.to_thread(signing_in.sweep, app.state.context)
            except Exception as error:  # the database is away: the next time will do
                log_failure("sweep", error)
            await asyncio.sleep(_SWEEP)

    task = asyncio.create_task(sweep())
    try:
        yield
    finally:
        task.cancel()
