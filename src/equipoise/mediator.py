"""The mediator: from an agreement and its submissions to a settlement.

Coalitions are valued, Shapley values follow, targets follow from those, and each party's reward is made to be worth its
target. Every valuation goes through a journal, so a run that was killed repeats its decisions and goes on, and several
workers can share a round: one drives it (`settle`), the others answer what it asks (`appraise`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Literal

from numpy.typing import ArrayLike

from equipoise.agreement import Agreement
from equipoise.choices import default_budget
from equipoise.coalitions import Coalitions
from equipoise.deviations import deviations
from equipoise.estimate import Estimate
from equipoise.inference.infer import DRAWS, Method, infer
from equipoise.inference.posterior import Posterior
from equipoise.inference.processes import processes_for
from equipoise.inference.scenario import Rule
from equipoise.journal import FileJournal, Journal
from equipoise.reward.making import Aim, Made, Mechanism, RewardMaker
from equipoise.reward.model import Reward
from equipoise.reward.own import own_part
from equipoise.reward.summary import summarise
from equipoise.reward.targets import PRECISION, Targets
from equipoise.settlement import Award, CoalitionValue, Settlement
from equipoise.task import Task, environment, task_of
from equipoise.utility import Rows, loss_on, scaled_rows
from equipoise.valuation.appraisal import Appraiser, Request, Sampling, Share
from equipoise.valuation.conflict import prior_conflicts
from equipoise.valuation.plausibility import Remark, impossible_magnitudes, near_duplicates, unlike_the_others
from equipoise.valuation.surprise import Estimator, similarity
from equipoise.wire import Submission

JOURNAL = "journal.jsonl"
SCENARIOS_OF_REWARDS = 12  # about; a curve and its verifications


def mediate(
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
    test: tuple[ArrayLike | None, ArrayLike] | None = None,
    noise_secret: str | None = None,
    folder: str | Path | None = None,
    processes: int | None = None,
    progress: bool | None = None,
    partial: bool = False,
    deviate: bool = False,
    force: bool = False,
) -> Settlement:
    """Settle a round: value coalitions, share by ρ-Shapley fairness, make every party's reward, audit.

    `rho` and `mechanism` are the agreement's, and all parties are one team. Others, and `teams` that partition the
    parties, are refused unless the agreement leaves them to the operator (`reward.operator_may_choose`). With
    `deviate=True` the round is settled with them all the same, and breaks promise P3. While parties of the agreement
    have not submitted, it is settled only with `partial=True`; the settlement names them (`absent`).

    The seed follows from the submissions (`equipoise.protocol.seeds`); reports say of another that it was chosen.

    `precision` is the standard error, in nats, that targets and rewards should have; a reward may miss its target by
    `tolerance` (default: twice that). With more than 12 parties coalitions are sampled, `budget` of them. `test` is
    (features, target) in the columns' own units, features None for a model that has none, to report how well each
    reward predicts. Rewards made by noise draw it from `noise_secret`, 32 hexadecimal digits, by default new ones; the
    settlement does not say which, so give them, or a `folder` that keeps them, where a run may have to be repeated.

    With a `folder`, everything finished is there at once: a run that is killed goes on where it was when called again
    with the same inputs, and at the end the folder holds the settlement and the rewards.
    """
    rows = None if test is None else scaled_rows(agreement, *test)
    task = task_of(
        agreement,
        submissions,
        seed=seed,
        rho=rho,
        mechanism=mechanism,
        teams=teams,
        estimator=estimator,
        method=method,
        rule=rule,
        draws=draws,
        chains=chains,
        precision=precision,
        tolerance=tolerance,
        budget=budget,
        noise_secret=noise_secret,
        folder=folder,
        partial=partial,
        deviate=deviate,
        force=force,
    )
    with FileJournal(None if folder is None else Path(folder) / JOURNAL, task.inputs) as journal:
        settlement = settle(task, journal, test_rows=rows, processes=processes, progress=progress)
    if folder is not None:
        settlement.save(folder)
    return settlement


def settle(
    task: Task,
    journal: Journal,
    *,
    test_rows: Rows | None = None,
    processes: int | None = None,
    progress: bool | None = None,
    share: Share | None = None,
) -> Settlement:
    """Settle a checked round with the answers of a journal, which must be of its inputs, and add those it lacks.

    Before anything is sampled, `share` is called with what the work is and the requests that have no answers yet; those
    it gets answered in the journal, by other workers' `appraise`, are not sampled here. Decisions do not depend on it.
    """
    if processes is None:
        # A round is many batches: workers that are started for the first one serve them all.
        number = len(task.parties)
        processes = processes_for((2**number if task.exact else default_budget(number)) + SCENARIOS_OF_REWARDS)
    appraiser = _appraiser(task, journal, processes=processes, progress=progress, share=share)
    return _Round(task, appraiser).settle(test_rows)


def appraise(
    task: Task,
    requests: Sequence[Request],
    journal: Journal,
    *,
    processes: int | None = None,
    progress: bool | None = None,
) -> None:
    """Put the answers of requests into a journal, as `settle` would.

    An answer may say that its posterior has not converged; it is for whoever drives the round to ask for more draws.
    """
    appraiser = _appraiser(task, journal, processes=processes, progress=progress)
    appraiser.answers(requests, what=f"answering {len(requests)} request{'s' * (len(requests) != 1)}")


def _appraiser(
    task: Task, journal: Journal, *, processes: int | None, progress: bool | None, share: Share | None = None
) -> Appraiser:
    choices = task.choices
    sampling = Sampling(choices.estimator, choices.method, choices.rule, choices.chains, processes, task.force)
    return Appraiser(task.agreement, task.submissions, journal, sampling, progress=progress, share=share)


class _Round:
    """One settlement in the making."""

    def __init__(self, task: Task, appraiser: Appraiser) -> None:
        self.task, self.appraiser = task, appraiser
        self.agreement, self.submissions, self.options = task.agreement, task.submissions, task.choices
        self.parties = task.parties
        found = deviations(
            self.agreement, rho=self.options.rho, mechanism=self.options.mechanism, teams=self.options.teams
        )
        self.deviations = tuple(one.for_parties for one in found)
        self.begun = perf_counter()
        self.coalitions = Coalitions(task, appraiser)
        self.maker = RewardMaker(
            appraiser,
            seed=self.options.seed,
            noise_secret=task.noise_of_this_round,
            draws=self.options.draws,
            precision=self.options.precision,
            tolerance=self.options.tolerance,
        )
        self.prior = infer(
            self.agreement, self.submissions, method="prior", draws=self.options.draws, seed=self.options.seed
        )
        self.remarks: list[Remark] = []
        self.timings: dict[str, float] = {}

    def settle(self, rows: Rows | None) -> Settlement:
        exact = self.task.exact
        with _timed(self.timings, "valuing coalitions"):
            shapley, targets = self.coalitions.shares()
        with _timed(self.timings, "making rewards"):
            awards: dict[str, Award] = {}
            for team in self.options.teams:
                awards |= self._awards(team, targets, rows)
        with _timed(self.timings, "plausibility"):
            self._look_for_oddities()
        self.timings["all"] = perf_counter() - self.begun
        self.timings["sampling"] = self.appraiser.seconds
        return Settlement(
            agreement=self.agreement,
            contributions=self.task.contributions,
            options=self.options.to_json() | {"noise_secret": None},  # nobody who reads the settlement needs it
            teams=self.options.teams,
            coalitions=tuple(CoalitionValue.of(members, pooled) for members, pooled in self.coalitions.known.items()),
            exact=exact,
            shapley={party: shapley[index] for index, party in enumerate(self.parties)},
            shapley_covariance=tuple(tuple(map(float, row)) for row in shapley.covariance),
            nothing=tuple(party for party, useless in zip(self.parties, targets.nothing, strict=True) if useless),
            rho=targets.rho,
            rational_rho=targets.rational_rho,
            stable_rho=self.coalitions.stability(shapley, targets) if exact and len(self.options.teams) == 1 else None,
            curve=tuple(self.maker.points),
            awards={party: awards[party] for party in self.parties},
            prior=summarise(self.agreement, self.prior.draws),
            remarks=tuple(self.remarks),
            environment=environment(),
            timings=self.timings,
        )

    def _awards(self, team: tuple[str, ...], targets: Targets, rows: Rows | None) -> dict[str, Award]:
        whole = self.coalitions.known[team].value
        whole_request = self.coalitions.request(team)
        places = {party: self.parties.index(party) for party in team}
        rewards: dict[str, Made] = {}
        for party, place in places.items():
            if targets.falls_back[place]:
                rewards[party] = (self.coalitions.request((party,)), self.coalitions.known[party,].value, ())
            elif targets.whole[place]:  # the best, and who ties with it
                rewards[party] = (whole_request, whole, ())
        rest = {party: Aim.of(targets, place) for party, place in places.items() if party not in rewards}
        rewards |= self.maker.make(team, rest, whole, self.options.mechanism)
        singles = [self.coalitions.request((party,)) for party in team if self.coalitions.is_shown((party,))]
        self.appraiser.posteriors(  # all at once, if they are gone
            [whole_request, *singles, *(request for request, _, _ in rewards.values())]
        )
        grand = self.appraiser.posterior(whole_request)
        return {
            party: self._award(team, party, targets[place], rewards[party], grand, rows)
            for party, place in places.items()
        }

    def _award(
        self,
        team: tuple[str, ...],
        party: str,
        target: Estimate,
        made: Made,
        grand: Posterior,
        rows: Rows | None,
    ) -> Award:
        request, attained, notes = made
        drawn = self.appraiser.posterior(request)
        posterior = own_part(self.agreement, drawn)
        if request.tau:
            posterior = replace(posterior, noise_seed=0)  # whoever knew it could take the added noise away again
        notes += tuple(f"not converged: {problem}" for problem in posterior.diagnostics.problems)
        reward = Reward(party, self.agreement, posterior, attained, self.deviations)
        epsilons = {one.party: one.stated.epsilon for one in self.submissions if one.party in request.coalition}
        compared = {"reward": posterior, "team": grand}
        if self.coalitions.is_shown((party,)):
            compared = {"alone": self.appraiser.posterior(self.coalitions.request((party,))), **compared}
        return Award(
            party=party,
            team=team,
            alone=self.coalitions.known[party,].value,
            target=target,
            attained=attained,
            similarity=similarity(self.agreement, drawn, grand, force=True),
            kappa=request.kappa,
            tau=request.tau,
            within_tolerance=abs(attained.value - target.value) <= self.options.tolerance,
            epsilons=epsilons,
            digest=reward.digest,
            posteriors={name: summarise(self.agreement, one.draws) for name, one in compared.items()},
            losses={}
            if rows is None
            else {name: loss_on(rows, one.draws) for name, one in {"prior": self.prior, **compared}.items()},
            notes=notes,
            falls_back=request.coalition != team,
            reward=reward,
        )

    def _look_for_oddities(self) -> None:
        # Everybody's posterior is at hand if they are one team, and sampled for this if not.
        everybody = self.appraiser.posterior(self.coalitions.request(self.parties))
        self.remarks += impossible_magnitudes(self.agreement, self.submissions)
        self.remarks += prior_conflicts(self.agreement, everybody)
        if len(self.parties) > 1:
            self.remarks += unlike_the_others(self.agreement, self.submissions)
            self.remarks += near_duplicates(self.agreement, self.submissions, everybody)


@contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    """Seconds spent within a block, under a name."""
    start = perf_counter()
    yield
    timings[name] = perf_counter() - start
