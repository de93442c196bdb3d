"""Posteriors of an experiment: sampled with its effort, valued, and scored on test rows.

Gibbs sampling bypasses `equipoise.infer`, which would continue until the chains agree, because the paper's protocol has
a fixed length.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from equipoise._util.arrays import Floats
from equipoise._util.cores import usable_cores
from equipoise.agreement import Agreement
from equipoise.estimate import Estimate
from equipoise.inference.batch import Asked as Scenarios
from equipoise.inference.infer import infer, infer_batch
from equipoise.inference.models import conjugate_of
from equipoise.inference.models.linear import ConjugateRegression
from equipoise.inference.posterior import Posterior
from equipoise.inference.processes import spread
from equipoise.inference.released import members_of, noises_of, released_sums
from equipoise.inference.scenario import Scenario
from equipoise.models.base import Rows
from equipoise.protocol.submission import Submission
from equipoise.reward.scoring import loss_on
from equipoise.valuation.divergence import divergence, divergence_between
from equipoise.valuation.surprise import own_coordinates
from equipoise_paper.gibbs import GibbsSample, GibbsSettings, sample_by_gibbs
from equipoise_paper.releases import plain_submissions
from equipoise_paper.settings import EPSILONS, NOISE_SEED, Setting

Result = TypeVar("Result")

MAX_DRAWS_TO_PREDICT_WITH = 10_000
# A comparison searches for nearest neighbours about thirty times.
MAX_DRAWS_TO_COMPARE = 2_400


@dataclass(frozen=True)
class Asked:
    """A posterior to sample, and the seed of its random numbers."""

    scenario: Scenario
    seed: int


@dataclass(frozen=True)
class Drawn:
    """Draws of a posterior: in coordinates in which the prior is N(0, I) [chains, draws, d], and as parameters.

    `divergence` is the divergence from the prior, if the sampler estimates it.
    """

    coordinates: Floats
    parameters: dict[str, Floats]
    rhat: float
    divergence: Estimate | None = None

    @property
    def value(self) -> Estimate:
        """The divergence from the prior, from importance weights if there are any, or else from nearest neighbours."""
        return divergence(self.coordinates) if self.divergence is None else self.divergence


@dataclass(frozen=True)
class Found:
    """Measures of a posterior: its value, its loss on test rows, its similarity to another (0 at best), and R-hat."""

    value: Estimate
    loss: float
    similarity: float
    rhat: float


@dataclass(frozen=True)
class Measure:
    """A function that reduces draws to numbers; `whole` holds coordinates of the posterior to compare them with."""

    rows: Rows
    whole: Floats | None = None

    def __call__(self, drawn: Drawn) -> Found:
        number = len(drawn.parameters["weights"])
        step = -(-number // MAX_DRAWS_TO_PREDICT_WITH)
        loss = loss_on(self.rows, {name: part[::step] for name, part in drawn.parameters.items()}).value
        similarity = 0.0
        if self.whole is not None:
            similarity = -divergence_between(_fewer(self.whole), _fewer(drawn.coordinates)).value
        return Found(drawn.value, loss, similarity, drawn.rhat)


def _fewer(coordinates: Floats) -> Floats:
    chains, length, _ = coordinates.shape
    return coordinates[:, :: max(1, chains * length // MAX_DRAWS_TO_COMPARE)]


def as_drawn(drawn: Drawn) -> Drawn:
    """Return the draws themselves, for callers that need them instead of measures."""
    return drawn


def find(
    agreement: Agreement,
    sent: Sequence[Submission],
    asked: Sequence[Asked],
    sampling: GibbsSettings | int,
    measure: Callable[[Drawn], Result],
    *,
    noise_seed: int = 0,
    naive: bool = False,
) -> list[Result]:
    """Sample every posterior and measure it; return the results in the order asked.

    If `sampling` is `GibbsSettings`, Gibbs sampling runs at a fixed length; if it is a number, the library's sampler
    makes that number of draws. The library also samples naive posteriors, which ignore the noise.
    """
    if isinstance(sampling, GibbsSettings) and not naive:
        return _find_by_gibbs(agreement, sent, asked, sampling, measure, noise_seed)
    results: dict[int, Result] = {}

    def keep(index: int, posterior: Posterior) -> None:
        coordinates, rhat = own_coordinates(agreement, posterior), float(np.max(posterior.diagnostics.rhat))
        results[index] = measure(Drawn(coordinates, dict(posterior.draws), rhat, posterior.divergence))

    infer_batch(
        agreement,
        sent,
        [question.scenario for question in asked],
        method="naive" if naive else "moments",
        draws=sampling.draws if isinstance(sampling, GibbsSettings) else sampling,
        seed=[question.seed for question in asked],
        noise_seed=noise_seed,
        progress=False,
        on_result=keep,
    )
    return [results[index] for index in range(len(asked))]


def _find_by_gibbs(
    agreement: Agreement,
    sent: Sequence[Submission],
    asked: Sequence[Asked],
    settings: GibbsSettings,
    measure: Callable[[Drawn], Result],
    noise_seed: int,
) -> list[Result]:
    """Sample and measure posteriors on all cores."""
    model, sums = conjugate_of(agreement.model), released_sums(agreement, sent)
    scenarios = [question.scenario for question in asked]
    members = members_of(agreement, tuple(submission.party for submission in sent), scenarios)
    noises = noises_of(agreement, sent, members.tau, [noise_seed] * len(asked))
    tasks = [
        (
            model,
            sums,
            Scenarios(inside, question.scenario.kappa, tau, noise, settings.draws, question.seed),
            settings,
            measure,
        )
        for question, inside, tau, noise in zip(asked, *members, noises, strict=True)
    ]
    return [result for _, result in sorted(spread(_measured, tasks, usable_cores()), key=lambda pair: pair[0])]


def _measured(model: ConjugateRegression, sums: Any, asked: Any, settings: GibbsSettings, measure: Any) -> Any:
    return measure(drawn_of(model, sample_by_gibbs(model, sums, asked, settings)))


def drawn_of(model: ConjugateRegression, sampled: GibbsSample) -> Drawn:
    """Convert a Gibbs sample to coordinates and parameters."""
    flat = {name: part.reshape(-1, *part.shape[2:]) for name, part in sampled.parameters.items()}
    chains, length = sampled.parameters["variance"].shape
    coordinates = model.own_of_draws(flat)
    return Drawn(coordinates.reshape(chains, length, -1), flat, float(np.max(sampled.diagnostics.rhat)))


def prior_draws(setting: Setting, number: int) -> dict[str, Floats]:
    """Draw parameters from the prior."""
    # The method "prior" uses only the agreement, but `infer` needs submissions.
    agreement, sent = plain_submissions(setting, EPSILONS, NOISE_SEED)
    return dict(infer(agreement, sent, method="prior", draws=number).draws)


def prior_loss(setting: Setting) -> float:
    """Return the MNLP of the prior on the test rows."""
    return loss_on(setting.test_rows, prior_draws(setting, MAX_DRAWS_TO_PREDICT_WITH)).value
