"""Requests to an app in this process, made by hand: every byte of a request is the test's to choose."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi import FastAPI

from equipoise.protocol.keys import create_key, public_hex
from equipoise.protocol.requests import sign_request

HOST = "rounds.test"
URL = f"http://{HOST}"


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


@dataclass(frozen=True)
class Key:
    """Somebody's key, and the file it is in."""

    private: Ed25519PrivateKey
    path: Path

    @classmethod
    def new(cls, path: Path) -> "Key":
        return cls(create_key(path), path)

    @property
    def public(self) -> str:
        return public_hex(self.private)

    def headers(
        self, audience: str, method: str, target: str, body: bytes = b"", *, at: int | None = None
    ) -> dict[str, str]:
        moment = int(time.time()) if at is None else at
        return sign_request(self.private, audience=audience, method=method, target=target, body=body, time=moment)


class Caller:
    """Sends requests; `close` it."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.runner = asyncio.Runner()

    def close(self) -> None:
        self.runner.close()

    def call(
        self,
        method: str,
        target: str,
        body: Any = b"",
        *,
        key: Key | None = None,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        raw_headers: Sequence[tuple[bytes, bytes]] | None = None,
        client: str = "192.0.2.1",
    ) -> Answer:
        """One request; a body that is not bytes is sent as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"host": HOST} | ({} if isinstance(body, bytes) else {"content-type": "application/json"})
        if content:
            sent["content-length"] = str(len(content))
        if key is not None:
            sent |= key.headers(self.app.state.context.public_key, method, target, content)
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        sent |= headers or {}
        pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()]
        chunks = [{"type": "http.request", "body": content, "more_body": False}]
        return self.raw(method, target, pairs if raw_headers is None else list(raw_headers), chunks, client=client)

    def raw(
        self,
        method: str,
        target: str,
        headers: list[tuple[bytes, bytes]],
        messages: list[dict[str, Any]],
        *,
        client: str = "192.0.2.1",
    ) -> Answer:
        """A request whose body comes in these messages; after them, nothing comes any more."""
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "root_path": "",
            "headers": headers,
            "client": (client, 50_000),
            "server": ("127.0.0.1", 80),
        }
        return self.runner.run(self._answer(scope, list(messages)))

    async def _answer(self, scope: dict[str, Any], messages: list[dict[str, Any]]) -> Answer:
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop(0) if messages else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], headers, b"".join(one.get("body", b"") for one in sent[1:]))
