"""The mediator: from an agreement and its submissions to a settlement.

Coalitions are valued, Shapley values follow, targets follow from those, and each party's reward is made to be worth its
target. Every valuation goes through a journal, so a run that was killed repeats its decisions and goes on.
"""

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise._version import __version__
from equipoise.agreement import Agreement
from equipoise.canonical import canonical_json, sha256_hex
from equipoise.choices import (
    EXACT_UP_TO,
    Choices,
    Mechanism,
    check_budget,
    check_mechanism,
    check_positive,
    check_rho,
    check_teams,
    default_budget,
    noise_secret_of,
)
from equipoise.durable import is_writable_folder
from equipoise.errors import MediationError
from equipoise.estimate import Estimate
from equipoise.inference.infer import DRAWS, Method, check_settings, infer
from equipoise.inference.posterior import Posterior
from equipoise.inference.processes import processes_for
from equipoise.inference.runtime import on_accelerator
from equipoise.inference.scenario import Rule
from equipoise.journal import Journal
from equipoise.reward.deciding import decide, mask_of, targets_of_teams
from equipoise.reward.making import Made, RewardMaker
from equipoise.reward.model import Reward
from equipoise.reward.precision import sharpen
from equipoise.reward.summary import summarise
from equipoise.reward.targets import NoTargetsError, Targets, for_team, stability_bound, target_slopes
from equipoise.settlement import Award, CoalitionValue, Contribution, Settlement, ordered
from equipoise.utility import Rows, loss_on, scaled_rows
from equipoise.valuation.appraisal import Appraiser, Pooled, Request, Sampling, derived_seed
from equipoise.valuation.plausibility import Remark, impossible_magnitudes, near_duplicates, unlikely_party
from equipoise.valuation.proxy import normal_proxy
from equipoise.valuation.sampling import sampled_shapley
from equipoise.valuation.shapley import ShapleyValues, repaired_by_values_alone, weights
from equipoise.valuation.surprise import Estimator, check_estimator, similarity
from equipoise.wire import Submission, one_of_each

Floats = NDArray[np.float64]
PRECISION = 0.05  # nats, of a target's or an attained value's standard error
EXTRA_DRAWS = 20  # times the first draws of all coalitions, at most, to reach the precision
JOURNAL = "journal.jsonl"
SCENARIOS_OF_REWARDS = 12  # about; a curve and its verifications


def mediate(
    agreement: Agreement,
    submissions: Sequence[Submission],
    *,
    seed: int = 0,
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
    force: bool = False,
) -> Settlement:
    """Settle a round: value coalitions, share by ρ-Shapley fairness, make every party's reward, audit.

    `rho` and `mechanism` are the agreement's unless given. `teams` partitions the parties (default: one team).
    `precision` is the standard error, in nats, that targets and rewards should have; a reward may miss its target by
    `tolerance` (default: twice that). With more than 12 parties coalitions are sampled, `budget` of them. `test` is
    (features, target) in the columns' own units, features None for a model that has none, to report how well each
    reward predicts. Rewards made by noise draw it from `noise_secret`, 32 hexadecimal digits, by default new ones.

    With a `folder`, everything finished is there at once: a run that is killed goes on where it was when called again
    with the same inputs, and at the end the folder holds the settlement and the rewards.
    """
    begun = perf_counter()
    if not submissions:
        raise MediationError("there are no submissions; a settlement needs at least one party's")
    submissions = one_of_each(agreement, submissions)
    parties = tuple(submission.party for submission in submissions)
    check_estimator(estimator)
    check_settings(agreement, method, rule, draws, chains, seed)
    options = Choices(
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
    rows = None if test is None else scaled_rows(agreement, *test)
    place = None if folder is None else _made(Path(folder))
    options = replace(options, noise_secret=noise_secret_of(options.mechanism, noise_secret, place))
    contributions = {one.party: Contribution.of(one) for one in submissions}
    inputs = sha256_hex(
        canonical_json(
            {
                "agreement": agreement.identity,
                "submissions": {party: one.digest for party, one in contributions.items()},
                "options": options.to_json(),
                "force": bool(force),  # which draws are used depends on it, and on what follows
                "environment": {**_environment(), "accelerator": on_accelerator()},
            }
        )
    )
    if processes is None:
        # A round is many batches: workers that are started for the first one serve them all.
        coalitions = 2 ** len(parties) if len(parties) <= EXACT_UP_TO else default_budget(len(parties))
        processes = processes_for(coalitions + SCENARIOS_OF_REWARDS)
    with Journal(None if place is None else place / JOURNAL, inputs) as journal:
        sampling = Sampling(estimator, method, rule, chains, processes, force)
        appraiser = Appraiser(agreement, submissions, journal, sampling, progress=progress)
        round_ = _Round(agreement, submissions, options, appraiser)
        settlement = round_.settle(contributions, rows, begun)
    if place is not None:
        settlement.save(place)
    return settlement


class _Round:
    """One settlement in the making."""

    def __init__(
        self, agreement: Agreement, submissions: Sequence[Submission], options: Choices, appraiser: Appraiser
    ) -> None:
        self.agreement, self.submissions, self.options, self.appraiser = agreement, submissions, options, appraiser
        self.parties = tuple(submission.party for submission in submissions)
        self.known: dict[tuple[str, ...], Pooled] = {}
        self.maker = RewardMaker(
            appraiser,
            seed=options.seed,
            noise_secret=options.noise_secret,
            draws=options.draws,
            precision=options.precision,
            tolerance=options.tolerance,
        )
        self.prior = infer(agreement, submissions, method="prior", draws=options.draws, seed=options.seed)
        self.remarks: list[Remark] = []
        self.timings: dict[str, float] = {}

    def settle(self, contributions: dict[str, Contribution], rows: Rows | None, begun: float) -> Settlement:
        exact = len(self.parties) <= EXACT_UP_TO
        with _timed(self.timings, "valuing coalitions"):
            try:
                shapley, targets = self._exact() if exact else self._sampled()
            except NoTargetsError as error:
                self._look_for_oddities()  # which may be why
                advice = "".join(f". Note also: {remark.message}" for remark in self.remarks)
                raise MediationError(f"no targets can be set: {error}{advice}") from error
        with _timed(self.timings, "making rewards"):
            awards: dict[str, Award] = {}
            for team, target in zip(self.options.teams, targets, strict=True):
                awards |= self._awards(team, target, rows)
        with _timed(self.timings, "plausibility"):
            self._look_for_oddities()
        self.timings["all"] = perf_counter() - begun
        self.timings["sampling"] = self.appraiser.seconds
        return Settlement(
            agreement=self.agreement,
            contributions=contributions,
            options=self.options.to_json(),
            teams=self.options.teams,
            coalitions=tuple(CoalitionValue.of(members, pooled) for members, pooled in self.known.items()),
            exact=exact,
            shapley={party: shapley[index] for index, party in enumerate(self.parties)},
            shapley_covariance=tuple(tuple(map(float, row)) for row in shapley.covariance),
            shapley_repair=float(shapley.repair),
            rho=targets[0].rho,
            rational_rho=_smallest([target.rational_rho for target in targets]),
            stable_rho=self._stability(shapley) if exact and len(self.options.teams) == 1 else None,
            curve=tuple(self.maker.points),
            awards={party: awards[party] for party in self.parties},
            prior=summarise(self.agreement, self.prior.draws),
            remarks=tuple(self.remarks),
            environment=_environment(),
            timings=self.timings,
        )

    # Values and targets

    def _request(self, members: Sequence[str], replicate: int, draws: int | None = None) -> Request:
        members = ordered(members, self.parties)
        seed = derived_seed(self.options.seed, "value", sorted(members), replicate)
        return Request(members, draws or self.options.draws, seed)

    def _value(self, coalitions: Sequence[tuple[str, ...]], draws: int | None = None) -> None:
        """Value coalitions; one that is known already is valued once more, by other draws."""
        requests = [
            self._request(members, len(self.known[members].parts) if members in self.known else 0, draws)
            for members in coalitions
        ]
        # The draws of whole teams will be somebody's reward, and those of single parties what it is compared with.
        shown = {request for request in requests if self._is_shown(request.coalition) and draws is None}
        what = f"valuing {len(coalitions)} coalition{'s' * (len(coalitions) > 1)}"
        for members, found in zip(coalitions, self.appraiser.appraise(requests, what=what, keep=shown), strict=True):
            known = self.known.get(members)
            self.known[members] = known + found if known else Pooled((found,))

    def _is_shown(self, members: tuple[str, ...]) -> bool:
        return members in self.options.teams or (len(members) == 1 and len(self.parties) <= EXACT_UP_TO)

    def _exact(self) -> tuple[ShapleyValues, list[Targets]]:
        every = [self._members(mask) for mask in range(1, 2 ** len(self.parties))]
        self._value(every)

        def more(extra: dict[int, int]) -> dict[int, Any]:
            for draws in sorted(set(extra.values())):
                self._value([every[index] for index, wanted in extra.items() if wanted == draws], draws)
            return {index: self.known[every[index]].parts[-1] for index in extra}

        def slopes(values: Sequence[Estimate]) -> Floats:
            try:
                shapley, targets = self._decide(values)
            except NoTargetsError:  # may be luck: what matters does not depend much on the exponent
                try:
                    shapley, targets = self._decide(values, rho=0.5)
                except NoTargetsError:
                    return weights(len(self.parties))[:, 1:]
            matrix = weights(len(self.parties))
            found = []
            for team, target in zip(self.options.teams, targets, strict=True):
                chosen = [self.parties.index(party) for party in team]
                local = target_slopes(for_team(shapley, chosen, Estimate(1.0, 0.0), np.zeros(len(team))), target)
                rows = local[:, :-1] @ matrix[chosen]
                rows[:, mask_of(team, self.parties)] += target.values / values[mask_of(team, self.parties) - 1].value
                found.append(rows)
            return np.concatenate(found)[:, 1:]

        budget = EXTRA_DRAWS * self.options.draws * len(every)
        sharpen(
            [self.known[members] for members in every], slopes, more, precision=self.options.precision, budget=budget
        )
        return self._decide([self.known[members].value for members in every])

    def _decide(self, values: Sequence[Estimate], rho: float | None = None) -> tuple[ShapleyValues, list[Targets]]:
        everything = [Estimate(0.0, 0.0), *values]  # nobody is worth nothing
        return decide(self.parties, self.options.teams, everything, rho or self.options.rho)

    def _sampled(self) -> tuple[ShapleyValues, list[Targets]]:
        budget = self.options.budget or default_budget(len(self.parties))

        def evaluate(coalitions: Sequence[frozenset[int]]) -> list[Estimate]:
            named = [tuple(self.parties[index] for index in sorted(members)) for members in coalitions]
            self._value([members for members in named if members not in self.known])
            return [self.known[members].value for members in named]

        proxy = normal_proxy(self.agreement, self.submissions)
        found = sampled_shapley(
            len(self.parties), evaluate, budget, proxy=proxy, seed=derived_seed(self.options.seed, "coalitions")
        )
        alone = [self.known[party,].value for party in self.parties]
        shapley = repaired_by_values_alone(
            found.shapley, np.array([one.value for one in alone]), np.array([one.error for one in alone])
        )
        if missing := [team for team in self.options.teams if team not in self.known]:
            self._value(missing)
        teams = []
        for team in self.options.teams:
            chosen = [self.parties.index(party) for party in team]
            whole = team == self.parties
            covariance = shapley.covariance_with_grand[chosen] if whole else np.zeros(len(team))
            teams.append(for_team(shapley, chosen, self.known[team].value, covariance))
        return shapley, targets_of_teams(self.parties, self.options.teams, teams, alone, self.options.rho)

    def _stability(self, shapley: ShapleyValues) -> float | None:
        numbered = {
            frozenset(self.parties.index(party) for party in members): pooled.value
            for members, pooled in self.known.items()
        }
        return stability_bound(shapley.values, numbered, shapley.grand)

    # Rewards

    def _awards(self, team: tuple[str, ...], targets: Targets, rows: Rows | None) -> dict[str, Award]:
        whole = self.known[team].value
        whole_request = self._request(team, 0)
        # Nobody else's target reaches the team's value, unless it ties with the best.
        rest = [index for index in range(len(team)) if targets.values[index] < whole.value]
        rewards: dict[int, Made] = {
            index: (whole_request, whole, ()) for index in range(len(team)) if index not in rest
        }
        make = self.maker.temper if self.options.mechanism == "tempering" else self.maker.add_noise
        rewards |= make(team, rest, targets, whole)
        singles = [self._request((party,), 0) for party in team if self._is_shown((party,))]
        self.appraiser.posteriors(  # all at once, if they are gone
            [whole_request, *singles, *(request for request, _, _ in rewards.values())]
        )
        grand = self.appraiser.posterior(whole_request)
        return {
            team[index]: self._award(team, index, targets[index], rewards[index], grand, rows)
            for index in range(len(team))
        }

    def _award(
        self,
        team: tuple[str, ...],
        index: int,
        target: Estimate,
        made: Made,
        grand: Posterior,
        rows: Rows | None,
    ) -> Award:
        request, attained, notes = made
        party = team[index]
        posterior = self.appraiser.posterior(request)
        if request.tau:
            posterior = replace(posterior, noise_seed=0)  # whoever knew it could take the added noise away again
        notes += tuple(f"not converged: {problem}" for problem in posterior.diagnostics.problems)
        reward = Reward(party, self.agreement, posterior, attained)
        epsilons = {one.party: one.stated.epsilon for one in self.submissions if one.party in team}
        compared = {"reward": posterior, "team": grand}
        if self._is_shown((party,)):
            compared = {"alone": self.appraiser.posterior(self._request((party,), 0)), **compared}
        return Award(
            party=party,
            team=team,
            alone=self.known[party,].value,
            target=target,
            attained=attained,
            similarity=similarity(self.agreement, posterior, grand, force=True),
            kappa=request.kappa,
            tau=request.tau,
            within_tolerance=abs(attained.value - target.value) <= self.options.tolerance,
            epsilons={name: epsilon / (1 + request.tau * epsilon) for name, epsilon in epsilons.items()},
            digest=reward.digest,
            posteriors={name: summarise(self.agreement, one.draws) for name, one in compared.items()},
            losses={}
            if rows is None
            else {name: loss_on(rows, one.draws) for name, one in {"prior": self.prior, **compared}.items()},
            notes=notes,
            reward=reward,
        )

    def _look_for_oddities(self) -> None:
        self.remarks += impossible_magnitudes(self.agreement, self.submissions)
        if len(self.parties) > 1:
            for party in self.parties:
                others = self.known.get(tuple(name for name in self.parties if name != party))
                probability = None if others is None else others.parts[0].predictive
                remark = None if probability is None else unlikely_party(party, probability)
                if remark is not None:
                    self.remarks.append(remark)
            # Everybody's posterior is at hand if they are one team, and sampled for this if not.
            everybody = self._request(self.parties, 0)
            self.remarks += near_duplicates(self.agreement, self.submissions, self.appraiser.posterior(everybody))

    def _members(self, mask: int) -> tuple[str, ...]:
        return tuple(party for index, party in enumerate(self.parties) if mask >> index & 1)


@contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    """Seconds spent within a block, under a name."""
    start = perf_counter()
    yield
    timings[name] = perf_counter() - start


def _environment() -> dict[str, str]:
    from importlib.metadata import version

    libraries = {name: version(name) for name in ("jax", "jaxlib", "numpy", "scipy")}
    return {"equipoise": __version__, "python": platform.python_version(), **libraries}


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MediationError(f"cannot make the folder {str(folder)!r}: {error.strerror}; choose another") from error
    if not is_writable_folder(folder):
        raise MediationError(f"cannot write into {str(folder)!r}; choose another folder")
    return folder


def _smallest(bounds: Sequence[float | None]) -> float | None:
    known = [bound for bound in bounds if bound is not None]
    return min(known) if len(known) == len(bounds) else None
