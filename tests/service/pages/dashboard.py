"""A service with people and rounds in it, and a browser without JavaScript to look at it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlencode

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi import FastAPI
from fastapi.routing import APIRoute

import equipoise as eq
import rounds as simulated
from equipoise.mediation.settlement import Settlement
from equipoise.party.release import release
from equipoise.protocol.keys import public_hex
from equipoise_service.context import Context
from equipoise_service.rules import authentication, people, rounds, submissions
from equipoise_service.rules.access import Actor
from equipoise_service.settings import Settings
from equipoise_service.web.app import create_app

ADDRESS = "http://127.0.0.1:8351"
HOSTILE = "<script>alert('x')</script> & \"Sons\""
# Recognisable wherever they appear.
EPSILONS = {"north": 7.717, "south": 2.313, "west": 0.613}
ROWS = {"north": 3111, "south": 2222, "west": 1733}


@dataclass
class World:
    """A service and its people."""

    context: Context
    app: FastAPI
    actors: dict[str, Actor] = field(default_factory=dict)

    def joins(self, name: str, role: str = "party", *, key: str | None = None, note: str = "") -> people.PersonView:
        return people.ask_to_join(
            self.context,
            name=name,
            role=role,
            public_key=key or public_hex(Ed25519PrivateKey.generate()),
            note=note,
        )

    def member(self, name: str, role: str = "party", *, key: str | None = None) -> Actor:
        view = self.joins(name, role, key=key)
        people.decide(self.context, self.actors["operator"], view.id, approve=True, fingerprint=str(view.fingerprint))
        self.actors[name] = Actor(view.id, name, role, view.public_key)
        return self.actors[name]

    def browser(self, name: str | None = None) -> "Browser":
        """A browser, signed in as somebody if a name is given."""
        browser = Browser(self.app)
        if name is not None:
            secret = authentication.start_session(self.context, self.actors[name])
            browser.cookies.set("equipoise_session", secret, domain="127.0.0.1", path="/")
        return browser

    def round_with(self, sent: list[eq.Submission], agreed: eq.Agreement, *, invite: bool = True) -> str:
        """A round whose parties have joined and submitted."""
        made = rounds.create(self.context, self.actors["operator"], agreed, invite=invite)
        for one in sent:
            if one.party not in self.actors:
                self.member(one.party, key=one.public_key)
            submissions.accept(self.context, self.actors[one.party], made, one.to_json())
        return made


def world(folder: Path) -> World:
    """A service with an operator and an auditor."""
    context = Context.open(folder)
    made = World(context, create_app(context, Settings(public_url=ADDRESS)))
    secret = people.first_operator_secret(context)
    made.actors["operator"] = people.claim_first_operator(context, secret, name="operator")
    made.member("auditor", "auditor")
    return made


def agreement(kind: str, title: str = HOSTILE) -> eq.Agreement:
    """An agreement of three parties."""
    document = simulated.agreement(kind).model_dump(mode="json")
    return eq.Agreement.model_validate({**document, "title": title})


def sent(agreed: eq.Agreement, folder: Path, parties: tuple[str, ...] = tuple(EPSILONS)) -> list[eq.Submission]:
    """A release of each party, with noise that can be repeated."""
    folder.mkdir(parents=True, exist_ok=True)
    with mock.patch("equipoise.party.release.perturb", simulated.seeded(0)):
        return [
            release(
                agreed,
                simulated.table(agreed.model.kind, ROWS[party], number),
                party=party,
                epsilon=EPSILONS[party],
                ledger=folder / f"{party}.ledger",
            )
            for number, party in enumerate(parties)
        ]


def settle(made: World, round_id: str, settlement: Settlement) -> None:
    """Keep a settlement as a worker does."""
    from equipoise_service.options import Options
    from equipoise_service.rules import results, settlements

    settlements.start(made.context, made.actors["operator"], round_id, Options())
    with made.context.database.writing(exclusive=True) as session:
        results.store(session, made.context, round_id, settlement)


class Browser:
    """Keeps cookies, follows nothing, and sends forms as the page has them."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.cookies = httpx.Cookies()

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self._ask("GET", path, headers=headers)

    def post(self, path: str, form: dict[str, str], **headers: str) -> httpx.Response:
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self._ask("POST", path, content=urlencode(form), headers={"origin": ADDRESS, **kind, **headers})

    def fill(
        self,
        page: str,
        action: str,
        typed: Mapping[str, str] | None = None,
        *,
        where: Mapping[str, str] | None = None,
        **fields: str,
    ) -> httpx.Response:
        """Send the form of a page that goes to `action` and holds `where`, with hidden fields as they are."""
        forms = [one for one in parsed(self.get(page).text).forms if one["action"] == action]
        forms = [one for one in forms if (where or {}).items() <= one["fields"].items()]
        assert len(forms) == 1, forms
        return self.post(action, {**forms[0]["fields"], **(typed or {}), **fields})

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url=ADDRESS, cookies=self.cookies) as client:
                answer = await client.request(method, path, **options)
                self.cookies = httpx.Cookies(client.cookies)
                return answer

        return asyncio.run(ask())


class Page(HTMLParser):
    """What tests ask of a page."""

    VOID = frozenset({"meta", "link", "input", "br", "img", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.forms: list[dict[str, Any]] = []
        self.headings: list[int] = []
        self.text = ""
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append((tag, found))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "form":
            self.forms.append({**found, "fields": {}})
        if tag == "input" and self.forms and found.get("type") != "checkbox":
            self.forms[-1]["fields"][found["name"]] = found.get("value", "")
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [found for name, found in self.tags if name == tag]


def parsed(text: str) -> Page:
    """A page, whose tags must be balanced."""
    page = Page()
    page.feed(text)
    page.close()
    assert not page.wrong, page.wrong
    assert not page.open, page.open
    return page


def routes() -> list[APIRoute]:
    """All routes of the pages."""
    from equipoise_service.web.pages import events, home, party, people, rendering, rounds

    modules = (home, people, rounds, party, events, rendering)
    return [route for one in modules for route in one.router.routes if isinstance(route, APIRoute)]
