"""A round by way of a service.

The service may be hostile, or of another version: what it answers is checked before any of it is used.
"""

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, ValidationError

from equipoise._util.canonical import sha256_hex
from equipoise._util.files import exists
from equipoise.agreement import Agreement
from equipoise.client.connection import Connection, RefusedError
from equipoise.client.membership import Membership
from equipoise.client.round import Progress, RoundStatus, Status
from equipoise.errors import AgreementError, KeyFileError, ServiceError, VerificationError
from equipoise.protocol.keys import fingerprint, load_key, public_hex
from equipoise.protocol.log import LINK, check_links, event_digest, mark_of
from equipoise.protocol.receipts import Receipt, RewardReceipt, RoundName
from equipoise.protocol.submission import Submission

LARGEST_REWARD = 2**30
LINKS, MAX_LINKS = 1_000, 1_000_000  # asked for at once, and looked at
MAX_PEOPLE = 10_000


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class PersonAnswer(_Answer):
    """The person who asks, as the service knows them."""

    state: str


class SeatAnswer(_Answer):
    """A party of a round, and when it submitted."""

    party: str
    submitted: int | None


class RoundAnswer(_Answer):
    """A round as a member sees it."""

    id: RoundName
    title: str
    state: str
    identity: str
    seats: list[SeatAnswer]
    decisions: str | None = None


class RoundsAnswer(_Answer):
    """All rounds that a member may see."""

    rounds: list[RoundAnswer]


class SettlingAnswer(_Answer):
    """How far a settlement is."""

    job_state: str | None
    stage: str | None
    done: int
    planned: int | None
    elapsed_s: float | None
    left_s: float | None
    problem: str | None


def checked(kind: type[_Answer], document: Any) -> Any:
    """The document, if it is of this kind."""
    try:
        kind.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        raise ServiceError(
            f"the service answered otherwise than this version understands ({where}: {first['msg']}); ask the operator "
            "which version it has"
        ) from error
    return document


def connect(membership: Membership) -> Connection:
    """A connection of a member to its service."""
    url = membership.url
    if not exists(membership.key):
        raise KeyFileError(
            f"your key {str(membership.key)!r} is not there; restore it from your copy; with a new key you must join "
            "again and be approved again"
        )
    return Connection(url, key=load_key(membership.key), audience=membership.service, ca=membership.ca)


class ServiceRound:
    """One round at one service; which one is asked for when it is first needed."""

    def __init__(
        self,
        membership: Membership,
        *,
        round_id: str | None = None,
        wanted: str | None = None,
        connection: Connection | None = None,
    ) -> None:
        self.membership = membership
        self.connection = connection or connect(membership)
        self._round_id, self._wanted = round_id, wanted

    def close(self) -> None:
        """Let go of the network."""
        self.connection.close()

    @property
    def round_id(self) -> str:
        """The round this is about."""
        if self._round_id is None:
            self._round_id = only_round(checked(RoundsAnswer, self._get("/v1/rounds"))["rounds"], self._wanted)
        return self._round_id

    def agreement(self) -> Agreement:
        """What is agreed; its identity is computed here, and must be what the service says it is."""
        document = self._get(self._path("agreement"))
        try:
            agreed = Agreement.model_validate(document["agreement"])
            stated = document["identity"]
        except (KeyError, TypeError, ValidationError) as error:
            raise AgreementError(f"the service sent something else than an agreement: {error}") from error
        if stated != agreed.identity_digest:
            raise VerificationError(
                f"the service calls this agreement {stated!s:.80}, but it is {agreed.identity_digest}; do not submit, "
                "and ask the operator"
            )
        return agreed

    def check_open(self) -> None:
        """Refuse what the service would refuse after the spend: a round that is not open, a second submission."""
        found = self._round()
        if found["state"] != "open":
            raise ServiceError(
                f"round {self.round_id} is {found['state']}, not open; it takes no submission, and nothing was spent"
            )
        if self._submitted(found):
            raise ServiceError(
                f"round {self.round_id} has a submission of {self.membership.name!r}, and this ledger has no release "
                "that it could be; each party submits once. Nothing was spent"
            )

    def submit(self, data: bytes) -> Receipt | None:
        """Send it; believe that it arrived only when the receipt says so."""
        reply = self.connection.request("PUT", self._path("submission"), body=data)
        receipt = Receipt.parse(reply.body, name="what the service answered")
        self.check_receipt(receipt, data)
        return receipt

    def check_receipt(self, receipt: Receipt, data: bytes) -> None:
        """Refuse a receipt that this service did not sign, or that is for something else than was sent."""
        sent = Submission.parse(data)
        found = self._otherwise(receipt, agreement=sent.agreement, submission=sent.id, digest=sha256_hex(data))
        if found:
            raise VerificationError(
                f"the receipt is not for what was sent: {found}; tell the operator, your submission may not have been "
                "taken"
            )

    def _otherwise(self, receipt: Receipt | RewardReceipt, **expected: str) -> str | None:
        """What a receipt of this service says otherwise than expected; one that it did not sign is refused."""
        assert self.membership.service is not None
        receipt.check(self.membership.service)
        for name, true in {"round": self.round_id, "party": self.membership.name, **expected}.items():
            if (said := getattr(receipt, name)) != true:
                return f"the {name} in it is {said}, not {true}"
        return None

    def status(self) -> Status:
        """Where the member stands, and all rounds it may see, or the one asked for."""
        me = self.membership
        try:
            person = checked(PersonAnswer, self.connection.get("/v1/me"))
        except RefusedError as refusal:
            if refusal.code != "not-signed-in":
                raise
            person = ask_to_join(self.connection, me)
        status = Status(me.name, me.role, person["state"], fingerprint(public_hex(load_key(me.key))))
        if person["state"] != "approved":
            return status
        if self._round_id is None:
            found = checked(RoundsAnswer, self.connection.get("/v1/rounds"))["rounds"]
        else:
            found = [checked(RoundAnswer, self.connection.get(self._path()))]
        return replace(status, rounds=tuple(map(self._seen, found)))

    def reward(self) -> bytes | None:
        """My reward, whole: what arrived has the digest that was sent with it."""
        if self._round()["state"] != "settled":
            return None
        reply = self.connection.request("GET", self._path("reward"), max_bytes=LARGEST_REWARD)
        if not _has_digest(reply.body, reply.headers.get("digest", "")):
            raise VerificationError("the reward was altered on its way: it has not the digest that came with it")
        return reply.body

    def reward_receipt(self, data: bytes, digest: str, agreement: str) -> RewardReceipt:
        """The service's word for this very reward; without it, what arrived is not believed."""
        decisions = self._round()["decisions"]
        try:
            reply = self.connection.request("GET", self._path("reward-receipt"))
        except RefusedError as refusal:
            if refusal.code != "not-found":
                raise
            raise VerificationError(
                "the service gave no receipt for the reward, which its operator could therefore deny; nothing was "
                "kept. Ask the operator: the service may be of a version up to 0.7"
            ) from refusal
        receipt = RewardReceipt.parse(reply.body, name="what the service answered")
        found = self._otherwise(
            receipt, agreement=agreement, decisions=decisions, digest=sha256_hex(data), reward=digest
        )
        if found:
            raise VerificationError(
                f"the receipt is not for the reward that arrived: {found}; nothing was kept, tell the operator"
            )
        return receipt

    def check_chain(self, receipts: Sequence[Receipt | RewardReceipt]) -> None:
        """Refuse a service whose log no longer has the events of these receipts, all in one chain and in this round.

        What an event says is not shown, but of which round it is; and nobody is rewarded before it has submitted.
        """
        numbers = [one.event for one in receipts]
        links = self._links(min(numbers), max(numbers))
        check_links(links, first=min(numbers))
        for receipt in receipts:
            link = links[receipt.event - min(numbers)]
            if link["digest"] != receipt.event_digest or not self._is_of_round(receipt, link):
                raise VerificationError(
                    f"event {receipt.event} of the service's log is not the one that your receipt names: the log was "
                    "rewritten after the receipt was given. Keep the receipt; it is the proof"
                )
        sent = [one.event for one in receipts if isinstance(one, Receipt)]
        if any(one.event <= max(sent, default=0) for one in receipts if isinstance(one, RewardReceipt)):
            raise VerificationError(
                f"the receipt of the reward names an event that is not after event {max(sent)}, which took your "
                "submission: the service signed what cannot have happened. Keep both receipts; they are the proof"
            )

    def _is_of_round(self, receipt: Receipt | RewardReceipt, link: dict[str, Any]) -> bool:
        if link["content"] is None:
            return _is_old(receipt, link)
        return bool(link["mark"] == mark_of(link["previous"], self.round_id))

    def _links(self, first: int, last: int) -> list[dict[str, Any]]:
        if last - first > MAX_LINKS:
            raise VerificationError(f"your receipts name events {first} and {last}, too far apart to be looked at")
        found: list[dict[str, Any]] = []
        while len(found) <= last - first:
            document = self._get(f"{self._path('chain')}?after={first + len(found) - 1}&limit={LINKS}")
            try:
                more = [{name: link[name] for name in (*LINK, "digest")} for link in document["links"]]
            except (KeyError, TypeError) as error:
                raise VerificationError(
                    f"the service sent something else than its chain of events ({error!r})"
                ) from error
            if not more:
                raise VerificationError(
                    f"the service's log ends at event {first + len(found) - 1}, before event {last} of your receipt"
                )
            found += more
        return found[: last - first + 1]

    def report(self) -> bytes | None:
        """My edition of the report."""
        if self._round()["state"] != "settled":
            return None
        return self.connection.request("GET", self._path("report")).body

    def _round(self) -> Any:
        return checked(RoundAnswer, self._get(self._path()))

    def _get(self, target: str) -> Any:
        """The document at a path; somebody who is refused as unknown is told the fingerprint to be approved by."""
        try:
            return self.connection.get(target)
        except RefusedError as refusal:
            if refusal.code != "not-signed-in":
                raise
            own = fingerprint(public_hex(load_key(self.membership.key))).upper()
            words = f"{refusal} (the fingerprint of your key is {own})"
            raise RefusedError(words, status=refusal.status, code=refusal.code) from refusal

    def _path(self, *parts: str) -> str:
        return "/".join(("/v1/rounds", quote(self.round_id, safe=""), *parts))

    def _submitted(self, found: dict[str, Any]) -> bool:
        return any(seat["party"] == self.membership.name and seat["submitted"] for seat in found["seats"])

    def _seen(self, found: dict[str, Any]) -> RoundStatus:
        progress = None
        if found["state"] in ("settling", "open"):
            progress = progress_of(self.connection.get(f"/v1/rounds/{quote(found['id'], safe='')}/settlement"))
        return RoundStatus(
            found["id"],
            found["title"],
            found["state"],
            found["identity"],
            tuple(seat["party"] for seat in found["seats"]),
            tuple(seat["party"] for seat in found["seats"] if seat["submitted"]),
            self._submitted(found),
            progress,
        )


def ask_to_join(connection: Connection, membership: Membership, note: str = "") -> dict[str, Any]:
    """Send the request to join, which may be sent again; the service's answer says what became of it."""
    document = {"name": membership.name, "role": membership.role, "note": note}
    answer: dict[str, Any] = checked(PersonAnswer, connection.post("/v1/people", document, repeatable=True))
    return answer


def only_round(found: list[dict[str, Any]], wanted: str | None) -> str:
    """The id of the only round, or of the only one in the wanted state."""
    if not found:
        raise ServiceError("you are in no round yet; the operator creates one and invites you")
    chosen = [one for one in found if one["state"] == wanted] if len(found) > 1 and wanted else found
    if len(chosen) == 1:
        return str(chosen[0]["id"])
    listed = "; ".join(f"{one['id']} ({one['title'] or 'no title'}, {one['state']})" for one in found[:20])
    if chosen:
        raise ServiceError(f"you are in several rounds; say which one with --round: {listed}")
    if wanted == "settled":
        coming = [one for one in found if one["state"] != "closed"]
        if len(coming) == 1:  # the one to wait for
            return str(coming[0]["id"])
        remedy = "; wait, or use --wait with --round" if coming else ""
        raise ServiceError(f"none of your rounds is settled yet: {listed}{remedy}")
    raise ServiceError(f"none of your rounds is {wanted}: {listed}; the operator opens one")


def progress_of(document: dict[str, Any]) -> Progress | None:
    """How far a settlement is; None if none was started."""
    if checked(SettlingAnswer, document)["job_state"] is None:
        return None
    names = ("stage", "done", "planned", "elapsed_s", "left_s", "problem")
    return Progress(**{name: document[name] for name in names})


def _is_old(receipt: Receipt | RewardReceipt, link: dict[str, Any]) -> bool:
    """Whether a receipt is for an event of a version up to 0.7: all that it said, the party knows but its own number.

    Others cannot be passed off as one, to hide that a chain is broken.
    """
    if not isinstance(receipt, Receipt):
        return False
    said = {
        "sequence": receipt.event,
        "time": receipt.received,
        "actor": receipt.party,
        "kind": "submission-accepted",
        "round": receipt.round,
        "previous": link["previous"],
    }
    details = {"party": receipt.party, "submission": receipt.submission, "digest": receipt.digest}
    return any(
        event_digest({**said, "details": {**details, "person": person}}) == receipt.event_digest
        for person in range(1, MAX_PEOPLE)
    )


def _has_digest(data: bytes, header: str) -> bool:
    """Whether data has the SHA-256 that an HTTP header names, in hexadecimal digits or in base 64."""
    name, _, value = header.partition("=")
    digest = sha256_hex(data)
    return name.lower() == "sha-256" and value in (digest, base64.b64encode(bytes.fromhex(digest)).decode())
