"""What goes wrong, as a page in the same look: the message and the way on, never a trace."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from equipoise.service.errors import Invalid, Refusal
from equipoise.service.web.pages.visitors import Visitor

TITLES = {
    401: "Please sign in",
    403: "This is not for you",
    404: "There is nothing here",
    405: "This is not how it works",
    409: "This cannot be done now",
    413: "This is too large",
    422: "Something is not right yet",
    429: "Slow down, please",
    503: "The service cannot answer just now",
}
WAITS = {429: 1, 503: 5}  # seconds until it is worth another try


class PageRoute(APIRoute):
    """A route whose refusals are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handler(request)
            except Refusal as refusal:
                answer = problem_page(request, refusal.status, str(refusal))
                if refusal.status in WAITS:
                    answer.headers["Retry-After"] = str(getattr(refusal, "seconds", WAITS[refusal.status]))
                return answer
            except RequestValidationError:
                words = "The address holds something that cannot be read; go back and choose again."
                return problem_page(request, Invalid.status, words)

        return handled


def problem_page(request: Request, status: int, message: str) -> Response:
    """A page that says what is wrong. It asks no database: that may be what is wrong."""
    from equipoise.service.web.pages.rendering import page

    visitor = getattr(request.state, "visitor", Visitor())
    title = TITLES.get(status) or HTTPStatus(status).phrase
    return page(request, "problem.html", visitor, status=status, title=title, message=message, number=status)
