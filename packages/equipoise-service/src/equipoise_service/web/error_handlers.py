"""Exception handlers: errors of the API as {"error": {"code": …, "message": …}}, those of pages as pages.

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

# What a sender's file or signature can raise below the rules.
_STATUS: dict[type[EquipoiseError], tuple[int, str]] = {
    VerificationError: (401, "not-signed-in"),
    AgreementError: (422, "agreement"),
    SubmissionError: (422, "submission"),
    PrivacyError: (422, "privacy"),
    MediationError: (422, "settlement"),
}
MAX_REPORTED = 5


def json_error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error as a JSON response."""
    content = json.dumps({"error": {"code": code, "message": message}}, ensure_ascii=True)
    return Response(content, status, headers=dict(headers or {}), media_type="application/json")


def refusal_response(error: EquipoiseError) -> Response | None:
    """What was refused as a JSON response; None for an error that no sender should be able to cause."""
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
    """Have whatever the app raises answered in the one shape."""
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
    if any(one["loc"][:2] == ("path", "round") for one in error.errors()):
        return error_response(request, 404, "not-found", NO_ROUND)  # as of any other round that is not there
    found = [_describe(one) for one in error.errors()[:MAX_REPORTED]]
    return error_response(request, 422, "invalid", "; ".join(found))


def _describe(found: Mapping[str, Any]) -> str:
    """Which field is wrong and why; never what was sent."""
    place = ".".join(str(part) for part in found["loc"][1:]) or str(found["loc"][0])
    reason = found.get("ctx", {}).get("error", "") if found["type"] == "json_invalid" else found["msg"]
    return f"{place[:200]}: {reason}"


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
    """List all methods of a path. The framework names those of the first route alone, and each route here has one."""
    methods: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(methods))


def error_response(
    request: Request, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An error as JSON to a program, as a page to a browser."""
    if _is_api(request):
        return json_error(status, code, message, headers)
    response = error_page(request, status, message)
    response.headers.update(headers or {})
    return response


def server_error(request: Request, message: str) -> Response:
    """The response to a failure that nobody foresaw; as JSON if it is the pages that are broken."""
    try:
        return error_response(request, 500, "unexpected", message)
    except Exception as error:
        log_failure(request.state.request_id, error)
        return json_error(500, "unexpected", message)


def _is_api(request: Request) -> bool:
    return request.url.path.startswith("/v1/")
