"""A round to settle: an agreement, its submissions and the settings, all checked and resolved.

A task identifies its inputs by a digest, so that answers in a journal are only used for the inputs they came from.
Every process that works on a task computes the same digest.
"""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise._util.files import is_writable_folder
from equipoise._version import __version__
from equipoise.agreement import Agreement
from equipoise.errors import MediationError
from equipoise.inference.scenario import check_method, check_rule
from equipoise.mediation.folders import make_passable
from equipoise.mediation.noise_secret import noise_secret_of
from equipoise.mediation.requests import Request
from equipoise.mediation.seeds import seed_of
from equipoise.mediation.settings import (
    Deviation,
    Mechanism,
    Rho,
    SettlementSettings,
    Teams,
    check_budget,
    check_coalitions,
    check_teams,
    deviations,
)
from equipoise.mediation.settlement import Contribution
from equipoise.models.regression import Regression
from equipoise.protocol.submission import Submission, validate_submissions
from equipoise.reward.targets import TargetPolicy, min_contribution_factor

FIRST_DRAWS, FEW_PARAMETERS = 1_280, 8
# Settings that determine the requests, but not the answer to any request.
REQUESTED = ("rho", "coalitions", "budget")


@dataclass(frozen=True)
class Task:
    """A round to settle, as `task_of` makes it.

    Submissions are in the order of the agreement's parties. `settings` leave nothing to the agreement any more.
    """

    agreement: Agreement
    submissions: tuple[Submission, ...]
    settings: SettlementSettings

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties that submitted."""
        return tuple(submission.party for submission in self.submissions)

    @cached_property
    def first_draws(self) -> int:
        """Initial draws of posteriors that are only valued; the precision decides if more follow."""
        return first_draws(self.agreement, self.settings)

    @property
    def enumerates(self) -> bool:
        """True if every coalition is valued by choice; a sample may grow to all of them, too."""
        return self.settings.coalitions == "all"

    @property
    def seed(self) -> int:
        """The seed: a chosen one, or the one derived from the submissions."""
        assert self.settings.seed is not None
        return self.settings.seed

    @property
    def rho(self) -> Rho:
        """The fairness exponent: a chosen one, or as agreed."""
        assert self.settings.rho is not None
        return self.settings.rho

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that holds rewards back: a chosen one, or as agreed."""
        assert self.settings.mechanism is not None
        return self.settings.mechanism

    def hands_sums(self, others: Request) -> bool:
        """Return True if a reward carries the sum of the others' releases, with the noise added to them.

        Otherwise a reward carries draws. Sums would undo the mechanism if it is tempering, or independent noise, which
        averages out. Models without features, or with a distribution of features for each party, have no such sum.
        """
        model = self.agreement.model
        shared = isinstance(model, Regression) and getattr(model.data_prior, "scope", "shared") == "shared"
        by_moments = self.settings.method in ("auto", "moments")
        return shared and by_moments and others.kappa == 1 and self.mechanism != "noise"

    @property
    def teams(self) -> Teams:
        """The partition of the parties."""
        assert self.settings.teams is not None
        return self.settings.teams

    @property
    def tolerance(self) -> float:
        """Nats by which a reward may miss its target."""
        assert self.settings.tolerance is not None
        return self.settings.tolerance

    @property
    def deviations(self) -> tuple[Deviation, ...]:
        """Deviations of the settings from the agreement."""
        return deviations(self.agreement, rho=self.rho, mechanism=self.mechanism, teams=self.teams)

    @property
    def terms(self) -> TargetPolicy:
        """The terms by which targets follow from values."""
        fallback, precision = self.agreement.reward.fallback, self.settings.precision
        least = min_contribution_factor(len(self.submissions))
        return TargetPolicy(
            self.rho,
            fallback,
            precision,
            self.tolerance,
            self.mechanism == "degraded",
            least,
            self.agreement.reward.rule,
        )

    @cached_property
    def contributions(self) -> dict[str, Contribution]:
        """Parts of each party's submission that decisions depend on."""
        return {one.party: Contribution.of(one) for one in self.submissions}

    @property
    def options(self) -> dict[str, Any]:
        """The settings as a settlement states them: without the secret, which its readers do not need."""
        return self.settings.options | {"noise_secret": None}

    @property
    def noise_of_this_round(self) -> str | None:
        """Secret that this round's noise is drawn from: a digest of the noise secret and all inputs.

        A folder that is settled again keeps its noise secret. If the noise were the same with other inputs, a party
        that got two rewards with different τ could remove it.
        """
        secret = self.settings.noise_secret
        if secret is None:
            return None
        digests = {party: one.digest for party, one in self.contributions.items()}
        return sha256_hex(
            canonical_json([secret, self.agreement.identity_digest, digests, self.options, self.settings.force])
        )

    @cached_property
    def inputs_digest(self) -> str:
        """Digest of all inputs of the settlement."""
        return self._digest(self.settings.options)

    @cached_property
    def values_digest(self) -> str:
        """Digest of all inputs that an answer depends on besides its request; some settings only determine requests.

        A request identifies its own reward's noise (`noise_of_this_round`).
        """
        return self._digest({name: value for name, value in self.settings.options.items() if name not in REQUESTED})

    def _digest(self, options: dict[str, Any]) -> str:
        return sha256_hex(
            canonical_json(
                {
                    "agreement": self.agreement.identity_digest,
                    "submissions": {party: one.digest for party, one in self.contributions.items()},
                    "options": options,
                    # These two decide which draws are used.
                    "force": self.settings.force,
                    "environment": environment(),
                }
            )
        )


def first_draws(agreement: Agreement, settings: SettlementSettings) -> int:
    """Return the initial number of draws for coalitions other than single parties and teams.

    Nearest neighbours estimate a smoothed density. This makes values too large by an amount that standard errors do not
    cover: it grows with the number of parameters and falls with that of draws. The bias must be about the same for
    coalitions and teams.
    """
    few = len(agreement.model.coordinate_names()) <= FEW_PARAMETERS
    return min(settings.draws, FIRST_DRAWS) if few else settings.draws


def task_of(
    agreement: Agreement,
    submissions: Sequence[Submission],
    settings: SettlementSettings | None = None,
    *,
    folder: str | Path | None = None,
    **overrides: Any,
) -> Task:
    """Check a round and resolve its settings before anything is sampled; settings are those of `mediate`.

    If rewards are made by noise and no secret is given, the secret in `folder` is used, or made there.
    """
    settings = SettlementSettings.of(settings, overrides)
    if not submissions:
        raise MediationError("there are no submissions; a settlement needs at least one party's")
    submissions = validate_submissions(agreement, submissions)
    parties = tuple(submission.party for submission in submissions)
    seed = settings.seed
    if seed is None:
        seed = seed_of(agreement.identity_digest, {one.party: Contribution.of(one).digest for one in submissions})
    check_rule(settings.rule, check_method(settings.method, agreement.model))
    coalitions = check_coalitions(len(parties), settings.coalitions)
    resolved = settings.model_copy(
        update={
            "seed": seed,
            "rho": agreement.reward.rho if settings.rho is None else settings.rho,
            "mechanism": settings.mechanism or agreement.reward.mechanism,
            "teams": check_teams(parties, settings.teams),
            "tolerance": settings.tolerance or 2 * settings.precision,
            "coalitions": coalitions,
            "budget": check_budget(len(parties), coalitions, settings.budget),
        }
    )
    if not settings.partial:
        _check_complete(agreement, parties)
    task = Task(agreement, submissions, resolved)
    if not settings.deviate:
        _check_agreed(task)
    secret_folder = None if folder is None else _ensure_folder(Path(folder))
    secret = noise_secret_of(task.mechanism, settings.noise_secret, secret_folder, agreement.identity_digest)
    return Task(agreement, submissions, resolved.model_copy(update={"noise_secret": secret}))


def _check_complete(agreement: Agreement, parties: Sequence[str]) -> None:
    """Refuse a round in which parties of the agreement are missing."""
    if missing := [name for name in agreement.party_names if name not in parties]:
        raise MediationError(
            f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} not submitted; wait, or settle without "
            "with --partial (partial=True)"
        )


def _check_agreed(task: Task) -> None:
    """Refuse choices that the agreement does not leave to the operator."""
    if task.deviations:
        options = ", ".join(deviation.option for deviation in task.deviations)
        allowed = ", ".join(f'"{deviation.option}"' for deviation in task.deviations)
        words = "; ".join(deviation.words for deviation in task.deviations)
        raise MediationError(
            f"this would leave the agreement: {words}. Leave {options} out, agree anew "
            f"with `operator_may_choose = [{allowed}]` under [reward], or settle all the same with --deviate "
            "(deviate=True), which every report shows as a broken promise"
        )


def environment() -> dict[str, str]:
    """Return the versions of Equipoise, Python and libraries that results depend on."""
    libraries = {name: version(name) for name in ("numpy", "scipy")}
    return {"equipoise": __version__, "python": platform.python_version(), **libraries}


def _ensure_folder(folder: Path) -> Path:
    try:
        make_passable(folder)
    except OSError as error:
        raise MediationError(f"cannot make the folder {str(folder)!r}: {error.strerror}; choose another") from error
    if not is_writable_folder(folder):
        raise MediationError(f"cannot write into {str(folder)!r}; choose another folder")
    return folder
