"""Values of scenarios, each computed once: sampled in batches and kept in a journal.

A request (`equipoise.mediation.requests`) holds everything that its answer depends on besides the inputs of the run. A
run can therefore be repeated after a crash: it makes the same requests, and the journal has the answers to the earlier
ones. For the same reason any worker may answer: `dispatch` may hand requests to others first.
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
from equipoise.mediation.requests import PATH, Evaluation, Request
from equipoise.mediation.seeds import path_of
from equipoise.mediation.settings import SettlementSettings
from equipoise.protocol.submission import Submission
from equipoise.valuation.surprise import surprise

# Factors for the draws of posteriors that have not converged.
MORE_DRAWS = (4, 16)

# A function that has all or some of the requests answered elsewhere; the text describes the work to people.
Dispatch = Callable[[str, Sequence[Request]], None]


class Evaluator:
    """Valuer of scenarios of one agreement and its submissions; it samples those that `dispatch` leaves open.

    If an agreement is given as `believed`, its priors are used.
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
        dispatch: Dispatch | None = None,
        believed: Agreement | None = None,
    ) -> None:
        self.agreement, self.submissions = agreement, tuple(submissions)
        self._believed = believed or agreement
        self._journal, self._settings, self._processes = journal, settings, processes
        self._progress, self._dispatch = progress, dispatch
        self._kept: dict[Request, Posterior] = {}
        # Requests with more draws that replaced those of posteriors that had not converged.
        self._larger: dict[Request, Request] = {}
        # Seconds spent on values that were not in the journal.
        self.seconds = 0.0

    def appraise(self, requests: Sequence[Request], *, what: str, keep: Container[Request] = ()) -> list[Evaluation]:
        """Value scenarios; `what` describes the work in progress messages. Draws of those in `keep` stay available.

        A posterior that has not converged is sampled again with more draws, up to twice, before it is refused. By then
        the answers to all other requests are in the journal.
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

    def answers(self, requests: Sequence[Request], *, what: str, keep: Container[Request] = ()) -> list[Evaluation]:
        """Value scenarios with the requested draws only, even if these have not converged."""
        missing = self._missing(requests)
        start = perf_counter()
        if missing and self._dispatch is not None:
            self._dispatch(what, missing)
            missing = self._missing(missing)
        self._skip(set(requests).difference(missing))
        self._value_all(missing, what, keep=keep)
        self.seconds += perf_counter() - start
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Evaluation:
        try:
            return Evaluation.from_json(self._journal[request.to_json()])
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise MediationError(
                f"what the journal has of {{{', '.join(request.coalition)}}} cannot be read ({error!r}): somebody "
                "changed it. Delete the journal to begin anew"
            ) from error

    def _missing(self, requests: Sequence[Request]) -> list[Request]:
        return [request for request in dict.fromkeys(requests) if request.to_json() not in self._journal]

    def _skip(self, answered: Collection[Request]) -> None:
        """Count requests that need no sampling as done in the progress display."""
        if isinstance(self._progress, Meter):
            self._progress.skip(len(answered), sum(request.draws for request in answered))

    def posterior(self, request: Request) -> Posterior:
        """Return the draws that were valued; if they were not kept, sample the same draws again."""
        return self.posteriors([request])[0]

    def posteriors(self, requests: Sequence[Request]) -> list[Posterior]:
        """Return the draws that were valued for several requests; sample those that were not kept in one batch."""
        requests = [self._larger.get(request, request) for request in requests]
        gone = [request for request in dict.fromkeys(requests) if request not in self._kept]
        self._sample(gone, "sampling again", lambda _request, _posterior: None, keep=gone)
        return [self._kept[request] for request in requests]

    def drop(self, requests: Sequence[Request]) -> None:
        """Forget draws that are not needed any more."""
        for request in requests:
            self._kept.pop(self._larger.get(request, request), None)

    def _value(self, request: Request, posterior: Posterior) -> Evaluation:
        value = surprise(self._believed, posterior, estimator=self._settings.estimator, seed=request.seed, force=True)
        diagnostics = posterior.diagnostics
        return Evaluation(
            value,
            len(posterior),
            float(np.max(diagnostics.rhat)),
            float(min(np.min(diagnostics.ess_bulk), np.min(diagnostics.ess_tail))),
            diagnostics.problems,
        )

    def _value_all(self, requests: Iterable[Request], what: str, *, keep: Container[Request]) -> None:
        """Sample requests, and put each value into the journal as soon as it is known."""

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

        def store(index: int, posterior: Posterior) -> None:
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
            on_result=store,
            believed=self._believed,
        )

    def approximation_of(self, request: Request) -> Callable[[Request], float]:
        """Return a cheap approximation of the values of requests that have the same noise as this one."""
        approximate = approximation_of(
            self.agreement, self.submissions, self._noise_of(request), believed=self._believed
        )
        return lambda asked: approximate(asked.scenario)

    def add_up(self, request: Request) -> Releases:
        """Add up the releases of a request, with its added noise, to one release."""
        return add_up_releases(self.agreement, self.submissions, request.scenario, self._noise_of(request))

    def _noise_of(self, request: Request) -> UnitNoise:
        """Resolve the noise that a request names."""
        if request.noise_seed != PATH:
            return request.noise_seed
        # A task has a secret for this mechanism.
        assert self._settings.noise_secret is not None
        return path_of(self._settings.noise_secret)

    def _refuse(self, requests: Sequence[Request], found: Sequence[Evaluation]) -> None:
        """Refuse posteriors that have not converged; name the party whose release is to blame.

        That is the only party in all coalitions that failed; nobody is named if there are several or none.
        """
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
