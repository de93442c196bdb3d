"""The mediator: from an agreement and its submissions to a settlement.

Coalitions are valued, Shapley values follow, targets follow from those, and each party's reward is made to be worth its
target. Every valuation goes through a journal, so a run that was killed repeats its decisions and goes on, and several
workers can share a round: one drives it (`settle`), the others answer what it asks (`appraise`).
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from equipoise._util.cores import usable_cores
from equipoise.agreement import Agreement
from equipoise.estimate import Estimate
from equipoise.inference.infer import infer
from equipoise.inference.posterior import Posterior
from equipoise.inference.progress import Meter, meter
from equipoise.mediation.appraisal import Dispatch, Evaluator
from equipoise.mediation.audit import audited
from equipoise.mediation.coalitions import Coalitions
from equipoise.mediation.cost import planned_posteriors
from equipoise.mediation.decisions import Decisions
from equipoise.mediation.findings import Remark
from equipoise.mediation.journal import FileJournal, Journal
from equipoise.mediation.other_exponents import likely_rows, with_error_curves
from equipoise.mediation.plausibility import impossible_magnitudes, near_duplicates, prior_conflicts, unlike_the_others
from equipoise.mediation.requests import Request
from equipoise.mediation.rewards import MadeReward, RewardGoal, RewardMaker, requests_for_others
from equipoise.mediation.settings import SettlementSettings
from equipoise.mediation.settlement import Award, CoalitionValue, Settlement
from equipoise.mediation.task import Task, environment, task_of
from equipoise.models.base import Rows
from equipoise.protocol.submission import Submission
from equipoise.reward.model import Reward
from equipoise.reward.nuisance import own_part
from equipoise.reward.scoring import loss_on, scaled_rows, typical_errors
from equipoise.reward.summary import summarise
from equipoise.reward.sums import OthersSums
from equipoise.reward.targets import Targets
from equipoise.valuation.surprise import own_coordinates, similarity

JOURNAL = "journal.jsonl"


def mediate(
    agreement: Agreement | str | Path,
    submissions: Sequence[Submission | str | Path],
    settings: SettlementSettings | None = None,
    *,
    folder: str | Path | None = None,
    test: tuple[ArrayLike | None, ArrayLike] | None = None,
    processes: int | None = None,
    progress: bool | None = None,
    **overrides: Any,
) -> Settlement:
    """Settle a round: value coalitions, share by ρ-Shapley fairness, make every party's reward, audit.

    Parameters
    ----------
    agreement : Agreement or path
        The agreement of the parties.
    submissions : sequence of Submission or path
        One of each party. While parties of the agreement are missing, the round is settled only with `partial=True`;
        the settlement names them (`absent`).
    settings : SettlementSettings, optional
        Settings of the settlement; by default as agreed.
    folder : path, optional
        Folder that keeps every result as soon as it is finished. A run that was killed continues when it is called
        again with the same inputs. At the end the folder holds the settlement and the rewards. With another `rho`, the
        stored values are used, and the settlement is replaced.
    test : (features, target), optional
        Rows in the columns' own units, to report how well each reward predicts; features are None for a model that has
        none.
    processes : int, optional
        Worker processes to sample in, as in `infer_batch`; by default threads share the cores.
    progress : bool, optional
        Whether to show progress on standard error: one bar for the whole round, with the time left, on a terminal, and
        lines elsewhere. By default the bar, on a terminal only.
    **overrides
        Single settings by name (`SettlementSettings`): `seed`, `rho`, `mechanism`, `teams`, `estimator`, `method`,
        `rule`, `draws`, `chains`, `precision`, `tolerance`, `coalitions`, `budget`, `noise_secret`, `partial`,
        `deviate`, `force`.

    Returns
    -------
    Settlement
        Values, Shapley values, targets, awards and the audit, each number with its standard error.

    Raises
    ------
    MediationError
        The settings do not fit the round or deviate from the agreement, or parties are missing.
    SubmissionError
        A submission is forged, or does not belong to the agreement.
    ConvergenceError
        A posterior has not converged, not even with four and sixteen times the draws, and `force` is not set.

    Examples
    --------
    >>> settlement = eq.mediate("agreement.toml", ["north.json", "south.json"])  # doctest: +SKIP
    >>> print(settlement.awards["north"].attained)  # doctest: +SKIP
    """
    agreed = Agreement.of(agreement)
    sent = [one if isinstance(one, Submission) else Submission.load(one) for one in submissions]
    rows = None if test is None else scaled_rows(agreed, *test)
    task = task_of(agreed, sent, settings, folder=folder, **overrides)
    path = None if folder is None else Path(folder) / JOURNAL
    with FileJournal(path, task.inputs_digest, task.values_digest) as journal:
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
    dispatch: Dispatch | None = None,
) -> Settlement:
    """Settle a checked round with the answers in a journal of its inputs, and add answers that are missing there.

    Before anything is sampled, `dispatch` is called with a description of the work and the requests without answers.
    Other workers may then answer them in the journal by `appraise`; only the rest is sampled here. Decisions do not
    depend on this.
    """
    planned = planned_posteriors(len(task.parties), task.settings, task.mechanism)
    with meter(progress, sum(planned) * task.settings.draws) as shown:
        appraiser = _appraiser(task, journal, processes=processes, progress=shown or False, dispatch=dispatch)
        settlement = _Round(task, appraiser, shown).settle(test_rows)
    return audited(settlement)


def value_round(
    task: Task, journal: Journal, *, processes: int | None = None, progress: bool | None = None
) -> Decisions:
    """Make all decisions about a checked round that need no secret; make no rewards."""
    appraiser = _appraiser(task, journal, processes=processes, progress=progress)
    coalitions = Coalitions(task, appraiser)
    shapley, targets = coalitions.shares()
    return Decisions(
        values={frozenset(members): pooled.value for members, pooled in coalitions.known.items()},
        shapley={party: shapley[index] for index, party in enumerate(task.parties)},
        targets={party: targets[index] for index, party in enumerate(task.parties)},
        rho=targets.rho,
        nothing=frozenset(
            party for party, useless in zip(task.parties, targets.nothing.tolist(), strict=True) if useless
        ),
    )


def appraise(
    task: Task,
    requests: Sequence[Request],
    journal: Journal,
    *,
    processes: int | None = None,
    progress: bool | None = None,
) -> None:
    """Put the answers of requests into a journal, as `settle` would.

    An answer may say that its posterior has not converged; `settle` then requests more draws.
    """
    appraiser = _appraiser(task, journal, processes=processes, progress=progress)
    appraiser.answers(requests, what=f"answering {len(requests)} request{'s' * (len(requests) != 1)}")


def _appraiser(
    task: Task,
    journal: Journal,
    *,
    processes: int | None,
    progress: bool | Meter | None,
    dispatch: Dispatch | None = None,
) -> Evaluator:
    return Evaluator(
        task.agreement,
        task.submissions,
        journal,
        task.settings,
        processes=processes,
        progress=progress,
        dispatch=dispatch,
    )


class _Round:
    """One settlement in the making."""

    def __init__(self, task: Task, appraiser: Evaluator, shown: Meter | None = None) -> None:
        self.task, self.appraiser, self.shown = task, appraiser, shown
        self.agreement, self.submissions, self.parties = task.agreement, task.submissions, task.parties
        self.deviations = tuple(one.for_parties for one in task.deviations)
        self.begun = perf_counter()
        self.coalitions = Coalitions(task, appraiser)
        self.maker = RewardMaker(task, appraiser)
        self.prior = infer(self.agreement, self.submissions, method="prior", draws=task.settings.draws, seed=task.seed)
        self.remarks: list[Remark] = []
        self.timings: dict[str, float] = {}

    def settle(self, rows: Rows | None) -> Settlement:
        with _timed(self.timings, "valuing coalitions"):
            shapley, targets = self.coalitions.shares()
        exact = self.coalitions.complete
        if self.shown:
            _, rewards = planned_posteriors(len(self.parties), self.task.settings, self.task.mechanism)
            self.shown.expect(rewards * self.task.settings.draws)
        with _timed(self.timings, "making rewards"):
            awards: dict[str, Award] = {}
            for team in self.task.teams:
                awards |= self._awards(team, targets, rows)
        with _timed(self.timings, "plausibility"):
            self._check_plausibility()
        settlement = Settlement(
            agreement=self.agreement,
            contributions=self.task.contributions,
            options=self.task.options,
            teams=self.task.teams,
            coalitions=tuple(CoalitionValue.of(members, pooled) for members, pooled in self.coalitions.known.items()),
            exact=exact,
            shapley={party: shapley[index] for index, party in enumerate(self.parties)},
            shapley_covariance=tuple(tuple(map(float, row)) for row in shapley.covariance),
            nothing=tuple(party for party, useless in zip(self.parties, targets.nothing, strict=True) if useless),
            rho=targets.rho,
            rational_rho=targets.rational_rho,
            stable_rho=self.coalitions.stability(shapley, targets) if exact and len(self.task.teams) == 1 else None,
            curve=tuple(self.maker.points),
            awards={party: awards[party] for party in self.parties},
            prior=summarise(self.agreement, self.prior.draws),
            remarks=tuple(self.remarks),
            environment=environment(),
            timings=self.timings,
        )
        with _timed(self.timings, "other exponents"):
            settlement = with_error_curves(
                settlement, self.submissions, self.appraiser, self.coalitions, self.maker, self.prior, rows
            )
        self.timings["all"] = perf_counter() - self.begun
        self.timings["sampling"] = self.appraiser.seconds
        return settlement

    def _awards(self, team: tuple[str, ...], targets: Targets, rows: Rows | None) -> dict[str, Award]:
        whole = self.coalitions.known[team].value
        whole_request = self.coalitions.request(team)
        places = {party: self.parties.index(party) for party in team}
        rewards: dict[str, MadeReward] = {}
        for party, place in places.items():
            if targets.falls_back[place]:
                rewards[party] = (self.coalitions.request((party,)), self.coalitions.known[party,].value, ())
            # The party with the largest Shapley value, and those that tie with it.
            elif targets.whole[place]:
                rewards[party] = (whole_request, whole, ())
        rest = {party: RewardGoal.of(targets, place) for party, place in places.items() if party not in rewards}
        rewards |= self.maker.make(team, rest, whole, self.task.mechanism)
        singles = [self.coalitions.request((party,)) for party in team if self.coalitions.is_shown((party,))]
        others = requests_for_others(self.task.seed, self.task.settings.draws, rewards)
        asked = [one for one in others.values() if not self.task.hands_sums(one)]
        self.appraiser.appraise(asked, what="others’ evidence", keep=asked)
        # If draws were not kept, this samples them in one batch.
        self.appraiser.posteriors([whole_request, *singles, *asked, *(request for request, _, _ in rewards.values())])
        grand = self.appraiser.posterior(whole_request)

        def award(party: str) -> Award:
            target = targets[places[party]]
            return self._award(team, party, target, rewards[party], others.get(party), grand, rows)

        with threadpool_limits(1), ThreadPoolExecutor(usable_cores()) as pool:
            return dict(zip(team, pool.map(award, team), strict=True))

    def _award(
        self,
        team: tuple[str, ...],
        party: str,
        target: Estimate,
        made: MadeReward,
        others: Request | None,
        grand: Posterior,
        rows: Rows | None,
    ) -> Award:
        request, attained, notes = made
        drawn = self.appraiser.posterior(request)
        posterior = own_part(self.agreement, drawn)
        if request.tau:
            # A party that knew the seed could remove the added noise.
            posterior = replace(posterior, noise_seed=0)
        notes += tuple(f"not converged: {problem}" for problem in posterior.diagnostics.problems)
        evidence, sums = None, None
        if others is not None and self.task.hands_sums(others):
            sums = OthersSums.of(self.appraiser.add_up(others))
        elif others is not None:
            evidence = own_coordinates(self.agreement, self.appraiser.posterior(others))
        (release,) = (one for one in self.submissions if one.party == party)
        reward = Reward(party, self.agreement, posterior, attained, self.deviations, evidence, release, sums)
        epsilons = {one.party: one.stated.epsilon for one in self.submissions if one.party in request.coalition}
        compared = {"reward": posterior, "team": grand}
        if self.coalitions.is_shown((party,)):
            compared = {"alone": self.appraiser.posterior(self.coalitions.request((party,))), **compared}
        likely = None if rows else likely_rows(self.agreement, release)
        return Award(
            party=party,
            team=team,
            alone=self.coalitions.known[party,].value,
            target=target,
            attained=attained,
            similarity=similarity(self.agreement, drawn, grand, force=True),
            kappa=request.kappa,
            tau=request.tau,
            within_tolerance=abs(attained.value - target.value) <= self.task.tolerance,
            epsilons=epsilons,
            digest=reward.digest,
            posteriors={name: summarise(self.agreement, one.draws) for name, one in compared.items()},
            losses={}
            if rows is None
            else {name: loss_on(rows, one.draws) for name, one in {"prior": self.prior, **compared}.items()},
            errors=typical_errors(
                self.agreement.model, {name: one.draws for name, one in compared.items()}, rows, likely
            ),
            notes=notes,
            falls_back=request.coalition != team,
            reward=reward,
        )

    def _check_plausibility(self) -> None:
        # Everybody's posterior is at hand if they are one team, and sampled for this if not.
        everybody = self.appraiser.posterior(self.coalitions.request(self.parties))
        self.remarks += impossible_magnitudes(self.agreement, self.submissions)
        self.remarks += prior_conflicts(self.agreement, self.submissions, everybody)
        if len(self.parties) > 1:
            self.remarks += unlike_the_others(self.agreement, self.submissions)
            self.remarks += near_duplicates(self.agreement, self.submissions, everybody)


@contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    """Record the seconds spent within a block under a name."""
    start = perf_counter()
    yield
    timings[name] = perf_counter() - start
