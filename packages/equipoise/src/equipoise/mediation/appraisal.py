"""Values of scenarios, each computed once: sampled in batches, kept in a journal, found there again.

A request (`equipoise.mediation.requests`) says everything its answer depends on besides the inputs of the run. Whatever
asks for values can therefore be run again after a crash: it makes the same requests, and finds those that were
answered. For the same reason it does not matter who answers: `share` may hand requests to other workers first.
"""

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from equipoise.agreement import Agreement
from equipoise.errors import ConvergenceError, MediationError
from equipoise.inference.infer import add_up_releases, approximation_of, infer_batch
from equipoise.inference.pooling import Releases
from equipoise.inference.posterior import Posterior
from equipoise.inference.progress import Meter
from equipoise.inference.scenario import UnitNoise
from equipoise.mediation.journal import Journal
from equipoise.mediation.requests import PATH, Appraisal, Request
from equipoise.mediation.seeds import path_of
from equipoise.mediation.settings import SettlementSettings
from equipoise.protocol.submission import Submission
from equipoise.valuation.surprise import surprise

MORE_DRAWS = (4, 16)  # times as many, where chains do not agree


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
        progress: bool | Meter | None = None,
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
            doubtful = [
                request
                for request, answer in zip(requests, found, strict=True)
                if answer.problems and not answer.hopeless
            ]
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
        self._skip(set(requests).difference(missing))
        self._value_all(missing, what, keep=keep)
        self.seconds += perf_counter() - start
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Appraisal:
        try:
            return Appraisal.from_json(self._journal[request.to_json()])
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise MediationError(
                f"what the journal has of {{{', '.join(request.coalition)}}} cannot be read ({error!r}): somebody "
                "changed it. Delete the journal to begin anew"
            ) from error

    def _missing(self, requests: Sequence[Request]) -> list[Request]:
        return [request for request in dict.fromkeys(requests) if request.to_json() not in self._journal]

    def _skip(self, answered: Collection[Request]) -> None:
        """Tell who waits of what needs no sampling."""
        if isinstance(self._progress, Meter):
            self._progress.skip(len(answered), sum(request.draws for request in answered))

    def posterior(self, request: Request) -> Posterior:
        """The very draws that were valued; sampled again if they are no longer there."""
        return self.posteriors([request])[0]

    def posteriors(self, requests: Sequence[Request]) -> list[Posterior]:
        """The very draws that were valued, of several requests at once."""
        requests = [self._larger.get(request, request) for request in requests]
        gone = [request for request in dict.fromkeys(requests) if request not in self._kept]
        self._sample(gone, "sampling again", lambda _request, _posterior: None, keep=gone)
        return [self._kept[request] for request in requests]

    def drop(self, requests: Sequence[Request]) -> None:
        """Forget draws that nobody will ask for."""
        for request in requests:
            self._kept.pop(self._larger.get(request, request), None)

    def _value(self, request: Request, posterior: Posterior) -> Appraisal:
        value = surprise(self._believed, posterior, estimator=self._settings.estimator, seed=request.seed, force=True)
        found = posterior.diagnostics
        return Appraisal(
            value,
            len(posterior),
            float(np.max(found.rhat)),
            float(min(np.min(found.ess_bulk), np.min(found.ess_tail))),
            found.problems,
        )

    def _value_all(self, requests: Iterable[Request], what: str, *, keep: Container[Request]) -> None:
        """Sample requests and put what they are worth into the journal, as it comes."""

        def value(request: Request, posterior: Posterior) -> None:
            self._journal.put(request.to_json(), self._value(request, posterior).to_json())

        self._sample(requests, what, value, keep=keep)

    def _sample(
        self,
        requests: Iterable[Request],
        what: str,
        then: Callable[[Request, Posterior], None],
        *,
        keep: Container[Request],
    ) -> None:
        batch = list(requests)
        if not batch:
            return

        def finished(index: int, posterior: Posterior) -> None:
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
            draws=[request.draws for request in batch],
            chains=settings.chains,
            seed=[request.seed for request in batch],
            noise_seed=[self._noise_of(request) for request in batch],
            processes=self._processes,
            progress=self._progress,
            label=what,
            finished=finished,
            believed=self._believed,
        )

    def approximation_of(self, request: Request) -> Callable[[Request], float]:
        """Return a function that tells at little cost about what requests with this one's noise are worth."""
        approximate = approximation_of(
            self.agreement, self.submissions, self._noise_of(request), believed=self._believed
        )
        return lambda asked: approximate(asked.scenario)

    def add_up(self, request: Request) -> Releases:
        """Add the releases of a request up to one, with the noise that it adds."""
        return add_up_releases(self.agreement, self.submissions, request.scenario, self._noise_of(request))

    def _noise_of(self, request: Request) -> UnitNoise:
        """The noise that a request names."""
        if request.noise_seed != PATH:
            return request.noise_seed
        assert self._settings.noise_secret is not None  # a task has one for this mechanism
        return path_of(self._settings.noise_secret)

    def _refuse(self, requests: Sequence[Request], found: Sequence[Appraisal]) -> None:
        """Refuse posteriors that have not converged, and name the party whose release is to blame, if one is."""
        failed = {request: answer for request, answer in zip(requests, found, strict=True) if answer.problems}
        if not failed:
            return
        request, answer = min(failed.items(), key=lambda item: len(item[0].coalition))
        coalitions = [set(one.coalition) for one in failed]
        common = set.intersection(*coalitions)
        blamed = next(iter(common)) if len(common) == 1 else None
        draws = answer.draws if answer.hopeless else MORE_DRAWS[-1] * request.draws
        remedy = "Ask for more draws"
        if blamed is not None:
            remedy = f"Settle without {blamed!r}, or ask it to release again"
            alone = " by itself" if {blamed} in coalitions else " in every coalition that has not converged"
            remedy = f"The release of {blamed!r} is to blame: it is there{alone}. {remedy}"
        raise ConvergenceError(
            f"the posterior of {{{', '.join(request.coalition)}}} at kappa = {request.kappa:.4g} has not converged: "
            f"{'; '.join(answer.problems)} (after {draws:,} draws). {remedy}, or pass force=True to settle with it all "
            "the same"
        )
