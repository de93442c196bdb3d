"""Which service this is, and whether it works: the two things that anyone may ask."""

from fastapi import Request

from equipoise._version import __version__
from equipoise.protocol.public_keys import fingerprint
from equipoise.service.web.api.routes import answers, new_router
from equipoise.service.web.api.shapes import Health, ServiceShape
from equipoise.service.web.auth import context_of

router = new_router("service")


@router.get("/service", responses=answers())
def service(request: Request) -> ServiceShape:
    """Name, version, public key and time of this service. Compare the fingerprint with what the operator told you."""
    context = context_of(request)
    return ServiceShape(
        version=__version__,
        public_key=context.audience,
        fingerprint=fingerprint(context.audience),
        time=context.clock(),
    )


@router.get("/health", responses=answers())
async def health(request: Request) -> Health:
    """Whether the service works: 503, with the reason, while its database is away or cannot be written."""
    await request.app.state.health.check()
    return Health()
