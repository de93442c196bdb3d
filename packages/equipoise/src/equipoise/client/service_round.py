"""A round through a service.

The service may be hostile, or of another version, so its answers are checked before any of them is used.
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
# Links of the chain that are requested at once, and that are checked at most.
LINKS, MAX_LINKS = 1_000, 1_000_000
MAX_PEOPLE = 10_000


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class PersonAnswer(_Answer):
    """The service's record of the person who asks."""

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
    """The progress of a settlement."""

    job_state: str | None
    stage: str | None
    done: int
    planned: int | None
    elapsed_s: float | None
    left_s: float | None
    problem: str | None


def checked(kind: type[_Answer], document: Any) -> Any:
    """Return the document; refuse one of another kind."""
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
    """Return a connection of a member to its service."""
    url = membership.url
    if not exists(membership.key):
        raise KeyFileError(
            f"your key {str(membership.key)!r} is not there; restore it from your copy; with a new key you must join "
            "again and be approved again"
        )
    return Connection(url, key=load_key(membership.key), audience=membership.service, ca=membership.ca)


class ServiceRound:
    """One round at one service; without an id, the service is asked for it when it is first needed."""

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
        """Close the connection."""
        self.connection.close()

    @property
    def round_id(self) -> str:
        """The id of the round."""
        if self._round_id is None:
            self._round_id = only_round(checked(RoundsAnswer, self._get("/v1/rounds"))["rounds"], self._wanted)
        return self._round_id

    def agreement(self) -> Agreement:
        """Return the agreement; refuse one whose identity, computed here, differs from the service's statement."""
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
        """Refuse, before any privacy is spent, a round that is not open, and a second submission."""
        answer = self._round()
        if answer["state"] != "open":
            raise ServiceError(
                f"round {self.round_id} is {answer['state']}, not open; it takes no submission, and nothing was spent"
            )
        if self._submitted(answer):
            raise ServiceError(
                f"round {self.round_id} has a submission of {self.membership.name!r}, and this ledger has no release "
                "that it could be; each party submits once. Nothing was spent"
            )

    def submit(self, data: bytes) -> Receipt | None:
        """Send the submission; return the receipt, which alone proves that it arrived."""
        reply = self.connection.request("PUT", self._path("submission"), body=data)
        receipt = Receipt.parse(reply.body, name="what the service answered")
        self.check_receipt(receipt, data)
        return receipt

    def check_receipt(self, receipt: Receipt, data: bytes) -> None:
        """Refuse a receipt that this service did not sign, or that is not for the data that was sent."""
        sent = Submission.parse(data)
        difference = self._otherwise(receipt, agreement=sent.agreement, submission=sent.id, digest=sha256_hex(data))
        if difference:
            raise VerificationError(
                f"the receipt is not for what was sent: {difference}; tell the operator, your submission may not have "
                "been taken"
            )

    def _otherwise(self, receipt: Receipt | RewardReceipt, **expected: str) -> str | None:
        """Say in what a receipt differs from what is expected; refuse one that this service did not sign."""
        assert self.membership.service is not None
        receipt.check(self.membership.service)
        for name, true in {"round": self.round_id, "party": self.membership.name, **expected}.items():
            if (said := getattr(receipt, name)) != true:
                return f"the {name} in it is {said}, not {true}"
        return None

    def status(self) -> Status:
        """Return the status of the member, and of the chosen round, or of all that it may see."""
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
            rounds = checked(RoundsAnswer, self.connection.get("/v1/rounds"))["rounds"]
        else:
            rounds = [checked(RoundAnswer, self.connection.get(self._path()))]
        return replace(status, rounds=tuple(map(self._seen, rounds)))

    def reward(self) -> bytes | None:
        """Return the member's reward; refuse data without the digest that was sent with it."""
        if self._round()["state"] != "settled":
            return None
        reply = self.connection.request("GET", self._path("reward"), max_bytes=LARGEST_REWARD)
        if not _has_digest(reply.body, reply.headers.get("digest", "")):
            raise VerificationError("the reward was altered on its way: it has not the digest that came with it")
        return reply.body

    def reward_receipt(self, data: bytes, digest: str, agreement: str) -> RewardReceipt:
        """Return the service's receipt for this very reward; without one, the reward is refused."""
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
        difference = self._otherwise(
            receipt, agreement=agreement, decisions=decisions, digest=sha256_hex(data), reward=digest
        )
        if difference:
            raise VerificationError(
                f"the receipt is not for the reward that arrived: {difference}; nothing was kept, tell the operator"
            )
        return receipt

    def check_chain(self, receipts: Sequence[Receipt | RewardReceipt]) -> None:
        """Refuse a service whose log no longer has the events of these receipts, all in one chain and in this round.

        The service shows only the round of an event, not its content. No party is rewarded before it has submitted.
        """
        numbers = [receipt.event for receipt in receipts]
        links = self._links(min(numbers), max(numbers))
        check_links(links, first=min(numbers))
        for receipt in receipts:
            link = links[receipt.event - min(numbers)]
            if link["digest"] != receipt.event_digest or not self._is_of_round(receipt, link):
                raise VerificationError(
                    f"event {receipt.event} of the service's log is not the one that your receipt names: the log was "
                    "rewritten after the receipt was given. Keep the receipt; it is the proof"
                )
        sent = [receipt.event for receipt in receipts if isinstance(receipt, Receipt)]
        rewarded = [receipt.event for receipt in receipts if isinstance(receipt, RewardReceipt)]
        if any(event <= max(sent, default=0) for event in rewarded):
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
        links: list[dict[str, Any]] = []
        while len(links) <= last - first:
            document = self._get(f"{self._path('chain')}?after={first + len(links) - 1}&limit={LINKS}")
            try:
                more = [{name: link[name] for name in (*LINK, "digest")} for link in document["links"]]
            except (KeyError, TypeError) as error:
                raise VerificationError(
                    f"the service sent something else than its chain of events ({error!r})"
                ) from error
            if not more:
                raise VerificationError(
                    f"the service's log ends at event {first + len(links) - 1}, before event {last} of your receipt"
                )
            links += more
        return links[: last - first + 1]

    def report(self) -> bytes | None:
        """Return the member's edition of the report, None while there is none."""
        if self._round()["state"] != "settled":
            return None
        return self.connection.request("GET", self._path("report")).body

    def _round(self) -> Any:
        return checked(RoundAnswer, self._get(self._path()))

    def _get(self, target: str) -> Any:
        """Fetch the document at a path; a refusal of an unknown key also tells the fingerprint to be approved."""
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

    def _submitted(self, answer: dict[str, Any]) -> bool:
        return any(seat["party"] == self.membership.name and seat["submitted"] for seat in answer["seats"])

    def _seen(self, answer: dict[str, Any]) -> RoundStatus:
        progress = None
        if answer["state"] in ("settling", "open"):
            progress = progress_of(self.connection.get(f"/v1/rounds/{quote(answer['id'], safe='')}/settlement"))
        return RoundStatus(
            answer["id"],
            answer["title"],
            answer["state"],
            answer["identity"],
            tuple(seat["party"] for seat in answer["seats"]),
            tuple(seat["party"] for seat in answer["seats"] if seat["submitted"]),
            self._submitted(answer),
            progress,
        )


def ask_to_join(connection: Connection, membership: Membership, note: str = "") -> dict[str, Any]:
    """Send the request to join, which is idempotent; return the service's answer with the state of the request."""
    document = {"name": membership.name, "role": membership.role, "note": note}
    answer: dict[str, Any] = checked(PersonAnswer, connection.post("/v1/people", document, repeatable=True))
    return answer


def only_round(rounds: list[dict[str, Any]], wanted: str | None) -> str:
    """Return the id of the only round, or of the only one in the wanted state."""
    if not rounds:
        raise ServiceError("you are in no round yet; the operator creates one and invites you")
    chosen = [answer for answer in rounds if answer["state"] == wanted] if len(rounds) > 1 and wanted else rounds
    if len(chosen) == 1:
        return str(chosen[0]["id"])
    listed = "; ".join(f"{answer['id']} ({answer['title'] or 'no title'}, {answer['state']})" for answer in rounds[:20])
    if chosen:
        raise ServiceError(f"you are in several rounds; say which one with --round: {listed}")
    if wanted == "settled":
        coming = [answer for answer in rounds if answer["state"] != "closed"]
        # A single round that is not settled yet is the one to wait for.
        if len(coming) == 1:
            return str(coming[0]["id"])
        remedy = "; wait, or use --wait with --round" if coming else ""
        raise ServiceError(f"none of your rounds is settled yet: {listed}{remedy}")
    raise ServiceError(f"none of your rounds is {wanted}: {listed}; the operator opens one")


def progress_of(document: dict[str, Any]) -> Progress | None:
    """Return the progress of a settlement; None if none was started."""
    if checked(SettlingAnswer, document)["job_state"] is None:
        return None
    names = ("stage", "done", "planned", "elapsed_s", "left_s", "problem")
    return Progress(**{name: document[name] for name in names})


def _is_old(receipt: Receipt | RewardReceipt, link: dict[str, Any]) -> bool:
    """Return True if a receipt is for an event of a version up to 0.7.

    The party knows all content of such an event but its own number as a person, so all numbers are tried. No other
    event can be passed off as such a one to hide a broken chain.
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
    """Return True if data has the SHA-256 in an HTTP header, in hexadecimal digits or in base 64."""
    name, _, value = header.partition("=")
    digest = sha256_hex(data)
    return name.lower() == "sha-256" and value in (digest, base64.b64encode(bytes.fromhex(digest)).decode())
