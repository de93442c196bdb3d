"""What there is to settle: an agreement, its submissions and the mediator's choices, all checked.

A task names its inputs by a digest, so that answers kept in a journal are only ever used for the inputs they came from.
Everybody who works on a task, in whatever process, computes the same digest from it.
"""

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from equipoise._version import __version__
from equipoise.agreement import Agreement
from equipoise.canonical import canonical_json, sha256_hex
from equipoise.choices import (
    Choices,
    all_are_valued,
    check_budget,
    check_mechanism,
    check_positive,
    check_rho,
    check_teams,
    noise_secret_of,
)
from equipoise.deviations import deviations
from equipoise.durable import is_writable_folder
from equipoise.errors import MediationError
from equipoise.folders import make_passable
from equipoise.inference.infer import DRAWS, Method, check_settings
from equipoise.inference.runtime import on_accelerator
from equipoise.inference.scenario import Rule
from equipoise.protocol.seeds import seed_of
from equipoise.reward.making import Mechanism
from equipoise.reward.targets import PRECISION, Terms
from equipoise.settlement import Contribution
from equipoise.valuation.surprise import Estimator, check_estimator
from equipoise.wire import Submission, one_of_each


@dataclass(frozen=True)
class Task:
    """A round to settle; submissions are in the order of the agreement's parties. `task_of` makes one."""

    agreement: Agreement
    submissions: tuple[Submission, ...]
    choices: Choices
    force: bool = False  # settle with posteriors that have not converged

    @property
    def parties(self) -> tuple[str, ...]:
        """Everybody who submitted."""
        return tuple(submission.party for submission in self.submissions)

    @property
    def exact(self) -> bool:
        """Whether every coalition is valued, not a sample of them."""
        return all_are_valued(len(self.submissions))

    @property
    def terms(self) -> Terms:
        """By which targets follow from values."""
        choices = self.choices
        return Terms(choices.rho, self.agreement.reward.fallback, choices.precision, choices.tolerance)

    @cached_property
    def contributions(self) -> dict[str, Contribution]:
        """What was submitted, by party, as far as decisions depend on it."""
        return {one.party: Contribution.of(one) for one in self.submissions}

    @property
    def noise_of_this_round(self) -> str | None:
        """What added noise is drawn from: the secret, and what is settled with it.

        A folder that is settled anew keeps its secret. The same noise at another τ could be taken away by who got both.
        """
        if self.choices.noise_secret is None:
            return None
        options = replace(self.choices, noise_secret=None).to_json()
        digests = {party: one.digest for party, one in self.contributions.items()}
        return sha256_hex(
            canonical_json([self.choices.noise_secret, self.agreement.identity, digests, options, self.force])
        )

    @cached_property
    def inputs(self) -> str:
        """Digest of everything an answer depends on, besides its request."""
        return sha256_hex(
            canonical_json(
                {
                    "agreement": self.agreement.identity,
                    "submissions": {party: one.digest for party, one in self.contributions.items()},
                    "options": self.choices.to_json(),
                    "force": self.force,  # which draws are used depends on it, and on what follows
                    "environment": {**environment(), "accelerator": on_accelerator()},
                }
            )
        )


def task_of(
    agreement: Agreement,
    submissions: Sequence[Submission],
    *,
    seed: int | None = None,
    rho: float | Literal["max"] | None = None,
    mechanism: Mechanism | None = None,
    teams: Sequence[Sequence[str]] | None = None,
    estimator: Estimator = "knn-entropy",
    method: Method = "auto",
    rule: Rule | None = None,
    draws: int = DRAWS,
    chains: int | None = None,
    precision: float = PRECISION,
    tolerance: float | None = None,
    budget: int | None = None,
    noise_secret: str | None = None,
    folder: str | Path | None = None,
    partial: bool = False,
    deviate: bool = False,
    force: bool = False,
) -> Task:
    """Check everything that can be checked before anything is sampled; options as in `mediate`.

    Where rewards are made by noise, `folder` keeps a secret that is not given; it is made if it is not there.
    """
    if not submissions:
        raise MediationError("there are no submissions; a settlement needs at least one party's")
    submissions = one_of_each(agreement, submissions)
    parties = tuple(submission.party for submission in submissions)
    check_estimator(estimator)
    if seed is None:
        seed = seed_of(agreement.identity, {one.party: Contribution.of(one).digest for one in submissions})
    check_settings(agreement, method, rule, draws, chains, seed)
    choices = Choices(
        seed=int(seed),
        rho=check_rho(agreement.reward.rho if rho is None else rho),
        mechanism=check_mechanism(agreement.reward.mechanism if mechanism is None else mechanism),
        teams=check_teams(parties, teams),
        estimator=estimator,
        method=method,
        rule=rule,
        draws=int(draws),
        chains=chains if chains is None else int(chains),
        precision=check_positive("precision", precision),
        tolerance=check_positive("tolerance", 2 * precision if tolerance is None else tolerance),
        budget=check_budget(len(parties), budget),
        noise_secret=None,
    )
    if not partial:
        _check_complete(agreement, parties)
    if not deviate:
        _check_agreed(agreement, choices)
    place = None if folder is None else _made(Path(folder))
    secret = noise_secret_of(choices.mechanism, noise_secret, place)
    return Task(agreement, submissions, replace(choices, noise_secret=secret), bool(force))


def _check_complete(agreement: Agreement, parties: Sequence[str]) -> None:
    """Refuse to leave somebody out by accident."""
    if missing := [name for name in agreement.party_names if name not in parties]:
        raise MediationError(
            f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} not submitted; wait, or settle without "
            "with --partial (partial=True)"
        )


def _check_agreed(agreement: Agreement, choices: Choices) -> None:
    """Refuse choices that the agreement does not leave to the operator."""
    found = deviations(agreement, rho=choices.rho, mechanism=choices.mechanism, teams=choices.teams)
    if found:
        options = ", ".join(one.option for one in found)
        allowed = ", ".join(f'"{one.option}"' for one in found)
        raise MediationError(
            f"this would leave the agreement: {'; '.join(one.words for one in found)}. Leave {options} out, agree anew "
            f"with `operator_may_choose = [{allowed}]` under [reward], or settle all the same with --deviate "
            "(deviate=True), which every report shows as a broken promise"
        )


def environment() -> dict[str, str]:
    """Versions of what computes."""
    libraries = {name: version(name) for name in ("jax", "jaxlib", "numpy", "scipy")}
    return {"equipoise": __version__, "python": platform.python_version(), **libraries}


def _made(folder: Path) -> Path:
    try:
        make_passable(folder)
    except OSError as error:
        raise MediationError(f"cannot make the folder {str(folder)!r}: {error.strerror}; choose another") from error
    if not is_writable_folder(folder):
        raise MediationError(f"cannot write into {str(folder)!r}; choose another folder")
    return folder
