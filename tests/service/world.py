"""Small services for tests: an operator, an auditor and three parties with keys that are the same in every run.

Submissions are the same too, so that one settlement, made once for each run of the tests, fits them all.
"""

import os
import shutil
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import rounds as releases
import run_folder
from equipoise._util.canonical import sha256_hex
from equipoise.agreement import Agreement
from equipoise.protocol.keys import fingerprint, public_hex
from equipoise.protocol.requests import SignedRequest, sign_request
from equipoise.protocol.submission import Submission
from equipoise_service.context import Context
from equipoise_service.options import Options
from equipoise_service.rules import authentication, people, results, rounds, settlements, submissions
from equipoise_service.rules.access import Actor

if TYPE_CHECKING:
    from equipoise.mediation.settlement import Settlement

PARTIES = ("north", "south", "west")
EPSILONS = (8.0, 2.0, 0.5)
OPTIONS = Options(draws=1_000, precision=0.2)


def key_of(name: str) -> Ed25519PrivateKey:
    """Somebody's key."""
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(sha256_hex(name.encode())))


def agreement(**changes: Any) -> Agreement:
    """Among the three parties, about a mean and a variance."""
    document = releases.agreement("gaussian", len(PARTIES)).model_dump(mode="json")
    return Agreement.model_validate({**document, "title": "Three clinics", **changes})


def signed(submission: Submission, key: Ed25519PrivateKey, **changes: Any) -> Submission:
    """A submission with changes, signed by a key."""
    changed = submission.model_copy(update={"public_key": public_hex(key), **changes})
    return changed.model_copy(update={"signature": key.sign(changed.signed_bytes()).hex()})


@lru_cache
def _released() -> list[Submission]:
    return releases.submissions(agreement(), run_folder.path() / f"ledgers-{os.getpid()}", EPSILONS)


@lru_cache
def sent(agreed: Agreement | None = None) -> dict[str, bytes]:
    """What the three parties submit, signed with their keys, under an agreement on the same model."""
    identity = (agreed or agreement()).identity
    return {
        one.party: signed(
            one,
            key_of(one.party),
            agreement=identity,
            id=sha256_hex(f"{one.party}'s release under {identity}".encode()),
        ).to_json()
        for one in _released()
    }


@lru_cache
def settled() -> tuple["Settlement", dict[str, bytes]]:
    """The settlement of what they submit, and its files; one process makes it, the others of this run read it."""
    from equipoise.mediation import mediator
    from equipoise.mediation.settlement import Settlement

    def settle(folder: Path) -> None:
        options = OPTIONS.model_dump(exclude={"force", "without"})
        submissions = [Submission.parse(one) for one in sent().values()]
        made = mediator.mediate(agreement(), submissions, processes=1, **options)
        for name, content in results.result_files(made).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    place = run_folder.once("service-round", settle)
    found = Settlement.load(place)
    files = {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*.*"))}
    return found, files


@dataclass
class Clock:
    """A clock that is set by hand, in milliseconds."""

    now: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


@lru_cache
def _template() -> Path:
    folder = run_folder.path() / f"service-{os.getpid()}"
    World._create(folder, None).context.close()
    return folder


@dataclass
class World:
    """A service with people in it."""

    context: Context
    clock: Clock
    operator: Actor
    auditor: Actor
    parties: dict[str, Actor] = field(default_factory=dict)

    @classmethod
    def on(cls, folder: Path, url: str | None = None) -> "World":
        """A new service, with everybody approved; on SQLite a copy of one that is made once."""
        if url is not None:
            return cls._create(folder, url)
        shutil.copytree(_template(), folder)
        return cls._found(folder)

    @classmethod
    def _create(cls, folder: Path, url: str | None) -> "World":
        clock = Clock()
        context = Context.open(folder, url, clock=clock)
        secret = people.first_operator_secret(context)
        operator = people.claim_first_operator(context, secret, name="olga", public_key=public_hex(key_of("olga")))
        world = cls(context, clock, operator, operator)
        world.auditor = world.joined("ada", role="auditor")
        world.parties = {name: world.joined(name) for name in PARTIES}
        return world

    @classmethod
    def _found(cls, folder: Path) -> "World":
        clock = Clock()
        context = Context.open(folder, clock=clock)
        actors = {
            name: authentication.actor_of_key(context, public_hex(key_of(name))) for name in ("olga", "ada", *PARTIES)
        }
        return cls(context, clock, actors.pop("olga"), actors.pop("ada"), actors)

    def joined(self, name: str, *, role: str = "party", key: Ed25519PrivateKey | None = None) -> Actor:
        """Somebody who asked and was approved."""
        public_key = public_hex(key or key_of(name))
        asked = people.ask_to_join(self.context, name=name, role=role, public_key=public_key)
        people.decide(self.context, self.operator, asked.id, approve=True, fingerprint=fingerprint(public_key))
        return authentication.actor_of_key(self.context, public_key)

    def round(self, agreed: Agreement | None = None, *, submitted: bool = False) -> str:
        """A new round, with everybody's submission if wanted."""
        agreed = agreed or agreement()
        round_id = rounds.create(self.context, self.operator, agreed)
        if submitted:
            for name, actor in self.parties.items():
                submissions.accept(self.context, actor, round_id, sent(agreed)[name])
        return round_id

    def settled_round(self) -> str:
        """A round that is settled, by the settlement that was made once."""
        round_id = self.round(submitted=True)
        self.settle(round_id)
        return round_id

    def settle(self, round_id: str) -> None:
        """Start a settlement and end it as a worker would."""
        settlements.start(self.context, self.operator, round_id, OPTIONS)
        settlement, files = settled()
        with self.context.database.writing(exclusive=True) as session:
            results.store(session, self.context, round_id, settlement, files=files)

    def request(self, name: str, *, method: str = "GET", target: str = "/v1/me", body: bytes = b"") -> SignedRequest:
        """A request signed by somebody, now."""
        headers = sign_request(
            key_of(name),
            audience=self.context.public_key,
            method=method,
            target=target,
            body=body,
            time=self.clock.now // 1000,
        )
        found = SignedRequest.of(headers)
        assert found is not None
        return found
