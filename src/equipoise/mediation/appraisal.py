"""Values of scenarios, each computed once: sampled in batches, kept in a journal, found there again.

A request says everything its answer depends on besides the inputs of the run, its seed included. Whatever asks for
values can therefore be run again after a crash: it makes the same requests, and finds those that were answered.
For the same reason it does not matter who answers: `share` may hand requests to other workers first.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from time import perf_counter
from typing import Any, Self

import numpy as np

from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise.agreement import Agreement
from equipoise.errors import ConvergenceError
from equipoise.estimate import Estimate
from equipoise.inference.infer import infer_batch
from equipoise.inference.posterior import Posterior
from equipoise.inference.scenario import Scenario, UnitNoise
from equipoise.mediation.journal import Journal
from equipoise.mediation.settings import SettlementSettings
from equipoise.protocol.submission import Submission
from equipoise.valuation.surprise import surprise

MORE_DRAWS = (4, 16)  # times as many, where chains do not agree


@dataclass(frozen=True)
class Request:
    """A scenario to be valued; `tau` is added to every member's statistic, as noise `noise_seed` (`UnitNoise`).

    `extra` names members to whose statistics more is added.
    """

    coalition: tuple[str, ...]
    draws: int
    seed: int
    kappa: float = 1.0
    tau: float = 0.0
    noise_seed: UnitNoise = 0
    extra: tuple[tuple[str, float], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain values: the key of its answer in a journal."""
        return asdict(self) | {"coalition": list(self.coalition), "extra": [list(one) for one in self.extra]}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        numbers = {name: float(document[name]) for name in ("kappa", "tau")}  # 1 and 1.0 would be two keys
        extra = tuple((party, float(tau)) for party, tau in document["extra"])
        return cls(**document | numbers | {"coalition": tuple(document["coalition"]), "extra": extra})

    @property
    def scenario(self) -> Scenario:
        """What the engine is asked."""
        tau = dict.fromkeys(self.coalition, self.tau) if self.tau else {}
        return Scenario(self.coalition, self.kappa, tau | {party: self.tau + more for party, more in self.extra})


@dataclass(frozen=True)
class Appraisal:
    """A scenario's value, from so many draws; `problems` say why they should not be relied on."""

    value: Estimate
    draws: int
    rhat: float
    ess: float
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain numbers and strings."""
        return asdict(self) | {"problems": list(self.problems)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(**document | {"value": Estimate(**document["value"]), "problems": tuple(document["problems"])})


@dataclass(frozen=True)
class Pooled:
    """A value from several sets of independent draws, each counted by its size."""

    parts: tuple[Appraisal, ...]

    @property
    def draws(self) -> int:
        """All draws."""
        return sum(part.draws for part in self.parts)

    @property
    def value(self) -> Estimate:
        """Their weighted mean."""
        shares = np.array([part.draws for part in self.parts]) / self.draws
        values = np.array([part.value.value for part in self.parts])
        errors = np.array([part.value.error for part in self.parts])
        return Estimate(float(shares @ values), float(np.sqrt(np.sum((shares * errors) ** 2))))

    def __add__(self, part: Appraisal) -> "Pooled":
        return Pooled((*self.parts, part))


Share = Callable[[str, Sequence[Request]], None]  # has requests answered elsewhere, all or some; the text is for people


class Appraiser:
    """Values scenarios of one agreement and its submissions; what `share` leaves open is sampled here.

    With the priors of another agreement, `believed`, if there is one.
    """

    def __init__(
        self,
        agreement: Agreement,
        submissions: Sequence[Submission],
        journal: Journal,
        settings: SettlementSettings,
        *,
        processes: int | None = None,
        progress: bool | None = None,
        share: Share | None = None,
        believed: Agreement | None = None,
    ) -> None:
        self.agreement, self.submissions = agreement, tuple(submissions)
        self._believed = believed or agreement
        self._journal, self._settings, self._processes = journal, settings, processes
        self._progress, self._share = progress, share
        self._kept: dict[Request, Posterior] = {}
        self._larger: dict[Request, Request] = {}  # what was asked instead, where more draws were needed
        self.seconds = 0.0  # spent on values that were not in the journal

    def appraise(self, requests: Sequence[Request], *, what: str, keep: Container[Request] = ()) -> list[Appraisal]:
        """Value scenarios; `what` names the work for people who wait. `posterior` has the draws of those in `keep`.

        A posterior that has not converged is sampled with more draws, twice, before it is refused; by then all others
        are finished and in the journal.
        """
        found = self.answers(requests, what=what, keep=keep)
        for factor in MORE_DRAWS:
            doubtful = [request for request, answer in zip(requests, found, strict=True) if answer.problems]
            if not doubtful or self._settings.force:
                break
            larger = {request: replace(request, draws=factor * request.draws) for request in doubtful}
            self._larger |= larger
            kept = [larger[request] for request in doubtful if request in keep]
            better = dict(zip(doubtful, self.answers(list(larger.values()), what=what, keep=kept), strict=True))
            found = [better.get(request, answer) for request, answer in zip(requests, found, strict=True)]
        if not self._settings.force:
            self._refuse(requests, found)
        return found

    def answers(self, requests: Sequence[Request], *, what: str, keep: Container[Request] = ()) -> list[Appraisal]:
        """Value scenarios with the draws asked for and no more, whether these have converged or not."""
        missing = self._missing(requests)
        start = perf_counter()
        if missing and self._share is not None:
            self._share(what, missing)
            missing = self._missing(missing)
        self._sample(missing, what, self._value, keep=keep)
        self.seconds += perf_counter() - start
        return [Appraisal.from_json(self._journal[request.to_json()]) for request in requests]

    def _missing(self, requests: Sequence[Request]) -> list[Request]:
        return [request for request in dict.fromkeys(requests) if request.to_json() not in self._journal]

    def posterior(self, request: Request) -> Posterior:
        """The very draws that were valued; sampled again if they are no longer there."""
        return self.posteriors([request])[0]

    def posteriors(self, requests: Sequence[Request]) -> list[Posterior]:
        """As `posterior`, all at once."""
        requests = [self._larger.get(request, request) for request in requests]
        gone = [request for request in dict.fromkeys(requests) if request not in self._kept]
        self._sample(gone, "sampling again", lambda _request, _posterior: None, keep=gone)
        return [self._kept[request] for request in requests]

    def drop(self, requests: Sequence[Request]) -> None:
        """Forget draws that nobody will ask for."""
        for request in requests:
            self._kept.pop(self._larger.get(request, request), None)

    def _value(self, request: Request, posterior: Posterior) -> None:
        value = surprise(self._believed, posterior, estimator=self._settings.estimator, seed=request.seed, force=True)
        found = posterior.diagnostics
        appraisal = Appraisal(
            value,
            len(posterior),
            float(np.max(found.rhat)),
            float(min(np.min(found.ess_bulk), np.min(found.ess_tail))),
            found.problems,
        )
        self._journal.put(request.to_json(), appraisal.to_json())

    def _sample(
        self,
        requests: Iterable[Request],
        what: str,
        then: Callable[[Request, Posterior], None],
        *,
        keep: Container[Request],
    ) -> None:
        def alike(request: Request) -> tuple[int, str]:
            return request.draws, str(request.noise_seed)

        for (draws, _), group in groupby(sorted(requests, key=alike), key=alike):
            batch = list(group)

            def finished(index: int, posterior: Posterior, batch: list[Request] = batch) -> None:
                if batch[index] in keep:
                    self._kept[batch[index]] = posterior
                then(batch[index], posterior)

            settings = self._settings
            infer_batch(
                self.agreement,
                self.submissions,
                [request.scenario for request in batch],
                method=settings.method,
                rule=settings.rule,
                draws=draws,
                chains=settings.chains,
                seed=[request.seed for request in batch],
                noise_seed=batch[0].noise_seed,
                processes=self._processes,
                progress=self._progress,
                label=what,
                finished=finished,
                believed=self._believed,
            )

    def _refuse(self, requests: Sequence[Request], found: Sequence[Appraisal]) -> None:
        for request, appraisal in zip(requests, found, strict=True):
            if appraisal.problems:
                who = ", ".join(request.coalition)
                raise ConvergenceError(
                    f"the posterior of {{{who}}} at kappa = {request.kappa:.4g} has not converged: "
                    f"{'; '.join(appraisal.problems)} (after {MORE_DRAWS[-1] * request.draws:,} draws). Ask for more, "
                    "or pass force=True to settle with it all the same"
                )


def derived_seed(seed: int | None, *purpose: object) -> int:
    """A seed of its own for everything that is random in a run: 52 bits, which any reader of JSON keeps."""
    return int(sha256_hex(canonical_json([seed, *purpose]))[:13], 16)


def derived_noise(secret: str, *purpose: object) -> str:
    """Noise of its own for a purpose: 128 bits of SHA-256, so that it is as hard to guess as the secret."""
    return sha256_hex(canonical_json([secret, *purpose]))[:32]
