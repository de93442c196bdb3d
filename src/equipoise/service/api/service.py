"""Which service this is, and whether it works: the two things that anyone may ask."""

from fastapi import Request
from sqlalchemy import text

from equipoise._version import __version__
from equipoise.protocol.public_keys import fingerprint
from equipoise.service.api.routes import answers, new_router
from equipoise.service.api.shapes import Health, ServiceShape
from equipoise.service.authentication import context_of

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
def health(request: Request) -> Health:
    """Whether the service can answer: 503 while its database is away."""
    with context_of(request).database.reading() as session:
        session.execute(text("SELECT 1"))
    return Health()
