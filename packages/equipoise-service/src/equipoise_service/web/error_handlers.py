"""Exception handlers: errors of the API as {"error": {"code": …, "message": …}}, those of pages as pages.

Only a rule's own message repeats what a client sent, because that may be a secret. The answer to an unexpected error
holds a reference into the log; traces never leave the server.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from equipoise.errors import (
    AgreementError,
    EquipoiseError,
    MediationError,
    PrivacyError,
    SubmissionError,
    VerificationError,
)
from equipoise_service.errors import RateLimited, Refusal
from equipoise_service.logs import log_failure
from equipoise_service.rules.access import NO_ROUND
from equipoise_service.web.pages.rendering import error_page

# Errors that a client's file or signature can cause below the rules.
_STATUS: dict[type[EquipoiseError], tuple[int, str]] = {
    VerificationError: (401, "not-signed-in"),
    AgreementError: (422, "agreement"),
    SubmissionError: (422, "submission"),
    PrivacyError: (422, "privacy"),
    MediationError: (422, "settlement"),
}
MAX_REPORTED = 5


def json_error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as a JSON response."""
    content = json.dumps({"error": {"code": code, "message": message}}, ensure_ascii=True)
    return Response(content, status, headers=dict(headers or {}), media_type="application/json")


def refusal_response(error: EquipoiseError) -> Response | None:
    """Return a refusal as a JSON response, or None for an error that no client should be able to cause."""
    if isinstance(error, Refusal):
        headers = {}
        if isinstance(error, RateLimited):
            headers["Retry-After"] = str(error.seconds)
        elif error.status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers["Retry-After"] = "5"
        elif error.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = 'Bearer realm="equipoise"'
        return json_error(error.status, error.code, str(error), headers)
    for kind, (status, code) in _STATUS.items():
        if isinstance(error, kind):
            headers = {"WWW-Authenticate": 'Bearer realm="equipoise"'} if status == HTTPStatus.UNAUTHORIZED else {}
            return json_error(status, code, str(error), headers)
    return None


def add_exception_handlers(app: FastAPI) -> None:
    """Register handlers that answer all errors of the app in the same format."""
    app.add_exception_handler(EquipoiseError, _on_refusal)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http)


def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, EquipoiseError)
    response = refusal_response(error)
    if response is None:
        raise error
    return response if _is_api(request) else error_page(request, response.status_code, str(error))


def _on_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = error.errors()
    # A malformed id gets the same answer as that of a round that does not exist.
    if any(problem["loc"][:2] == ("path", "round") for problem in problems):
        return error_response(request, 404, "not-found", NO_ROUND)
    return error_response(request, 422, "invalid", "; ".join(map(_describe, problems[:MAX_REPORTED])))


def _describe(problem: Mapping[str, Any]) -> str:
    """Name the wrong field and the reason, without repeating what was sent."""
    field = ".".join(str(part) for part in problem["loc"][1:]) or str(problem["loc"][0])
    reason = problem.get("ctx", {}).get("error", "") if problem["type"] == "json_invalid" else problem["msg"]
    return f"{field[:200]}: {reason}"


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = _list_methods(request)
        message = f"{request.method[:20]} is not understood at this address, but {allowed}"
        return error_response(request, 405, "method", message, {"Allow": allowed})
    words = {404: ("not-found", "there is nothing at this address; /v1/docs lists what programs can ask for")}
    code, message = words.get(error.status_code, ("refused", HTTPStatus(error.status_code).phrase))
    return error_response(request, error.status_code, code, message, error.headers)


def _list_methods(request: Request) -> str:
    """List all methods of a path. FastAPI lists only those of the first route, and each of our routes has one."""
    methods: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(methods))


def error_response(
    request: Request, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as JSON for the API, as a page for a browser."""
    if _is_api(request):
        return json_error(status, code, message, headers)
    response = error_page(request, status, message)
    response.headers.update(headers or {})
    return response


def server_error(request: Request, message: str) -> Response:
    """Return the response to an unexpected failure, as JSON if rendering a page fails, too."""
    try:
        return error_response(request, 500, "unexpected", message)
    except Exception as error:
        log_failure(request.state.request_id, error)
        return json_error(500, "unexpected", message)


def _is_api(request: Request) -> bool:
    return request.url.path.startswith("/v1/")
