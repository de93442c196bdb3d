"""The HTTP API, version 1: one module for each thing that can be asked about, one router of them all."""

from fastapi import APIRouter

from equipoise.service.web.api import (
    documentation,
    events,
    people,
    results,
    rounds,
    service,
    settlements,
    sign_in,
    submissions,
)

__all__ = ["router"]

router = APIRouter()
for _part in (service, people, sign_in, rounds, submissions, settlements, results, events, documentation):
    router.include_router(_part.router)
