"""A page that lists the API, made here from its own description: nothing is fetched from anywhere."""

from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

router = APIRouter(prefix="/v1")


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> HTMLResponse:
    """The API for people to read."""
    return HTMLResponse(page(request.app.openapi()))


def page(document: dict[str, Any]) -> str:
    """An OpenAPI document as plain HTML."""
    info = document["info"]
    parts = [
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1"></head><body><main>',
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>",
        '<p>For programs: <a href="/v1/openapi.json">/v1/openapi.json</a></p><h2>Signing in</h2><dl>',
    ]
    for name, scheme in document["components"]["securitySchemes"].items():
        parts.append(f"<dt>{escape(name)}</dt><dd>{escape(scheme['description'])}</dd>")
    parts.append("</dl><h2>Requests</h2>")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(_operation(method, path, operation))
    return "\n".join([*parts, "</main></body></html>"])


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    ways = " or ".join(name for one in operation.get("security", ()) for name in one) or "nothing"
    listed = "".join(
        f"<li>{escape(status)}: {escape(answer['description'])}</li>"
        for status, answer in operation["responses"].items()
    )
    return (
        f"<section><h3><code>{method.upper()} {escape(path)}</code></h3><p>{escape(operation['description'])}</p>"
        f"<p>Needs: {escape(ways)}.</p><details><summary>Answers</summary><ul>{listed}</ul></details></section>"
    )
