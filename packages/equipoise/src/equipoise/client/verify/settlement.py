"""Checks of an exported round's decisions against its inputs, its rewards, and the rules."""

import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._util.canonical import sha256_hex
from equipoise.agreement import Agreement
from equipoise.client.verify.archive import Archive
from equipoise.errors import VerificationError
from equipoise.inference.scenario import DRAWS
from equipoise.mediation.audit import audit
from equipoise.mediation.journal import name_of
from equipoise.mediation.requests import Evaluation, Pooled, Request
from equipoise.mediation.seeds import derived_seed
from equipoise.mediation.settings import check_coalitions, fits_enumeration
from equipoise.mediation.settlement import CoalitionValue, Contribution, Settlement
from equipoise.protocol.export import NOISE, SETTLEMENT, file_of
from equipoise.protocol.receipts import RewardReceipt
from equipoise.protocol.submission import Submission
from equipoise.reward.model import Reward
from equipoise.reward.targets import PRECISION
from equipoise.valuation.proxy import normal_proxy
from equipoise.valuation.sampling import ProxyGame, Sample, estimate

_ALWAYS_CHOSEN = ("precision", "draws")
# A service lets nobody choose these options.
_NEVER_CHOSEN = {"estimator": "knn-entropy", "method": "auto", "rule": None, "chains": None}
# Nats by which Shapley values that are computed on another machine may differ.
ROUNDING = 1e-3
# If one of these options is missing, the agreement's choice or the default applies.
_MAY_BE_LEFT_OUT = ("rho", "mechanism", "teams", "budget")


class SettledRound:
    """The settlement of an export."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.document = archive.document(SETTLEMENT)
        self.settlement = Settlement.parse(self.document, name=SETTLEMENT)

    def check_inputs(
        self, agreement: Agreement, submissions: Mapping[str, Submission], logged: Sequence[str | None]
    ) -> None:
        """Refuse a settlement of other inputs, or other decisions than those in the log."""
        settlement = self.settlement
        if settlement.agreement.identity_digest != agreement.identity_digest:
            raise VerificationError(
                f"the settlement is of agreement {settlement.agreement.identity_digest}, not of this one"
            )
        if odd := sorted(set(settlement.contributions) ^ set(submissions)):
            raise VerificationError(f"{odd[0]!r} is in the settlement or among the submissions, but not in both")
        for party, submission in submissions.items():
            if settlement.contributions[party] != Contribution.of(submission):
                raise VerificationError(
                    f"the settlement used another submission of {party!r} than the one that is here"
                )
        if not logged or logged[-1] != settlement.decisions_digest:
            said = "nothing of a settlement" if not logged else f"{str(logged[-1])[:16]}…"
            raise VerificationError(
                f"the decisions are {settlement.decisions_digest[:16]}…, but the log says {said}: the settlement was "
                "changed"
            )

    def check_options(self, chosen: Mapping[str, Any]) -> None:
        """Refuse a settlement with other options than the log states for its start.

        Options that were left out at the start are as agreed. A settlement does not record `force`, but shows if it
        must have been used.
        """
        reward = self.settlement.agreement.reward
        agreed = {"rho": reward.rho, "mechanism": reward.mechanism, "teams": [list(self.settlement.parties)]}
        for name in (*_ALWAYS_CHOSEN, *_MAY_BE_LEFT_OUT):
            said, used = chosen.get(name), self.settlement.options.get(name)
            if said is None and name in _MAY_BE_LEFT_OUT:
                said = agreed.get(name)
            if _comparable(name, said) != _comparable(name, used):
                raise VerificationError(
                    f"the settlement was made with {name} = {used!r}, but the log's last event 'settlement-started' "
                    f"says {said!r}: the options were changed after the start, perhaps for a better outcome"
                )
        options = self.settlement.options
        usual = {**_NEVER_CHOSEN, "tolerance": 2 * options["precision"]}
        for name, expected in usual.items():
            if options.get(name) != expected:
                raise VerificationError(
                    f"the settlement was made with {name} = {options.get(name)!r}, where a service has {expected!r}: "
                    "the options were changed, perhaps for a better outcome"
                )
        used, number = self.settlement.options.get("coalitions", "all"), len(self.settlement.parties)
        # Versions up to 0.12 let nobody choose: all of up to 12 parties.
        asked: Any = chosen.get("coalitions", "all") if fits_enumeration(number) else "sampled"
        expected = check_coalitions(number, asked)
        if used != expected and fits_enumeration(number):
            raise VerificationError(
                f"coalitions of {number} parties were to be chosen as {expected!r} by the log's last event "
                f"'settlement-started', and were as {used!r}: the options were changed, perhaps for a better outcome"
            )
        doubtful = [coalition for coalition in self.settlement.coalitions if coalition.problems]
        if doubtful and not chosen.get("force"):
            raise VerificationError(
                f"the posterior of {', '.join(doubtful[0].members)} has not converged, but the log's last event "
                "'settlement-started' does not say force: the settlement should have failed"
            )

    def check_sample(self, submissions: Sequence[Submission]) -> None:
        """Refuse sampled coalitions or Shapley values that do not follow from the seed and the values of coalitions.

        Versions up to 0.12 sampled differently, so their settlements are not checked.
        """
        settlement = self.settlement
        if settlement.options.get("coalitions") != "sampled" or settlement.exact:
            return
        seed, names, valued = int(settlement.options["seed"]), settlement.parties, settlement.values
        sample = Sample(len(names), seed=derived_seed(seed, "coalitions"))
        teams = {frozenset(team) for team in settlement.teams}
        # Some teams may not be part of the sample.
        for others in range(len(teams), -1, -1):
            sample.grow(len(valued) - others)
            rows = [frozenset(np.array(names)[row].tolist()) for row in sample.inside[1:]]
            if teams.union(rows) == set(valued):
                break
        else:
            raise VerificationError(
                f"the {len(valued)} coalitions that were valued are not those that follow from the seed: others may "
                "have been left out, perhaps for a better outcome"
            )
        proxy = normal_proxy(settlement.agreement, submissions)
        shapley = estimate(
            sample,
            [valued[row] for row in rows],
            ProxyGame(len(names), proxy, seed=derived_seed(seed, "proxy")),
        ).shapley
        for index, party in enumerate(names):
            stated, right = settlement.shapley[party], shapley[index]
            # Other machines find slightly other modes.
            slack = ROUNDING + 0.05 * right.error
            if abs(stated.value - right.value) > slack or abs(stated.error - right.error) > slack:
                raise VerificationError(
                    f"the Shapley value of {party} is stated as {stated}, and is {right} by the coalitions' values"
                )

    def check_recent(self) -> None:
        """Refuse a settlement in an older format, with fewer fields, than the version that made the round writes."""
        if self.settlement.nothing is None:
            raise VerificationError(
                "the settlement is written as versions up to 0.6 did, but the round was made by a later one: the "
                "service may hide what such versions did not say"
            )

    def check_seed(self, chosen: Mapping[str, Any], *, may_be_chosen: bool) -> str:
        """Refuse a seed that does not follow from the submissions; versions up to 0.7 let the operator choose it."""
        used = self.settlement.options["seed"]
        if not self.settlement.seed_was_chosen:
            return "its seed follows from the submissions"
        if not may_be_chosen or "seed" not in chosen:
            raise VerificationError(
                f"the settlement was made with seed = {used!r}, which does not follow from the submissions: the "
                "service may have tried seeds until the outcome pleased it"
            )
        if chosen["seed"] != used:
            raise VerificationError(
                f"the settlement was made with seed = {used!r}, but the log's last event 'settlement-started' says "
                f"{chosen['seed']!r}: the options were changed after the start, perhaps for a better outcome"
            )
        return f"its seed, {used}, was chosen by the operator, as versions up to 0.7 let it, perhaps for its outcome"

    @property
    def noise_secret(self) -> str | None:
        """The secret of the added noise, if the export has it; up to version 0.6 it was in the settlement."""
        if self.settlement.options.get("noise_secret") is not None:
            return str(self.settlement.options["noise_secret"])
        if NOISE not in self.archive.names:
            return None
        return self.archive.read(NOISE).decode("ascii", errors="replace").strip()

    def check_noise(self, promised: object) -> None:
        """Refuse noise from another secret than the log promised when the round was made."""
        if self.settlement.options.get("mechanism") != "noise":
            return
        if sha256_hex((self.noise_secret or "").encode()) != promised:
            raise VerificationError(
                "the noise of the rewards was drawn from another secret than the one whose digest the log has since "
                "the round was made: the service may have tried secrets until the outcome pleased it"
            )

    def check_answers(self, answers: Sequence[Any]) -> None:
        """Refuse values of coalitions that do not follow from the sampler's answers, if the export has any.

        Settlements of versions up to 0.6 are not checked, because their requests may differ.
        """
        if not answers or self.settlement.nothing is None:
            return
        known: dict[str, dict[tuple[frozenset[str], int], Evaluation]] = {}
        for answer in answers:
            asked, result = Request.from_json(answer["key"]), Evaluation.from_json(answer["result"])
            if (asked.kappa, asked.tau, asked.extra) == (1.0, 0.0, ()):
                of_run = known.setdefault(answer["inputs"], {})
                key = frozenset(asked.coalition), asked.seed
                of_run[key] = max(of_run.get(key, result), result, key=lambda appraisal: appraisal.draws)
        if not any(
            all(self._follows(coalition, of_run) for coalition in self.settlement.coalitions)
            for of_run in known.values()
        ):
            raise VerificationError(
                "the values of coalitions do not follow from the answers of the sampler in the export: the answers, or "
                "the values, were changed"
            )

    def _follows(self, coalition: CoalitionValue, answers: Mapping[tuple[frozenset[str], int], Evaluation]) -> bool:
        parts: tuple[Evaluation, ...] = ()
        while sum(part.draws for part in parts) < coalition.draws:
            seed = derived_seed(self.settlement.options["seed"], "value", sorted(coalition.members), len(parts))
            part = answers.get((frozenset(coalition.members), seed))
            if part is None:
                return False
            parts = (*parts, part)
        pooled = Pooled(parts)
        return pooled.draws == coalition.draws and math.isclose(pooled.value.value, coalition.value.value, rel_tol=1e-9)

    @cached_property
    def with_rewards(self) -> Settlement:
        """The settlement with every party's reward, each checked to be the one that was decided."""
        awards = dict(self.settlement.awards)
        if odd := sorted(set(awards) ^ set(self.archive.parties_in("rewards"))):
            raise VerificationError(f"of {odd[0]!r} there is an award without a reward, or a reward without an award")
        with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
            path = Path(folder) / "reward.nc"
            for party, award in awards.items():
                with path.open("wb") as file:
                    file.writelines(self.archive.chunks(file_of("rewards", party)))
                reward = Reward.load(path)
                if (reward.party, reward.digest) != (party, award.digest):
                    raise VerificationError(f"the reward of {party!r} is not the one that was decided")
                awards[party] = replace(award, reward=reward)
        return replace(self.settlement, awards=awards)

    def check_reward_receipt(self, receipt: RewardReceipt, name: str) -> None:
        """Refuse a settlement that differs from the receipt that the service signed for a reward."""
        award = self.settlement.awards.get(receipt.party)
        if (self.settlement.decisions_digest, award and award.digest) != (receipt.decisions, receipt.reward):
            raise VerificationError(
                f"{name} is for another reward of {receipt.party!r}, or of other decisions, than the settlement here: "
                "what was decided was changed after the reward was handed out, or the reward was"
            )

    def check_reward(self, path: Path) -> tuple[str, str]:
        """Return the party of a reward file, and the file's SHA-256; refuse a file that is no reward of this round."""
        reward = Reward.load(path)
        award = self.settlement.awards.get(reward.party)
        if award is None or reward.digest != award.digest:
            raise VerificationError(
                f"{str(path)!r} says that it is the reward of {reward.party!r}, but is not the one that was decided: "
                "its numbers were changed, or it is of another round"
            )
        return reward.party, sha256_hex(path.read_bytes())

    def check_audit(self) -> str:
        """Refuse verdicts that do not follow from the settlement and the very draws of the rewards.

        Only verdicts are compared, because versions may word reasons differently. Audits of versions up to 0.6 followed
        other rules, and are refused only if a promise is broken by today's.
        """
        try:
            said = {finding["code"]: finding["verdict"] for finding in self.document["audit"]["findings"]}
        except (KeyError, TypeError) as error:
            raise VerificationError(f"the audit in the settlement cannot be read ({error!r})") from error
        verdicts = {finding.code: str(finding.verdict) for finding in audit(self.with_rewards)}
        others = [code for code in sorted(set(said) | set(verdicts)) if said.get(code) != verdicts.get(code)]
        is_old = self.settlement.nothing is None
        for code in others:
            if not is_old or verdicts.get(code) == "fails":
                raise VerificationError(
                    f"the audit says of {code}: {said.get(code)}; checked again, it is: {verdicts.get(code)}"
                )
        counts = [f"{list(verdicts.values()).count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts.values())]
        otherwise = [f"{code}, said to be: {said.get(code)}" for code in others]
        return ", ".join(counts) + "".join(f"; by the rules of this version for {finding}" for finding in otherwise)

    def check_agreed(self) -> str:
        """Refuse a settlement that departs from the agreement."""
        if deviations := self.settlement.deviations:
            raise VerificationError(
                f"the agreement was not kept: {'; '.join(deviation.words for deviation in deviations)}"
            )
        left = self.settlement.agreement.reward.operator_may_choose
        words = f"left to the operator: {', '.join(left)}" if left else "nothing was left to the operator"
        usual = {"draws": DRAWS, "precision": PRECISION, "budget": None}
        options = self.settlement.options
        unusual = [f"{name} = {options[name]}" for name, value in usual.items() if options[name] != value]
        return f"{words}; chosen by it besides: {', '.join(unusual)}" if unusual else words


def check_answers(answers: Sequence[Any], submissions: Mapping[str, Submission]) -> None:
    """Refuse answers that no sampler gives: of another form, not finite, about unknown parties, or repeated."""
    seen: set[str] = set()
    for number, answer in enumerate(answers, start=1):
        try:
            asked, result = Request.from_json(answer["key"]), Evaluation.from_json(answer["result"])
            numbers = (result.value.value, result.value.error, result.rhat, result.ess, asked.kappa, asked.tau)
            if set(answer) != {"inputs", "key", "result"} or not re.fullmatch("[0-9a-f]{64}", answer["inputs"]):
                raise ValueError(f"the inputs are {answer.get('inputs')!r:.80}")
            if not all(map(math.isfinite, numbers)) or result.value.error < 0 or result.draws < 1:
                raise ValueError(f"the numbers are {numbers}")
            if not asked.coalition or not set(asked.coalition) <= set(submissions):
                raise ValueError(f"it is about {', '.join(asked.coalition)}")
            if (name := f"{answer['inputs']} {name_of(answer['key'])}") in seen:
                raise ValueError("it is there twice")
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise VerificationError(
                f"line {number} of answers.jsonl is no answer of a sampler about these parties: {error!s:.200}"
            ) from error
        seen.add(name)


def _comparable(name: str, value: Any) -> Any:
    """Return an option for comparison; the order of a team's members does not matter."""
    return [sorted(team) for team in value] if name == "teams" and value is not None else value
