"""Offline checks of a round's export: the service signed it, and its contents are consistent.

The service's signature proves that nobody else changed the export. All other checks are there because the service
itself may be wrong or lie: the log is one chain and follows the rules, every accepted submission is there and genuine,
decisions are about exactly those, rewards are the ones decided, and the audit's verdicts follow from them. A party's
own receipt shows if the log was rewritten since.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from equipoise._util.canonical import read_limited, sha256_hex
from equipoise._util.text import counted
from equipoise.agreement import Agreement
from equipoise.client.verify.archive import Archive
from equipoise.client.verify.log import ACCEPTED, CREATED, FETCHED, SETTLED, STARTED, RoundLog
from equipoise.client.verify.repetition import Repetition
from equipoise.client.verify.settlement import SettledRound, check_answers
from equipoise.errors import EquipoiseError, RepetitionError, VerificationError
from equipoise.protocol.export import AGREEMENT, MANIFEST, SETTLEMENT, Manifest, file_of
from equipoise.protocol.keys import fingerprint, same_fingerprint
from equipoise.protocol.log import check_chain
from equipoise.protocol.receipts import Receipt, RewardReceipt, any_receipt
from equipoise.protocol.submission import Submission


@dataclass(frozen=True)
class Check:
    """One check and its result; `message` has the details.

    `outcome` is "ok", "failed", "not checked" (after a failure) or "not repeatable": settling again could not be
    compared exactly, which says nothing against the round.
    """

    title: str
    outcome: str
    message: str = ""


def check_export(
    path: Path,
    *,
    service: str | None = None,
    receipts: Sequence[Path] = (),
    rewards: Sequence[Path] = (),
    again: bool = False,
    noise_secret: str | None = None,
) -> list[Check]:
    """Check an export until the first failure; later checks are listed as not checked.

    `service` is the fingerprint of the key that must have signed the export; `receipts` and `rewards` are files that
    parties got. `again` repeats the settlement, for degraded rewards with the `noise_secret` that the operator gave to
    an auditor.
    """
    results: list[Check] = []
    try:
        archive = Archive(path)
    except EquipoiseError as error:
        return [Check("the archive can be read safely", "failed", str(error))]
    with archive:
        examination = _Examination(archive, service, receipts, rewards, noise_secret)
        failed = False
        for title, check in examination.checks(again=again):
            if failed:
                results.append(Check(title, "not checked"))
                continue
            try:
                results.append(Check(title, "ok", check()))
            except RepetitionError as error:
                results.append(Check(title, "not repeatable", str(error)))
            except EquipoiseError as error:
                results.append(Check(title, "failed", str(error)))
                failed = True
            except (
                ArithmeticError,
                AttributeError,
                LookupError,
                MemoryError,
                RuntimeError,
                TypeError,
                ValueError,
            ) as error:
                results.append(Check(title, "failed", f"there is something that no service writes ({error!r:.200})"))
                failed = True
    return results


class _Examination:
    """One export under examination; each check relies on those before it."""

    def __init__(
        self,
        archive: Archive,
        service: str | None,
        receipts: Sequence[Path],
        rewards: Sequence[Path],
        noise_secret: str | None,
    ) -> None:
        self.archive, self.service, self.own_receipts, self.own_rewards = archive, service, receipts, rewards
        self.given_secret = noise_secret

    def checks(self, *, again: bool) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "the archive can be read safely", lambda: counted(len(self.archive.names), "file")
        yield "the manifest is signed by the service", self._signed
        yield "every file is as it was signed", self._files_as_signed
        yield "the event log is one unbroken chain", self._chain
        yield "the log tells of a round that the rules allow", self._allowed
        yield "the agreement is the one the round was made with", self._same_agreement
        yield "every accepted submission is there, and genuine", self._submissions_genuine
        yield "every receipt agrees with its submission and the log", self._receipts_agree
        if self.own_receipts:
            yield "your own receipts agree with the log", self._own_receipts_agree
        yield "the sampler's answers are answers about these parties", self._answers_readable
        if SETTLEMENT in self.archive.names:
            yield "the settlement is about exactly these submissions", self._settlement_fits
            yield "rewards are the ones that were decided", self._rewards_as_decided
            if self.own_rewards:
                yield "your own rewards are the ones that were decided and handed out", self._own_rewards_as_decided
            yield "the audit's verdicts follow from the settlement", self._audit_follows
            if again:
                yield "settling again gives the same values and targets", self._values_again
                yield "settling again gives the same rewards", self._rewards_again
            yield "the round was settled as agreed", self._as_agreed
        else:
            yield "nothing is settled yet", self._not_settled
            if self.own_rewards:
                yield "your own rewards are the ones that were decided and handed out", self._no_rewards_yet

    @cached_property
    def manifest(self) -> Manifest:
        return Manifest.parse(self.archive.read(MANIFEST))

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        return self.archive.events()

    @cached_property
    def log(self) -> RoundLog:
        return RoundLog.of(self.events, self.manifest.round)

    @cached_property
    def agreement(self) -> Agreement:
        try:
            return Agreement.model_validate(self.archive.document(AGREEMENT))
        except ValidationError as error:
            raise VerificationError(f"the file {AGREEMENT} is not an agreement: {error}") from error

    @cached_property
    def submissions(self) -> dict[str, Submission]:
        return {
            party: Submission.parse(self._submitted(party), name=f"the submission of {party!r}")
            for party in self.archive.parties_in("submissions")
        }

    @cached_property
    def settled(self) -> SettledRound:
        return SettledRound(self.archive)

    @property
    def _used(self) -> dict[str, Submission]:
        return {party: submission for party, submission in self.submissions.items() if party not in self.log.left_out}

    def _submitted(self, party: str) -> bytes:
        return self.archive.read(file_of("submissions", party))

    def _signed(self) -> str:
        seen = fingerprint(self.manifest.service)
        if self.service is None:
            return f"by {seen}; compare this with the fingerprint you know, or give that with --service"
        if not same_fingerprint(self.service, seen):
            raise VerificationError(f"the export is signed by {seen}, not by {self.service}")
        return f"by {seen}"

    def _files_as_signed(self) -> str:
        there, listed = set(self.archive.names) - {MANIFEST}, self.manifest.files
        if missing := sorted(set(listed) - there):
            raise VerificationError(f"{missing[0]!r} is in the manifest but not in the export")
        if added := sorted(there - set(listed)):
            raise VerificationError(f"{added[0]!r} is in the export but not in the manifest")
        for name, digest in listed.items():
            if self.archive.digest(name) != digest:
                raise VerificationError(f"{name!r} was changed after the export was signed")
        return counted(len(listed), "file")

    def _chain(self) -> str:
        head = check_chain(self.events)
        begun = self.events[0].get("details", {}).get("public_key") if self.events else None
        if begun != self.manifest.service:
            raise VerificationError(
                f"the log was begun by the service {str(begun)[:16]}…, not by the one that signed it"
            )
        if (len(self.events), head) != (self.manifest.sequence, self.manifest.head):
            raise VerificationError(
                f"the log ends with event {len(self.events)}, but the manifest was signed at event "
                f"{self.manifest.sequence}: events were left out or added"
            )
        return counted(len(self.events), "event")

    def _allowed(self) -> str:
        self.log.check_times(self.manifest.time)
        self.log.check_actors()
        self.log.check_once()
        self.log.check_order()
        return "made and settled at most once, with one submission of each party"

    def _same_agreement(self) -> str:
        created = self.log.of_kind(CREATED)
        if not created:
            raise VerificationError(f"the log has no event that made round {self.manifest.round!r}")
        stated = created[0].details.get("agreement")
        if stated != self.agreement.identity_digest:
            raise VerificationError(
                f"the round was made with agreement {stated}, but the export has {self.agreement.identity_digest}"
            )
        return f"identity {self.agreement.identity_digest}"

    def _submissions_genuine(self) -> str:
        accepted = {entry.details["party"]: entry.details["digest"] for entry in self.log.of_kind(ACCEPTED)}
        if missing := sorted(set(accepted) - set(self.submissions)):
            raise VerificationError(
                f"the log says that {missing[0]!r} submitted, but its submission is not in the export"
            )
        for party, submission in self.submissions.items():
            if party not in self.log.left_out:
                submission.check(self.agreement)
            if submission.party != party:
                raise VerificationError(f"the file of {party!r} is the submission of {submission.party!r}")
            if accepted.get(party) != sha256_hex(self._submitted(party)):
                raise VerificationError(f"the log has no event that accepted this submission of {party!r}")
        self.log.check_keys(self.submissions)
        left_out = f"; started without {', '.join(self.log.left_out)}" if self.log.left_out else ""
        return counted(len(self.submissions), "submission") + left_out

    def _receipts_agree(self) -> str:
        with_receipt = self.archive.parties_in("receipts")
        if odd := sorted(set(with_receipt) ^ set(self.submissions)):
            raise VerificationError(f"of {odd[0]!r} there is a submission without receipt, or a receipt without it")
        for party in with_receipt:
            name = f"the receipt of {party!r}"
            receipt = Receipt.parse(self.archive.read(file_of("receipts", party)), name=name)
            if receipt.party != party:
                raise VerificationError(f"{name} is for {receipt.party!r}")
            self._agrees(receipt, name)
            self._is_for_submission(receipt, name)
        return counted(len(with_receipt), "receipt")

    def _own_receipts_agree(self) -> str:
        for path in self.own_receipts:
            try:
                receipt = any_receipt(read_limited(path), name=repr(str(path)))
            except OSError as error:
                raise VerificationError(f"cannot read the receipt {str(path)!r}: {error.strerror}") from error
            name = f"your receipt {str(path)!r}"
            self._agrees(receipt, name)
            if isinstance(receipt, Receipt):
                self._is_for_submission(receipt, name)
            elif SETTLEMENT not in self.archive.names:
                raise VerificationError(f"{name} is for a reward, but the export has no settlement")
            else:
                self.settled.check_reward_receipt(receipt, name)
        return counted(len(self.own_receipts), "receipt")

    def _agrees(self, receipt: Receipt | RewardReceipt, name: str) -> None:
        """Refuse a receipt that the service did not sign, of another round, or at odds with its event in the log."""
        receipt.check(self.manifest.service)
        if (receipt.round, receipt.agreement) != (self.manifest.round, self.agreement.identity_digest):
            raise VerificationError(f"{name} is for round {receipt.round!r}, or for another agreement than this one")
        event = self.events[receipt.event - 1] if receipt.event <= len(self.events) else None
        if event is None or event["digest"] != receipt.event_digest:
            raise VerificationError(
                f"{name} names event {receipt.event} of the log, which is another one here: the log was rewritten "
                "after the receipt was given"
            )
        if isinstance(receipt, Receipt):
            kind, told = ACCEPTED, {"party": receipt.party, "digest": receipt.digest}
        else:
            kind, told = FETCHED, {field: getattr(receipt, field) for field in ("decisions", "digest", "reward")}
        head, details = (event.get("kind"), event.get("round"), event.get("actor")), event.get("details", {})
        if head != (kind, receipt.round, receipt.party) or any(details.get(field) != told[field] for field in told):
            raise VerificationError(f"{name} names event {receipt.event}, which is about something else")

    def _is_for_submission(self, receipt: Receipt, name: str) -> None:
        if receipt.party not in self.submissions or receipt.digest != sha256_hex(self._submitted(receipt.party)):
            raise VerificationError(f"the submission of {receipt.party!r} is not the one {name} was given for")
        if receipt.submission != self.submissions[receipt.party].id:
            raise VerificationError(f"{name} names another submission than the one of {receipt.party!r}")

    def _answers_readable(self) -> str:
        answers = self.archive.answers()
        if answers:
            check_answers(answers, self.submissions)
        return counted(len(answers), "answer")

    def _own_rewards_as_decided(self) -> str:
        for path in self.own_rewards:
            party, digest = self.settled.check_reward(path)
            handed_out = [entry for entry in self.log.of_kind(FETCHED) if entry.actor == party]
            if not handed_out:
                raise VerificationError(
                    f"the log does not say that the reward of {party!r} was handed out; get an export that was made "
                    "after it was fetched"
                )
            if digest not in [entry.details.get("digest") for entry in handed_out]:
                raise VerificationError(
                    f"{str(path)!r} is not the file that was handed out to {party!r} at event {handed_out[0].number}, "
                    "as the log says"
                )
        return counted(len(self.own_rewards), "reward")

    def _no_rewards_yet(self) -> str:
        raise VerificationError(f"there can be no reward {str(self.own_rewards[0])!r} of a round that is not settled")

    def _not_settled(self) -> str:
        if self.log.of_kind(SETTLED):
            raise VerificationError("the log says that the round is settled, but the settlement is not in the export")
        if rewards := self.archive.parties_in("rewards"):
            raise VerificationError(f"there is a reward of {rewards[0]!r} without a settlement")
        return "submissions only"

    def _settlement_fits(self) -> str:
        logged = [entry.details.get("decisions") for entry in self.log.of_kind(SETTLED)]
        self.settled.check_inputs(self.agreement, self._used, logged)
        self.settled.check_options(self.log.chosen)
        self.settled.check_sample(list(self._used.values()))
        created, started = self.log.of_kind(CREATED)[0], self.log.of_kind(STARTED)[-1]
        # Versions up to 0.7 committed to no noise, and let the operator choose the seed.
        if created.salted:
            self.settled.check_noise(created.details.get("noise"))
            self.settled.check_recent()
        self.settled.check_answers(self.archive.answers())
        origin = self.settled.check_seed(self.log.chosen, may_be_chosen=not started.salted)
        return f"decisions {self.settled.settlement.decisions_digest}; {origin}"

    def _rewards_as_decided(self) -> str:
        awards = self.settled.with_rewards.awards
        for entry in self.log.of_kind(FETCHED):
            file = self.archive.digest(file_of("rewards", entry.actor))
            decided = awards[entry.actor].digest
            if (entry.details.get("digest"), entry.details.get("reward", decided)) != (file, decided):
                raise VerificationError(
                    f"event {entry.number} of the log says that another reward was handed out to {entry.actor!r} than "
                    "the one that was decided"
                )
        return counted(len(awards), "reward")

    def _audit_follows(self) -> str:
        return self.settled.check_audit()

    def _as_agreed(self) -> str:
        return self.settled.check_agreed()

    def _values_again(self) -> str:
        return self.repetition.check_values()

    def _rewards_again(self) -> str:
        return self.repetition.check_rewards()

    @cached_property
    def repetition(self) -> Repetition:
        return Repetition(
            self.settled.with_rewards,
            list(self._used.values()),
            given=self.given_secret,
            kept=self.settled.noise_secret,
            promised=self.log.of_kind(CREATED)[0].details,
            force=bool(self.log.chosen.get("force")),
        )
