"""The HTTP API, version 1."""

from fastapi import APIRouter

from equipoise.service.web.api import people, results, rounds, service

__all__ = ["router"]

router = APIRouter()
for _part in (
    service.router,
    people.router,
    people.sign_in_router,
    rounds.router,
    rounds.submission_router,
    rounds.settlement_router,
    results.router,
    results.event_router,
    service.docs_router,
):
    router.include_router(_part)
