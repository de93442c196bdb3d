"""Every error of the API as one JSON shape: {"error": {"code": …, "message": …}}; those of pages as pages.

Nothing that a sender wrote is repeated (it may be a secret) except where a rule's own message names it, and what nobody
foresaw is a reference into the log: a trace never leaves the server.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equipoise.errors import (
    AgreementError,
    EquipoiseError,
    MediationError,
    PrivacyError,
    SubmissionError,
    VerificationError,
)
from equipoise.service.errors import Refusal, TooMany
from equipoise.service.logs import log_failure
from equipoise.service.rules.access import NO_ROUND
from equipoise.service.web.pages.problems import problem_page

# What a sender's file or signature can raise below the rules.
_STATUS: dict[type[EquipoiseError], tuple[int, str]] = {
    VerificationError: (401, "not-signed-in"),
    AgreementError: (422, "agreement"),
    SubmissionError: (422, "submission"),
    PrivacyError: (422, "privacy"),
    MediationError: (422, "settlement"),
}
MOST_MISTAKES = 5


class SlowDown(TooMany):
    """Too many requests; `seconds` until one will be answered."""

    code = "too-many-requests"

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, int(seconds) + 1)
        super().__init__(f"too many requests; try again in {self.seconds} s")


def problem(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error as a response."""
    content = json.dumps({"error": {"code": code, "message": message}}, ensure_ascii=True)
    return Response(content, status, headers=dict(headers or {}), media_type="application/json")


def refused(error: EquipoiseError) -> Response | None:
    """What was refused, as a response; None for an error that no sender should be able to cause."""
    if isinstance(error, Refusal):
        headers = {}
        if isinstance(error, SlowDown):
            headers["Retry-After"] = str(error.seconds)
        elif error.status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers["Retry-After"] = "5"
        elif error.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = 'Bearer realm="equipoise"'
        return problem(error.status, error.code, str(error), headers)
    for kind, (status, code) in _STATUS.items():
        if isinstance(error, kind):
            headers = {"WWW-Authenticate": 'Bearer realm="equipoise"'} if status == HTTPStatus.UNAUTHORIZED else {}
            return problem(status, code, str(error), headers)
    return None


def add_problems(app: FastAPI) -> None:
    """Answer what the app raises in the one shape."""
    app.add_exception_handler(EquipoiseError, _on_refusal)
    app.add_exception_handler(RequestValidationError, _on_mistakes)
    app.add_exception_handler(HTTPException, _on_http)


class Unforeseen:
    """ASGI: whatever else is raised becomes a reference that the log has too."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = False

        async def sending(message: Message) -> None:
            nonlocal began
            began = began or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception as error:
            reference = scope["state"]["request_id"]
            log_failure(reference, error)
            if began:
                raise ConnectionAbortedError(f"the response broke off; reference {reference}") from None
            message = f"the service failed unexpectedly; tell its operator the reference {reference}"
            await _last_word(Request(scope), message)(scope, receive, send)


def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, EquipoiseError)
    response = refused(error)
    if response is None:
        raise error
    return response if _is_api(request) else problem_page(request, response.status_code, str(error))


def _on_mistakes(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    if any(one["loc"][:2] == ("path", "round") for one in error.errors()):
        return _shown(request, 404, "not-found", NO_ROUND)  # as of any other round that is not there
    mistakes = [_mistake(one) for one in error.errors()[:MOST_MISTAKES]]
    return _shown(request, 422, "invalid", "; ".join(mistakes))


def _mistake(found: Mapping[str, Any]) -> str:
    """Where, and what is wrong; never what was sent."""
    place = ".".join(str(part) for part in found["loc"][1:]) or str(found["loc"][0])
    reason = found.get("ctx", {}).get("error", "") if found["type"] == "json_invalid" else found["msg"]
    return f"{place[:200]}: {reason}"


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {
        404: ("not-found", "there is nothing at this address; /v1/docs lists what programs can ask for"),
        405: ("method", f"{request.method[:20]} is not understood at this address"),
    }
    code, message = words.get(error.status_code, ("refused", HTTPStatus(error.status_code).phrase))
    return _shown(request, error.status_code, code, message, error.headers)


def _shown(
    request: Request, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    if _is_api(request):
        return problem(status, code, message, headers)
    response = problem_page(request, status, message)
    response.headers.update(headers or {})
    return response


def _last_word(request: Request, message: str) -> Response:
    """What can always be said, even if it is the pages that are broken."""
    try:
        return _shown(request, 500, "unexpected", message)
    except Exception as error:
        log_failure(request.state.request_id, error)
        return problem(500, "unexpected", message)


def _is_api(request: Request) -> bool:
    return request.url.path.startswith("/v1/")
