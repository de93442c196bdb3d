"""Style sheet and script, under addresses that change with their content, so that browsers may keep them for good."""

from functools import cache
from importlib import resources

from fastapi import APIRouter, Response

from equipoise._util.canonical import sha256_hex
from equipoise.service.errors import NotFound
from equipoise.service.web.pages.problems import PageRoute

router = APIRouter(route_class=PageRoute)

KINDS = {"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}
HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


@cache
def content(name: str) -> bytes:
    """A file as it is sent. The style sheet is followed by the report's, which pages show parts of."""
    text = (resources.files("equipoise.service.web") / "static" / name).read_text(encoding="utf-8")
    if name == "style.css":
        from equipoise.report import style_sheet

        text += style_sheet()
    return text.encode()


@cache
def address(name: str) -> str:
    """Where a page finds a file."""
    stem, ending = name.rsplit(".", 1)
    return f"/static/{stem}.{sha256_hex(content(name))[:16]}.{ending}"


@router.api_route("/static/{file}", methods=["GET", "HEAD"])
def static(file: str) -> Response:
    """One of the files."""
    for name, kind in KINDS.items():
        if address(name) == f"/static/{file}":
            return Response(content(name), media_type=kind, headers=HEADERS)
    raise NotFound(f"there is no file {file!r} here; load the page again")
