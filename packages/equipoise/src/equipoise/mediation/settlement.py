"""A settlement: all decisions of the mediator, with their inputs, reproducible from these and the seed.

The folder of a settlement holds `settlement.json` and, in each party's own folder (`equipoise.mediation.folders`), its
reward. Equal settlements have equal decisions, whatever machine and however many pieces they were computed in; timings
are not compared.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from equipoise._util.arrays import Floats
from equipoise._util.canonical import canonical_json, read_limited, sha256_hex, strict_json
from equipoise._util.display import Chart, Interval, Table
from equipoise._util.files import replaced_file
from equipoise._util.optional import import_optional
from equipoise.agreement import Agreement
from equipoise.errors import EquipoiseError, MediationError
from equipoise.estimate import Estimate
from equipoise.inference.posterior import Posterior
from equipoise.mediation import folders
from equipoise.mediation.findings import Audit, Remark
from equipoise.mediation.requests import Pooled
from equipoise.mediation.seeds import seed_of
from equipoise.mediation.settings import Deviation, SettlementSettings, deviations
from equipoise.protocol.submission import Submission, validate_submissions
from equipoise.reward.model import Reward
from equipoise.reward.scoring import ErrorCurve
from equipoise.reward.summary import Summary
from equipoise.reward.targets import TargetPolicy, min_contribution_factor

if TYPE_CHECKING:
    import pandas

FORMAT = "equipoise-settlement"
VERSION = 3
# Format 2, of versions 0.4 to 0.6, does not say which parties count as bringing nothing.
READABLE = (2, 3)
FILE = folders.SETTLEMENT
# A thousand parties may need that much.
MAX_BYTES = 512 * 2**20
# Parties in a summary.
MAX_SHOWN = 16


@dataclass(frozen=True)
class Contribution:
    """Parts of one party's submission that decisions depend on: its id, the SHA-256 of its file, rows and guarantee."""

    submission: str
    digest: str
    rows: int
    order: float
    epsilon: float

    @classmethod
    def of(cls, submission: Submission) -> Self:
        """Take the parts that decisions depend on out of a submission."""
        stated = submission.stated
        digest = sha256_hex(submission.to_json())
        return cls(submission.id, digest, submission.count, stated.order, stated.epsilon)


@dataclass(frozen=True)
class CoalitionValue:
    """Value of a coalition, with its draws and convergence diagnostics."""

    members: tuple[str, ...]
    value: Estimate
    draws: int
    rhat: float
    ess: float
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, members: tuple[str, ...], pooled: Pooled) -> Self:
        """Pool a coalition's appraisals into its value."""
        parts = pooled.parts
        problems = tuple(problem for part in parts for problem in part.problems)
        rhat, ess = max(part.rhat for part in parts), sum(part.ess for part in parts)
        return cls(members, pooled.value, pooled.draws, rhat, ess, problems)


@dataclass(frozen=True)
class CurvePoint:
    """Value of a team's posterior, tempered to κ or with τ more noise (as `recipient` would get it)."""

    team: tuple[str, ...]
    kappa: float
    tau: float
    value: Estimate
    recipient: str | None = None


@dataclass(frozen=True)
class Award:
    """One party's reward, with its target, its value and its quality.

    `falls_back` says that no share would leave the party as well off as alone, so that it gets the posterior of its own
    release. `epsilons` are the guarantees of all parties whose release is in the reward, as released: no reward weakens
    them, and added noise does not count as strengthening them. `posteriors` summarise the posterior of the party
    "alone", of its "reward", and of the "team". `losses` are mean negative log probabilities of a test set, if one was
    given, under the "prior" and these posteriors. `errors` of each posterior are in the target's unit
    (`Model.error_name`): measured on the test set, or else expected at rows like the party's. `error_curve` has the
    expected errors of models of other values; it is not for the party. `notes` say what did not go as planned. `reward`
    has the draws. If coalitions were sampled, posteriors and errors of the party alone are left out.
    """

    party: str
    team: tuple[str, ...]
    alone: Estimate
    target: Estimate
    attained: Estimate
    similarity: Estimate
    kappa: float
    tau: float
    within_tolerance: bool
    epsilons: dict[str, float]
    digest: str
    posteriors: dict[str, Summary] = field(default_factory=dict)
    losses: dict[str, Estimate] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    error_curve: ErrorCurve | None = None
    notes: tuple[str, ...] = ()
    falls_back: bool = False
    reward: Reward | None = field(default=None, repr=False)

    @property
    def gets_all(self) -> bool:
        """True if the reward is the team's whole posterior."""
        return self.kappa == 1 and self.tau == 0 and not self.falls_back

    @property
    def errors_are_measured(self) -> bool:
        """True if `errors` were measured on test rows; only then they include the team's."""
        return "team" in self.errors

    @property
    def posterior(self) -> Posterior:
        """Posterior with the draws that the party receives."""
        if self.reward is None:
            raise MediationError(f"the reward of {self.party!r} was not loaded; load the settlement with its rewards")
        return self.reward.posterior


@dataclass(frozen=True, repr=False)
class Settlement:
    """A settled round: all decisions of the mediator, with their inputs. `mediate` makes one.

    Attributes
    ----------
    agreement : Agreement
        The agreement of the parties.
    contributions : dict of str to Contribution
        For each party that submitted: rows, ε and digests.
    options : dict
        The mediator's choices as plain values; `settings` has them as `SettlementSettings`.
    teams : tuple of tuple of str
        Partition of the parties into teams that share what they know.
    coalitions : tuple of CoalitionValue
        Every coalition that was valued; `exact` is True if that is all of them.
    shapley : dict of str to Estimate
        Shapley values in nats; `shapley_covariance` is the covariance of their errors.
    rho : float
        Fairness exponent. `rational_rho` is the largest that leaves nobody worse off than alone, `stable_rho` the
        largest with which no coalition's best member would leave; None if there is none.
    curve : tuple of CurvePoint
        Values of teams' posteriors that were tempered, or had noise added, on the way to rewards.
    awards : dict of str to Award
        For each party: `alone`, `target`, `attained` and `similarity` in nats, `kappa` and `tau`, losses of test rows,
        and the `reward` itself.
    prior : dict
        Quantiles of all parameters before any data.
    remarks : tuple of Remark
        Remarks that the operator should look at.
    environment, timings : dict
        Versions of software, and seconds by phase.
    nothing : tuple of str, optional
        Parties that count as bringing nothing, because their Shapley values are not significantly positive. None in
        settlements of versions up to 0.6, which repaired negative values for all parties (`shapley_repair`: the factor
        by which contributions to the empty coalition were up-weighted).
    findings : Audit, optional
        Findings of the audit; read them by `audit`.

    Examples
    --------
    >>> settlement = eq.Settlement.load("out")
    >>> settlement.parties
    ('north', 'south', 'west')
    >>> float(settlement.value("north", "west")) > float(settlement.value("north"))
    True
    >>> settlement.audit["P2"].verdict
    'holds'
    """

    agreement: Agreement
    contributions: dict[str, Contribution]
    options: dict[str, Any]
    teams: tuple[tuple[str, ...], ...]
    coalitions: tuple[CoalitionValue, ...]
    exact: bool
    shapley: dict[str, Estimate]
    shapley_covariance: tuple[tuple[float, ...], ...]
    rho: float
    rational_rho: float | None
    stable_rho: float | None
    curve: tuple[CurvePoint, ...]
    awards: dict[str, Award]
    prior: Summary
    remarks: tuple[Remark, ...]
    environment: dict[str, str]
    nothing: tuple[str, ...] | None = None
    shapley_repair: float = 1.0
    timings: dict[str, float] = field(default_factory=dict, compare=False)
    findings: Audit | None = field(default=None, compare=False, repr=False)

    @property
    def parties(self) -> tuple[str, ...]:
        """Parties that submitted, in the order of the agreement."""
        return tuple(self.contributions)

    @property
    def absent(self) -> tuple[str, ...]:
        """Parties of the agreement that took no part, in its order: they had not submitted, or were left out."""
        return tuple(party for party in self.agreement.party_names if party not in self.contributions)

    @property
    def seed_was_chosen(self) -> bool:
        """True if the seed does not follow from the submissions; in versions up to 0.7 none did."""
        digests = {party: contribution.digest for party, contribution in self.contributions.items()}
        return self.settings.seed != seed_of(self.agreement.identity_digest, digests)

    @property
    def deviations(self) -> tuple[Deviation, ...]:
        """Deviations from the agreement, judged by the rewards that were made rather than by the stated options."""
        agreed, asked = self.agreement.reward, self.settings.rho
        assert asked is not None
        used = asked if "max" in (asked, agreed.rho) else self.rho
        return deviations(self.agreement, rho=used, mechanism=self._mechanism, teams=self.teams)

    @property
    def _mechanism(self) -> str:
        """Mechanism that the rewards show; the stated one if all are whole or the prior, which look the same."""
        awards = self.awards.values()
        if any(award.tau > 0 for award in awards):
            return "degraded" if self.settings.mechanism == "degraded" else "noise"
        return "tempering" if any(0 < award.kappa < 1 for award in awards) else str(self.settings.mechanism)

    def __repr__(self) -> str:
        return repr(self.summary())

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def summary(self) -> Table:
        """Return a table of values and rewards by party; notebooks also show a chart.

        Returns
        -------
        Table
            One row for each party: its ε and rows, and the value of its release alone, its Shapley value, its target
            and the value of its reward, in nats ± standard error.
        """
        rows = [
            (
                party,
                f"{self.contributions[party].epsilon:g}",
                f"{self.contributions[party].rows:,}",
                *map(str, (award.alone, self.shapley[party], award.target, award.attained)),
            )
            for party, award in self.awards.items()
        ]
        series = {"attained": "reward", "alone": "alone"}
        lines = [
            (
                party,
                [
                    Interval(label, one.value - 2 * one.error, one.value, one.value + 2 * one.error)
                    for name, label in series.items()
                    for one in [getattr(award, name)]
                ],
            )
            for party, award in list(self.awards.items())[:MAX_SHOWN]
        ]
        words = "not audited"
        if self.findings is not None:
            broken = [finding.code for finding in self.findings.failures]
            words = f"audit: {', '.join(broken)} broken" if broken else "audit: no promise broken"
        more = [f"… and {len(rows) - MAX_SHOWN} more parties"] if len(rows) > MAX_SHOWN else []
        return Table(
            f"Settlement of {len(self.parties)} parties, fairness exponent {self.rho:.3g}, together worth "
            f"{self._together()} nats; {words}",
            ("party", "ε", "rows", "alone", "Shapley value", "target", "reward"),
            rows[:MAX_SHOWN],
            Chart("value in nats, ± two standard errors", lines),
            more,
        )

    def _together(self) -> str:
        return " and ".join(str(self.value(*team)) for team in self.teams)

    def to_frame(self) -> "pandas.DataFrame":
        """Return the awards as a data frame.

        Returns
        -------
        pandas.DataFrame
            One row for each party; estimates have two columns each, such as `target` and `target_error`, its standard
            error.
        """
        frame: pandas.DataFrame = import_optional("pandas", extra="pandas").DataFrame(
            {
                "party": party,
                "team": ", ".join(award.team),
                "rows": self.contributions[party].rows,
                "epsilon": self.contributions[party].epsilon,
                **{
                    f"{name}{ending}": number
                    for name, one in (
                        ("alone", award.alone),
                        ("shapley", self.shapley[party]),
                        ("target", award.target),
                        ("attained", award.attained),
                        ("similarity", award.similarity),
                    )
                    for ending, number in (("", one.value), ("_error", one.error))
                },
                "kappa": award.kappa,
                "tau": award.tau,
            }
            for party, award in self.awards.items()
        )
        return frame.set_index("party")

    def value(self, *parties: str | Iterable[str]) -> Estimate:
        """Return the value of a coalition in nats; that of the empty coalition is 0.

        Parameters
        ----------
        *parties : str or iterable of str
            The members, one by one or as a list.

        Returns
        -------
        Estimate
            The value and its standard error.

        Raises
        ------
        MediationError
            A member took no part, or the coalition was not valued.
        """
        members = [name for one in parties for name in ([one] if isinstance(one, str) else one)]
        if not members:
            return Estimate(0.0, 0.0)
        for party in members:
            if party not in self.contributions:
                raise MediationError(f"{party!r} took no part; the parties are {', '.join(self.parties)}")
        try:
            return self.values[frozenset(members)]
        except KeyError:
            raise MediationError(
                f"the coalition of {', '.join(members)} was not valued; of {len(self.parties)} parties' coalitions "
                f"only {len(self.coalitions):,} were sampled"
            ) from None

    @cached_property
    def values(self) -> Mapping[frozenset[str], Estimate]:
        """Values in nats of all coalitions that were valued, by their members."""
        return {frozenset(coalition.members): coalition.value for coalition in self.coalitions}

    @cached_property
    def settings(self) -> SettlementSettings:
        """The settings that the settlement was made with; none is left to the agreement."""
        # Options leave these out, in some versions at least.
        unsaid = {"coalitions": "all" if self.exact else "sampled", "noise_secret": None}
        return SettlementSettings.of(None, unsaid | self.options | {"noise_secret": None})

    @property
    def terms(self) -> TargetPolicy:
        """The terms by which targets follow from values: exponent, fallback, precision, tolerance."""
        settings = self.settings
        assert settings.rho is not None
        assert settings.tolerance is not None
        fallback, degraded = self.agreement.reward.fallback, settings.mechanism == "degraded"
        # Up to version 0.12, sampled games did not say so, and contributions below the precision never counted.
        least = min_contribution_factor(len(self.parties)) if self.exact or "coalitions" in self.options else 1.0
        return TargetPolicy(
            settings.rho, fallback, settings.precision, settings.tolerance, degraded, least, self.agreement.reward.rule
        )

    def submissions_among(self, given: Iterable[Submission]) -> tuple[Submission, ...]:
        """Return the given submissions in the order of the parties, if they are those that were settled.

        Otherwise raise `MediationError`. Forged submissions, and two of one party, raise `SubmissionError`.
        """
        sent = validate_submissions(self.agreement, given)
        if {one.party: Contribution.of(one) for one in sent} != self.contributions:
            raise MediationError("these are not the submissions that were settled; give the same files")
        return sent

    def awards_of(self, team: Iterable[str]) -> list[Award]:
        """Return the awards of the members of a team."""
        return [self.awards[party] for party in team]

    def ratio(self, party: str) -> float:
        """Return φ/φ_max, whose power ρ is the party's share; 0 if it brings nothing, 1 if its whole team does."""
        return self._ratios[party]

    @cached_property
    def _ratios(self) -> dict[str, float]:
        """Ratios φ/φ_max of all parties (`ratio`)."""
        nothing, ratios = set(self.nothing or ()), {}
        for team in self.teams:
            sharing = [party for party in team if party not in nothing]
            staying = [party for party in sharing if not self.awards[party].falls_back]
            best = max((self.shapley[party].value for party in staying), default=0.0)
            for party in team:
                if not sharing:
                    ratios[party] = 1.0
                elif best <= 0:
                    # In versions up to 0.6, all parties share alike if none brings anything.
                    ratios[party] = float(self.nothing is None)
                else:
                    share = min(max(self.shapley[party].value, 0.0) / best, 1.0)
                    ratios[party] = 0.0 if party in nothing else share
        return ratios

    @cached_property
    def errors(self) -> dict[str, dict[str, float]]:
        """Errors of each party's models in the target's unit: alone, with its reward, and with its team's posterior.

        If an award has an `error_curve`, its errors are read from that, so that they can be compared. Otherwise they
        are those that the party is told.
        """
        errors = {}
        for party, award in self.awards.items():
            curve, whole = award.error_curve, self.value(*award.team).value
            if curve is None or award.errors_are_measured:
                errors[party] = award.errors
            else:
                errors[party] = {
                    "alone": curve.alone,
                    "reward": curve.at(award.attained.value),
                    "team": curve.at(whole),
                }
        return errors

    def errors_at(self, rho: float) -> dict[str, float]:
        """Return the expected error of each party's model, in the target's unit, at another fairness exponent.

        Parameters
        ----------
        rho : float
            The exponent, from 0 to 1.

        Returns
        -------
        dict of str to float
            Errors as in `errors`, interpolated between posteriors that were sampled; parties without an error curve are
            left out.

        Examples
        --------
        >>> settlement = eq.Settlement.load("out")
        >>> all(error < settlement.errors[party]["alone"] for party, error in settlement.errors_at(0.2).items())
        True
        """
        targets = self.targets_at(rho)
        curves = {party: award.error_curve for party, award in self.awards.items()}
        return {party: curve.at(targets[party]) for party, curve in curves.items() if curve is not None}

    def targets_at(self, rho: float) -> dict[str, float]:
        """Return every party's target in nats at another fairness exponent.

        Parameters
        ----------
        rho : float
            The exponent, from 0 to 1.

        Returns
        -------
        dict of str to float
            Targets by the agreed rule, or values of the fallback; degraded rewards are worth at least the value alone.

        Examples
        --------
        >>> settlement = eq.Settlement.load("out")
        >>> kind, strict = settlement.targets_at(0.2), settlement.targets_at(1.0)
        >>> all(kind[party] >= strict[party] for party in settlement.parties)
        True
        """
        alone = {party: award.alone.value for party, award in self.awards.items()}
        worth = {team: self.value(*team).value for team in self.teams}
        whole = np.array([worth[award.team] for award in self.awards.values()])
        ratios = np.array([self.ratio(party) for party in self.awards])
        by_rule = self.terms.share(ratios, np.array([*alone.values()]), whole, rho)
        shares = dict(zip(self.awards, by_rule.tolist(), strict=True))
        if self.terms.own_is_whole:
            return {party: max(share, alone[party]) for party, share in shares.items()}
        return {party: alone[party] if self.awards[party].falls_back else share for party, share in shares.items()}

    @property
    def audit(self) -> Audit:
        """Findings on the paper's promises, from when the draws of all rewards were available.

        Iterate over them, or look one up by code: `settlement.audit["P4"]` has `verdict` and `reason`.
        """
        if self.findings is None:
            raise MediationError("this settlement was not audited; equipoise.mediation.audit.audited does that")
        return self.findings

    @property
    def precision(self) -> float:
        """Largest standard error, in nats, of a target or an attained value."""
        return max(max(award.target.error, award.attained.error) for award in self.awards.values())

    @cached_property
    def decisions_digest(self) -> str:
        """SHA-256 of all decisions: equal for equal inputs, options and seed."""
        document = self.to_json()
        for name in ("timings", "environment"):
            del document[name]
        for award in document["awards"].values():
            # These follow from the rest, and earlier versions do not have them.
            for name in ("errors", "error_curve"):
                award.pop(name, None)
        return sha256_hex(canonical_json(document))

    @property
    def decisions(self) -> str:
        """Alias of `decisions_digest`, as in receipts and the HTTP API."""
        return self.decisions_digest

    def probability_above(self, first: str, second: str) -> float:
        """Return the probability that the first party's Shapley value is truly above the second's."""
        i, j = self.parties.index(first), self.parties.index(second)
        covariance = self._covariance
        variance = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
        difference = self.shapley[first].value - self.shapley[second].value
        return Estimate(difference, float(np.sqrt(max(variance, 0.0)))).probability_above(0.0)

    @cached_property
    def _covariance(self) -> Floats:
        """Covariance of the Shapley values' errors, as an array."""
        return np.array(self.shapley_covariance)

    def to_json(self) -> dict[str, Any]:
        """Return the settlement as plain numbers, strings, lists and dictionaries, without draws and audit."""
        document = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "findings"}
        awards = {party: asdict(replace(award, reward=None)) for party, award in self.awards.items()}
        for award in awards.values():
            del award["reward"]
            for name in ("errors", "error_curve"):
                # Settlements of earlier versions do not have these; they must not change.
                if not award[name]:
                    del award[name]
        document["agreement"] = self.agreement.model_dump(mode="json")
        document["contributions"] = {party: asdict(part) for party, part in self.contributions.items()}
        document["coalitions"] = [asdict(coalition) for coalition in self.coalitions]
        document["curve"] = [asdict(point) for point in self.curve]
        document["remarks"] = [asdict(remark) for remark in self.remarks]
        document["shapley"] = {party: asdict(estimate) for party, estimate in self.shapley.items()}
        version = VERSION
        if self.nothing is None:
            # A version up to 0.6 made it; the digest of its decisions is that of the document which that version wrote.
            version = READABLE[0]
            del document["nothing"]
            for award in awards.values():
                del award["falls_back"]
        head = {"format": FORMAT, "version": version, "identity": self.agreement.identity_digest}
        plain = {**head, **document, "awards": awards}
        # A round trip turns tuples into lists.
        loaded: dict[str, Any] = json.loads(json.dumps(plain, allow_nan=False))
        return loaded

    def to_document(self) -> dict[str, Any]:
        """Return the document that `save` writes: `to_json` and findings of the audit, which need rewards' draws."""
        return {**self.to_json(), "audit": self.audit.to_json()}

    def save(self, folder: str | Path) -> None:
        """Write `settlement.json` into a folder, and rewards into the parties' own; folders are made if necessary."""
        folder = Path(folder)
        document = json.dumps(self.to_document(), indent=1, ensure_ascii=False, allow_nan=False)
        try:
            folders.make_passable(folder)
            for award in self.awards.values():
                if award.reward is not None:
                    award.reward.save(folders.make_folder_of(folder, award.party) / folders.REWARD)
            # This file is written last, so that a folder with a settlement has all of its rewards.
            with replaced_file(folder / FILE, mode=0o600) as partial:
                partial.write_text(f"{document}\n", encoding="utf-8")
        except OSError as error:
            raise MediationError(
                f"cannot write the settlement into {str(folder)!r}: {error.strerror or error}; free some room and "
                "run it again (the journal there, if there is one, keeps what was computed), or choose another folder"
            ) from error

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a settlement and its rewards.

        Parameters
        ----------
        folder : path
            The folder that `save`, `mediate` or the command line wrote.

        Returns
        -------
        Settlement
            Settlement with those rewards that the folder has.

        Raises
        ------
        MediationError
            It cannot be read as a settlement, or its parts contradict each other.
        """
        folder = Path(folder)
        path = folder / FILE
        try:
            document = strict_json(read_limited(path, max_bytes=MAX_BYTES), max_bytes=MAX_BYTES)
        except (OSError, ValueError) as error:
            raise MediationError(
                f"{str(path)!r} cannot be read as a settlement ({getattr(error, 'strerror', None) or error})"
            ) from error
        settlement = cls.parse(document, name=repr(str(path)))
        awards = dict(settlement.awards)
        for party, award in awards.items():
            reward_file = next((file for file in folders.places_of_reward(folder, party) if file.exists()), None)
            if reward_file is not None:
                awards[party] = replace(award, reward=Reward.load(reward_file))
        return replace(settlement, awards=awards)

    @classmethod
    def parse(cls, document: dict[str, Any], *, name: str = "the document") -> Self:
        """Read a settlement from the result of `to_document`: without rewards, with the stored audit.

        Parameters
        ----------
        document : dict
            Plain values.
        name : str
            Name of the document in error messages.

        Returns
        -------
        Settlement

        Raises
        ------
        MediationError
            It cannot be read as a settlement, or its parts contradict each other.
        """
        try:
            parts = dict(document)
            audit = parts.pop("audit", None)
            version = parts.pop("version")
            _take_format(parts, version)
            _take_agreement(parts)
            parts = _with(parts, contributions=_contributions, teams=_tuples)
            _check_version(parts, version)
            _check_teams(parts)
            if version == VERSION:
                parts = _with(parts, nothing=tuple)
            parts = _with(
                parts,
                coalitions=_coalition_values,
                shapley=_estimates,
                shapley_covariance=_tuples,
                curve=_curve,
                remarks=_remarks,
                awards=_awards,
            )
            parts["findings"] = None if audit is None else Audit.from_json(audit)
            settlement = cls(**parts)
            settlement._check_consistent()
            return settlement
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise MediationError(f"{name} cannot be read as a settlement ({error})") from error

    def _check_consistent(self) -> None:
        """Refuse parts that name different parties, or lack values that other parts need."""
        if missing := sorted({"seed", "rho", "mechanism", "precision", "tolerance"} - set(self.options)):
            raise ValueError(f"its options lack {missing[0]!r}")
        try:
            # The property checks the options.
            self.settings  # noqa: B018
        except EquipoiseError as error:
            raise ValueError(f"its options cannot be used: {error}") from error
        parties = set(self.parties)
        named = {"awards": set(self.awards), "Shapley values": set(self.shapley)}
        named |= {f"award of {party}": {*award.team, award.party, *parties} for party, award in self.awards.items()}
        named |= {"coalitions": parties.union(*(coalition.members for coalition in self.coalitions))}
        named |= {"agreement": parties & set(self.agreement.party_names)}
        for part, names in named.items():
            if names != parties:
                raise ValueError(f"its {part} and its contributions name different parties")
        if np.asarray(self.shapley_covariance, float).shape != (len(parties), len(parties)):
            raise ValueError("its covariance is not that of all its parties")


def _take_format(parts: dict[str, Any], version: Any) -> None:
    """Take the format out of a document's parts; refuse one that cannot be read."""
    if parts.pop("format") != FORMAT or version not in READABLE:
        raise ValueError("it has another format, or was written by another version of Equipoise: settle again")


def _take_agreement(parts: dict[str, Any]) -> None:
    """Read the agreement, and take its identity out of a document's parts; refuse an agreement that has another."""
    parts["agreement"] = Agreement.model_validate(parts["agreement"])
    if parts.pop("identity") != parts["agreement"].identity_digest:
        raise ValueError("its agreement was changed")


def _check_version(parts: dict[str, Any], version: int) -> None:
    """Refuse parts that a document of this version does not have."""
    if (parts.get("nothing") is not None) != (version == VERSION):
        raise ValueError("it does not say who counts as bringing nothing as its version does")
    if version < VERSION and parts["agreement"].format > 1:
        raise ValueError("its version is older than the format of its agreement")


def _check_teams(parts: dict[str, Any]) -> None:
    """Refuse teams that are no partition of the parties that took part."""
    if sorted(name for team in parts["teams"] for name in team) != sorted(parts["contributions"]):
        raise ValueError("its teams do not name everybody who took part just once")


def _with(document: dict[str, Any], **converters: Any) -> dict[str, Any]:
    """Convert some values of a document, each by its own function."""
    return document | {name: convert(document[name]) for name, convert in converters.items()}


def _tuples(rows: list[list[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(map(tuple, rows))


def _contributions(documents: dict[str, dict[str, Any]]) -> dict[str, Contribution]:
    return {party: Contribution(**document) for party, document in documents.items()}


def _coalition_values(documents: list[dict[str, Any]]) -> tuple[CoalitionValue, ...]:
    return tuple(
        CoalitionValue(**_with(document, members=tuple, value=_estimate, problems=tuple)) for document in documents
    )


def _curve(documents: list[dict[str, Any]]) -> tuple[CurvePoint, ...]:
    return tuple(CurvePoint(**_with(document, team=tuple, value=_estimate)) for document in documents)


def _remarks(documents: list[dict[str, Any]]) -> tuple[Remark, ...]:
    return tuple(Remark(**_with(document, parties=tuple)) for document in documents)


def _awards(documents: dict[str, dict[str, Any]]) -> dict[str, Award]:
    return {party: _award(document) for party, document in documents.items()}


def _estimate(document: dict[str, float]) -> Estimate:
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in document.values()):
        raise ValueError(f"{document!r:.80} is no estimate")
    return Estimate(**document)


def _estimates(document: dict[str, dict[str, float]]) -> dict[str, Estimate]:
    return {name: _estimate(numbers) for name, numbers in document.items()}


def _award(document: dict[str, Any]) -> Award:
    converters: dict[str, Any] = dict.fromkeys(("alone", "target", "attained", "similarity"), _estimate)
    if "error_curve" in document:
        converters["error_curve"] = lambda curve: ErrorCurve(curve["alone"], tuple(map(tuple, curve["points"])))
    return Award(**_with(document, team=tuple, notes=tuple, losses=_estimates, **converters))
