"""Routers that parse bodies strictly, and that declare all their responses."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from equipoise._util.canonical import StrictJSONError, strict_json
from equipoise.errors import EquipoiseError
from equipoise.models.guarantee import MAX_STATISTIC_LENGTH
from equipoise.protocol.submission import max_submission_bytes
from equipoise_service.errors import UnsupportedMediaType
from equipoise_service.web.api.schemas import Problem
from equipoise_service.web.auth import authenticate, authenticators_of, check_head
from equipoise_service.web.middleware import check_length, content_length, has_body

# Bytes. Longer bodies are parsed in a thread, so that other requests need not wait.
_LARGE = 2**16

# An agreement can have 10,000 parties.
_MAX_BYTES = 2**16  # bytes
_MAX_BYTES_OF = {
    ("POST", "/v1/people"): 2**13,  # strangers may send this
    ("POST", "/v1/operators"): 2**13,
    ("POST", "/v1/rounds"): 2 * 2**20,
    ("PUT", "/v1/rounds/{round}/submission"): max_submission_bytes(MAX_STATISTIC_LENGTH),
}

# Every route can answer with these.
_ALWAYS = {
    408: "The body came too slowly.",
    413: "The body is too large.",
    421: "The Host header names another service.",
    422: "Something in the request is not what it should be; the message says what.",
    429: "Too many requests; Retry-After says for how long to wait.",
    500: "The database was lost while it was written: this may have been done or not. Look first.",
    503: "The service or its database is busy or away; try again after Retry-After.",
}
_SOMETIMES = {
    401: "Nobody is signed in: no signature or token, or it does not count.",
    403: "Who is signed in may not do this.",
    404: "It is not there, or not for who is asking.",
    409: "It contradicts what is there: sent before, decided before, or not the time for it.",
    415: "The body is not of the content type that is taken.",
    500: "What is kept is not what was decided, so that it is not handed out.",
}

Responses = dict[int | str, dict[str, Any]]


def error_responses(*statuses: int) -> Responses:
    """Return the documentation of the errors of a route, including the errors that all routes share."""
    # A signed request may be a replay, which is refused with 409.
    known = {*statuses, 409} if 401 in statuses else statuses
    words = {**_ALWAYS, **{status: _SOMETIMES[status] for status in known}}
    return {status: {"model": Problem, "description": words[status]} for status in sorted(words)}


def json_response(content: BaseModel) -> Response:
    """Return a model as a JSON response, without the second validation that FastAPI would run in a thread."""
    return Response(content.model_dump_json(), media_type="application/json")


def file(media_type: str, description: str) -> dict[str, Any]:
    """Return the documentation of a response that is a file."""
    schema = {"type": "string"} if media_type.startswith("text/") else {"type": "string", "format": "binary"}
    return {"description": description, "content": {media_type: {"schema": schema}}}


class _StrictRequest(Request):
    async def json(self) -> Any:
        data = await self.body()
        try:
            if len(data) > _LARGE:
                return await run_in_threadpool(strict_json, data, one_number_type=True)
            return strict_json(data, one_number_type=True)
        except StrictJSONError as error:
            # FastAPI handles this error.
            raise json.JSONDecodeError(str(error), "", 0) from error


class StrictRoute(APIRoute):
    """A route that accepts JSON without repeated keys, NaN or deep nesting, with the content type of JSON only."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, preceded by authentication and with strict parsing of the body."""
        handler = super().get_route_handler()
        takes_json, authenticators = self.body_field is not None, authenticators_of(self.dependant)
        largest = max(_MAX_BYTES_OF.get((method, self.path), _MAX_BYTES) for method in self.methods or ())

        async def handle(request: Request) -> Response:
            """Check the head before reading the body, then verify the raw body before FastAPI parses it."""
            strict = _StrictRequest(request.scope, request.receive)
            request.state.max_body = min(largest, request.state.max_body)
            if has_body(request.scope):
                length = content_length(request.scope)
                check_length(request.scope, length)
                sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                try:
                    await run_in_threadpool(check_head, request, authenticators)
                    if takes_json and sent != "application/json":
                        raise UnsupportedMediaType("send JSON, with the header Content-Type: application/json")
                except EquipoiseError:
                    if length is not None and length <= _LARGE:
                        # A client that is still sending its body would not read the answer.
                        await strict.body()
                    raise
            request.state.body = await strict.body()
            await run_in_threadpool(authenticate, request, authenticators)
            return await handler(strict)

        return handle


def new_router(tag: str) -> APIRouter:
    """Create a router for one part of the API."""
    return APIRouter(prefix="/v1", route_class=StrictRoute, tags=[tag])
