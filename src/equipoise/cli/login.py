"""`equipoise login`: a link that signs one's browser in, once."""

import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from equipoise.cli.options import JsonOption, MembershipOption
from equipoise.cli.output import echo, print_json
from equipoise.client.address import is_loopback
from equipoise.client.membership import Membership
from equipoise.client.service_round import connect
from equipoise.errors import ServiceError


def login(
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    membership: MembershipOption = Path("equipoise.json"),
    as_json: JsonOption = False,
) -> None:
    """Print a link that signs your browser in, once, within ten minutes.

    Example: equipoise login --open
    """
    with connect(Membership.load(membership)) as connection:
        found = connection.post("/v1/sign-in", {}, repeatable=True)
    link, parts = str(found["url"]), urlsplit(str(found["url"]))
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise ServiceError(
            f"the service gives its address as {parts.scheme}://{parts.netloc}, to which a browser would send your "
            "session in the clear; tell its operator (--public-url)"
        )
    if as_json:
        print_json({"url": link, "expires": found["expires"]})
    else:
        echo(link)
    if open_:
        webbrowser.open(link)
