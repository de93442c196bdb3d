"""What there is to settle: an agreement, its submissions and the settings, all checked and resolved.

A task names its inputs by a digest, so that answers kept in a journal are only ever used for the inputs they came from.
Everybody who works on a task, in whatever process, computes the same digest from it.
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
from equipoise.reward.targets import Terms, least_among

FIRST_DRAWS, FEW_PARAMETERS = 1_280, 8
REQUESTED = ("rho", "coalitions", "budget")  # settings that decide what is requested, and no answer


@dataclass(frozen=True)
class Task:
    """A round to settle, as `task_of` makes it.

    Submissions are in the order of the agreement's parties; in `settings` nothing is left to the agreement any more.
    """

    agreement: Agreement
    submissions: tuple[Submission, ...]
    settings: SettlementSettings

    @property
    def parties(self) -> tuple[str, ...]:
        """Everybody who submitted."""
        return tuple(submission.party for submission in self.submissions)

    @cached_property
    def first_draws(self) -> int:
        """Draws to begin with, of posteriors whose values alone are wanted: more follow from the precision."""
        return first_draws(self.agreement, self.settings)

    @property
    def enumerates(self) -> bool:
        """Whether every coalition is valued; a sample of them may become all, too."""
        return self.settings.coalitions == "all"

    @property
    def seed(self) -> int:
        """The seed, chosen or as it follows from the submissions."""
        assert self.settings.seed is not None
        return self.settings.seed

    @property
    def rho(self) -> Rho:
        """The fairness exponent, chosen or agreed."""
        assert self.settings.rho is not None
        return self.settings.rho

    @property
    def mechanism(self) -> Mechanism:
        """How rewards are held back, chosen or agreed."""
        assert self.settings.mechanism is not None
        return self.settings.mechanism

    def hands_sums(self, others: Request) -> bool:
        """True if a reward carries what it is made of: the sum of the others' releases, with the noise added to them.

        Draws are handed over where that would undo what holds a reward back: tempering, and independent noise, which
        averages out. Models without features, and features of each party's own, have no such sum.
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
        """How far a reward may miss its target, in nats."""
        assert self.settings.tolerance is not None
        return self.settings.tolerance

    @property
    def deviations(self) -> tuple[Deviation, ...]:
        """Where the settings leave the agreement."""
        return deviations(self.agreement, rho=self.rho, mechanism=self.mechanism, teams=self.teams)

    @property
    def terms(self) -> Terms:
        """The terms by which targets follow from values."""
        fallback, precision = self.agreement.reward.fallback, self.settings.precision
        least = least_among(len(self.submissions))
        return Terms(
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
        """What was submitted, by party, as far as decisions depend on it."""
        return {one.party: Contribution.of(one) for one in self.submissions}

    @property
    def options(self) -> dict[str, Any]:
        """The settings as a settlement states them: without the secret, which nobody who reads it needs."""
        return self.settings.options | {"noise_secret": None}

    @property
    def noise_of_this_round(self) -> str | None:
        """What added noise is drawn from: the secret, and what is settled with it.

        A folder that is settled anew keeps its secret. The same noise at another τ could be taken away by who got both.
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
        """Digest of everything that is settled from."""
        return self._digest(self.settings.options)

    @cached_property
    def values_digest(self) -> str:
        """Digest of everything an answer depends on, besides its request: some settings only decide what is requested.

        A reward's own noise is named by its request (`noise_of_this_round`).
        """
        return self._digest({name: value for name, value in self.settings.options.items() if name not in REQUESTED})

    def _digest(self, options: dict[str, Any]) -> str:
        return sha256_hex(
            canonical_json(
                {
                    "agreement": self.agreement.identity_digest,
                    "submissions": {party: one.digest for party, one in self.contributions.items()},
                    "options": options,
                    "force": self.settings.force,  # which draws are used depends on it, and on what follows
                    "environment": environment(),
                }
            )
        )


def first_draws(agreement: Agreement, settings: SettlementSettings) -> int:
    """Draws that tell the value of a coalition, neither a single party nor a team, well enough to begin with.

    Nearest neighbours see a smoothed density: values are too large by an amount that grows with the parameters and
    falls with the draws, and that no standard error has. It must be about the same for coalitions and teams.
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
    """Check everything that can be checked before anything is sampled; settings as in `mediate`.

    Where rewards are made by noise, `folder` keeps a secret that is not given; it is made if it is not there.
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
    place = None if folder is None else _ensure_folder(Path(folder))
    secret = noise_secret_of(task.mechanism, settings.noise_secret, place, agreement.identity_digest)
    return Task(agreement, submissions, resolved.model_copy(update={"noise_secret": secret}))


def _check_complete(agreement: Agreement, parties: Sequence[str]) -> None:
    """Refuse to leave somebody out by accident."""
    if missing := [name for name in agreement.party_names if name not in parties]:
        raise MediationError(
            f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} not submitted; wait, or settle without "
            "with --partial (partial=True)"
        )


def _check_agreed(task: Task) -> None:
    """Refuse choices that the agreement does not leave to the operator."""
    if found := task.deviations:
        options = ", ".join(one.option for one in found)
        allowed = ", ".join(f'"{one.option}"' for one in found)
        raise MediationError(
            f"this would leave the agreement: {'; '.join(one.words for one in found)}. Leave {options} out, agree anew "
            f"with `operator_may_choose = [{allowed}]` under [reward], or settle all the same with --deviate "
            "(deviate=True), which every report shows as a broken promise"
        )


def environment() -> dict[str, str]:
    """Versions of what computes."""
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
