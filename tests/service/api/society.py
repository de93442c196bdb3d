"""Everybody who could ask a service for something, and a round that was settled and one that is open."""

from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import equipoise as eq
import rounds as small
from equipoise.mediation.journal import FileJournal
from equipoise.party.release import release
from equipoise.protocol.keys import fingerprint, public_hex
from equipoise.protocol.submission import Submission
from equipoise_service.context import Context
from equipoise_service.options import Options
from equipoise_service.rules import authentication, people, results, rounds, settlements, submissions
from equipoise_service.rules.access import Actor
from equipoise_service.settings import Rate, Rates, Settings
from equipoise_service.web.app import create_app
from service.api.calls import URL, Caller, Key

KIND = "bernoulli"  # settled soonest
FAST = Rate(1e6, 10**6)
SETTINGS = Settings(public_url=URL, rates=Rates(FAST, FAST, FAST))
ROLES = {"north": "party", "south": "party", "west": "party", "anne": "auditor", "gone": "party"}


@dataclass(frozen=True)
class Society:
    """The service, who is known to it, and two rounds of north, south and west, to which west is not invited."""

    context: Context
    caller: Caller
    keys: dict[str, Key]
    tokens: dict[str, str]
    agreement: eq.Agreement
    submissions: dict[str, bytes]
    settled: str
    open: str
    waiting: int  # a person who asked to join

    def actor(self, name: str) -> Actor:
        return authentication.actor_of_key(self.context, self.keys[name].public)

    def audience(self) -> str:
        return self.context.public_key


def society(folder: Path, *, mechanism: str = "noise") -> Society:
    """Make one, with a settlement that takes seconds."""
    context = Context.open(folder / "data")
    keys = {name: Key.new(folder / f"{name}.key") for name in (*ROLES, "olga", "newcomer")}
    secret = people.first_operator_secret(context)
    operator = people.claim_first_operator(context, secret, name="olga", public_key=keys["olga"].public)
    for name, role in ROLES.items():
        join(context, operator, name, role, keys[name])
    waiting = people.ask_to_join(context, name="newcomer", role="party", public_key=keys["newcomer"].public)
    tokens = {
        name: authentication.new_token(context, authentication.actor_of_key(context, keys[name].public))[0]
        for name in (*ROLES, "olga")
    }
    people.revoke(context, operator, authentication.actor_of_key(context, keys["gone"].public).person_id)
    agreement = small.agreement(KIND, reward=f'mechanism = "{mechanism}"')
    made = {name: submission(agreement, name, keys[name], folder) for name in ("north", "south")}
    settled = new_round(context, operator, agreement)
    for name, sent in made.items():
        submissions.accept(context, authentication.actor_of_key(context, keys[name].public), settled, sent)
    settlements.start(context, operator, settled, Options(draws=500, precision=1.0))
    settle(context, settled)
    return Society(
        context=context,
        caller=Caller(create_app(context, SETTINGS)),
        keys=keys,
        tokens=tokens,
        agreement=agreement,
        submissions=made,
        settled=settled,
        open=new_round(context, operator, agreement),
        waiting=waiting.id,
    )


def join(context: Context, operator: Actor, name: str, role: str, key: Key) -> None:
    """Somebody asks, and is approved."""
    asked = people.ask_to_join(context, name=name, role=role, public_key=key.public)
    people.decide(context, operator, asked.id, approve=True, fingerprint=fingerprint(public_hex(key.private)))


def new_round(context: Context, operator: Actor, agreement: eq.Agreement) -> str:
    """One to which the last party of the agreement is not invited."""
    made = rounds.create(context, operator, agreement, invite=False)
    for party in agreement.party_names[:-1]:
        rounds.invite(context, operator, made, party)
    return made


def submission(agreement: eq.Agreement, party: str, key: Key, folder: Path) -> bytes:
    """A release of simulated rows, with noise that is the same in every run."""
    with mock.patch("equipoise.party.release.perturb", small.seeded(len(party))):
        made: Submission = release(
            agreement,
            small.table(KIND, 200, len(party)),
            party=party,
            epsilon=4.0,
            ledger=folder / f"{party}-{agreement.identity[:8]}.ledger",
            key=key.path,
        )
    return made.to_json()


def settle(context: Context, round_id: str) -> None:
    """Do what a worker does, without one."""
    from equipoise.mediation.mediator import settle as mediated

    task = settlements.task_for(context, round_id)
    with FileJournal(None, task.inputs_digest) as journal:
        made = mediated(task, journal, processes=1, progress=False)
    with context.database.writing(exclusive=True) as session:
        results.store(session, context, round_id, made)
