"""Everybody at once: 200 parties submit while 50 viewers look at the round, and every party gets its receipt."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from sqlalchemy import event

import rounds as releases
from equipoise._util.canonical import sha256_hex
from equipoise.protocol.receipts import Receipt
from equipoise.protocol.requests import sign_request
from equipoise_service.db import database as databases
from equipoise_service.rules import authentication, events, submissions
from equipoise_service.settings import Settings
from equipoise_service.web.app import create_app
from service.api.calls import URL
from service.world import World, agreement, key_of, signed

PARTIES, VIEWERS = 200, 50


@pytest.mark.slow
def test_two_hundred_submissions_and_fifty_viewers_end_in_two_hundred_receipts(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody tries again, and the disk is so slow that the last of the 40 who write waits longer than for a lock."""
    monkeypatch.setattr(databases, "LOCK_TIMEOUT_S", 2)
    world = World.on(tmp_path / "service", database_url)
    names = [f"party{number:03}" for number in range(PARTIES)]
    agreed = agreement(parties=[{"name": name} for name in names])
    for name in names:
        world.joined(name)
    viewers = [world.joined(f"viewer{number:02}", role="auditor") for number in range(VIEWERS)]
    [released, *_] = releases.submissions(releases.agreement("gaussian", 1), tmp_path / "ledgers", (1.0,))
    round_id = world.round(agreed)
    target = f"/v1/rounds/{round_id}/submission"
    app = create_app(world.context, Settings(public_url=URL))
    looks: Counter[int] = Counter()
    over = asyncio.Event()
    event.listen(world.context.database._engine, "commit", lambda _connection: time.sleep(0.05))

    async def submit(name: str) -> httpx.Response:
        one = signed(released, key_of(name), party=name, agreement=agreed.identity, id=sha256_hex(name.encode()))
        body, moment = one.to_json(), world.clock.now // 1000
        audience = world.context.public_key
        headers = sign_request(key_of(name), audience=audience, method="PUT", target=target, body=body, time=moment)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app, client=(name, 1)), base_url=URL) as client:
            return await client.put(target, content=body, headers=headers)

    async def look(session: str) -> None:
        transport = httpx.ASGITransport(app, client=(session, 1))
        async with httpx.AsyncClient(
            transport=transport, base_url=URL, cookies={"equipoise_session": session}
        ) as client:
            while not over.is_set():
                looks[(await client.get(f"/rounds/{round_id}")).status_code] += 1

    async def main() -> list[httpx.Response]:
        sessions = [authentication.start_session(world.context, viewer) for viewer in viewers]
        watching = [asyncio.create_task(look(session)) for session in sessions]
        answers = await asyncio.gather(*map(submit, names))
        over.set()
        await asyncio.gather(*watching)
        return answers

    answers = asyncio.run(main())
    assert Counter(answer.status_code for answer in answers) == {201: PARTIES}
    receipts = {Receipt.parse(answer.content) for answer in answers}
    assert {one.party for one in receipts} == set(names)
    assert receipts == set(submissions.receipts(world.context, world.operator, round_id))
    assert set(looks) == {200}
    assert looks.total() >= VIEWERS
    events.verify_chain(world.context)
    world.context.close()
