"""Repetition of an exported round's settlement, compared with the decisions and rewards in the export.

There are three outcomes. Everything is the same to the digit. Or something differs by more than errors allow, which no
processor explains, and the export is refused. Or all numbers agree within errors but not to the digit, or a secret is
missing; then the round is "not repeatable" here, which says nothing against it. The errors that the service states
never turn the second outcome into the third. The version that it states does so only for rewards whose values of
coalitions are right to the digit, since another version may search for them differently; an auditor then installs that
version.
"""

import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from equipoise._util.canonical import sha256_hex
from equipoise._util.text import counted
from equipoise._version import __version__
from equipoise.errors import RepetitionError, VerificationError
from equipoise.mediation import mediator
from equipoise.mediation.decisions import FEWEST_ERRORS, Comparison, Decisions, compare
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.settings import WITH_NOISE
from equipoise.mediation.settlement import Award, Settlement
from equipoise.mediation.task import environment, task_of
from equipoise.protocol.submission import Submission
from equipoise.reward.summary import summarise

# Standard deviations by which a quantile of a reward may differ: by chance, if it was made with the same κ and τ, and
# because the search for these ended elsewhere, if not.
SAME_SETTINGS, OTHER_SETTINGS = 0.35, 1.5
# Why rewards cannot be repeated without a secret, by mechanism.
_NO_SECRET = {
    "noise": "rewards were made by noise, and the export lacks the secret of it; get an export of the whole round",
    "degraded": "rewards were degraded, and no export holds the secret of their noise, with which anybody could take "
    "it away; ask the operator for it (`equipoise operator noise-secret`) and give it with --noise-secret",
}
_NOT_PROMISED = (
    "the rewards are those of this secret, but the log did not commit to it when the round was made, as services since "
    "0.15 do: the service may have tried secrets until the outcome pleased it"
)


class Repetition:
    """The repeated settlement of a round from its submissions, as far as possible without the secret of the noise.

    `stated` is the settlement with everybody's rewards, `given` a secret that the operator handed to an auditor, `kept`
    the one that an export of a round by `noise` holds, and `promised` the details of the event that made the round,
    which commit to secrets under `noise` and `path`.
    """

    def __init__(
        self,
        stated: Settlement,
        submissions: Sequence[Submission],
        *,
        given: str | None,
        kept: str | None,
        promised: Mapping[str, Any],
        force: bool,
    ) -> None:
        self._stated, self._submissions, self._force = stated, submissions, force
        self._mechanism = stated.options["mechanism"]
        self._is_promised = self._mechanism != "degraded" or given is None or "path" in promised
        self._secret = self._choose(given, kept, promised)

    def _choose(self, given: str | None, kept: str | None, promised: Mapping[str, Any]) -> str | None:
        """Return the secret of the rewards' noise, if there is one; refuse another than the log promised."""
        if self._mechanism != "degraded":
            if given is not None:
                raise VerificationError(
                    f'a noise secret is for degraded rewards, and these were made by "{self._mechanism}"; leave it out'
                )
            return kept if self._mechanism == "noise" else None
        if given is not None and "path" in promised and sha256_hex(given.encode()) != promised["path"]:
            raise VerificationError(
                "the noise secret is not the one that the log promised when the round was made; ask the operator for "
                "the secret of this very round, or the service drew the noise from another"
            )
        return given

    def check_values(self) -> str:
        """Refuse other values of coalitions, Shapley values, exponents or targets."""
        comparison = self._comparison
        if comparison.outcome == "different":
            raise VerificationError(f"settling again decides otherwise: {comparison.words}")
        if comparison.outcome == "within errors":
            raise RepetitionError(
                f"settling again gives other numbers, all within their errors: {comparison.words}. Another processor "
                f"or version does that{self._other_versions()}; settle again where the round was settled to compare "
                "every digit"
            )
        return f"{counted(len(self._stated.values), 'value')}, all the same"

    def check_rewards(self) -> str:
        """Refuse rewards, or statements about them, that differ from the repetition."""
        stated, repeated = self._stated, self._repeated
        if isinstance(repeated, Decisions):
            raise RepetitionError(
                f"{_NO_SECRET[self._mechanism]}. How much each party deserves was repeated; amounts of noise and "
                "rewards were not"
            )
        # Values that are the same to the digit come from the same arithmetic; by the same code, so do rewards.
        is_same = self._comparison.outcome == "same" and stated.environment.get("equipoise") == __version__
        for party, award in stated.awards.items():
            if difference := _difference(award, repeated.awards[party], stated, is_same=is_same):
                raise VerificationError(f"settling again decides otherwise: the reward of {party!r} {difference}")
        if repeated.decisions_digest != stated.decisions_digest:
            other = [party for party in stated.awards if stated.awards[party].digest != repeated.awards[party].digest]
            if is_same and not other:
                raise VerificationError(
                    f"settling again decides otherwise ({repeated.decisions_digest[:16]}…): rewards are the same, but "
                    "what is said about them, or about the round, differs"
                )
            raise RepetitionError(
                f"settling again gives rewards of the same values within errors, but not to the digit. Another "
                f"processor or version does that{self._other_versions()}; settle again with the same versions to "
                "compare every digit"
            )
        if not self._is_promised:
            raise RepetitionError(_NOT_PROMISED)
        return f"decisions {repeated.decisions_digest}"

    @cached_property
    def _comparison(self) -> Comparison:
        repeated = self._repeated
        decisions = repeated if isinstance(repeated, Decisions) else Decisions.of(repeated)
        return compare(Decisions.of(self._stated), decisions)

    @cached_property
    def _repeated(self) -> Settlement | Decisions:
        stated, secret = self._stated, self._secret
        options = {"coalitions": stated.settings.coalitions, **stated.options, "noise_secret": secret}
        lacks_secret = self._mechanism in WITH_NOISE and secret is None
        if lacks_secret:
            # A task needs some secret; values do not depend on it.
            options["noise_secret"] = secrets.token_hex(32)
        try:
            task = task_of(
                stated.agreement, self._submissions, **options, partial=True, deviate=True, force=self._force
            )
        except TypeError as error:
            raise RepetitionError(
                f"the options of the settlement are not those of this version ({error}); verify it with the version "
                "that settled it"
            ) from error
        decide = mediator.value_round if lacks_secret else mediator.settle
        return decide(task, FileJournal(None, task.inputs_digest), progress=False)

    def _other_versions(self) -> str:
        """Name versions that differ between the settlement's machine and this one, as the settlement states them."""
        stated, here = self._stated.environment, environment()
        other = [
            f"{name} {stated.get(name)} then, {version} here"
            for name, version in here.items()
            if stated.get(name) != version
        ]
        return f" ({', '.join(other)})" if other else ""


def _difference(stated: Award, repeated: Award, settlement: Settlement, *, is_same: bool) -> str:
    """Say in which way a reward differs from its repetition by more than chance; empty if it does not.

    Where everything before the rewards `is_same`, the search for them ends at the same settings.
    """
    if stated.digest == repeated.digest and _are_close(stated.errors, repeated.errors):
        return ""
    tolerance = 2 * settlement.options["tolerance"] + FEWEST_ERRORS * 2**0.5 * repeated.attained.error
    if abs(stated.attained.value - repeated.attained.value) > tolerance:
        return f"is stated to be worth {stated.attained} nats, and is worth {repeated.attained}"
    assert stated.reward is not None
    assert repeated.reward is not None
    same = _is_close(stated.kappa, repeated.kappa) and _is_close(stated.tau, repeated.tau)
    if is_same and not same:
        return (
            f"was made with kappa = {stated.kappa:.6g} and tau = {stated.tau:.6g}, and should be with kappa = "
            f"{repeated.kappa:.6g} and tau = {repeated.tau:.6g}"
        )
    limit = SAME_SETTINGS if same else OTHER_SETTINGS
    agreement = settlement.agreement
    said = summarise(agreement, stated.reward.posterior.draws)
    for name, quantiles in summarise(agreement, repeated.reward.posterior.draws).items():
        deviation = max((quantiles[-1] - quantiles[0]) / 3.29, 1e-300)
        distance = max(abs(value - other) for value, other in zip(said[name], quantiles, strict=True)) / deviation
        if distance > limit:
            return (
                f"has {said[name][2]:.4g} for {name} (kappa = {stated.kappa:.6g}, tau = {stated.tau:.6g}), and should "
                f"have {quantiles[2]:.4g} (kappa = {repeated.kappa:.6g}, tau = {repeated.tau:.6g})"
            )
    if stated.digest == repeated.digest:
        return f"is stated to be off by {stated.errors}, and is by {repeated.errors}"
    return ""


def _are_close(first: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Return True if typical errors are the same; versions up to 0.8 state none."""
    return not first or (first.keys() == other.keys() and all(_is_close(first[name], other[name]) for name in first))


def _is_close(first: float, other: float) -> bool:
    return abs(first - other) <= 1e-6 * max(abs(first), abs(other))
