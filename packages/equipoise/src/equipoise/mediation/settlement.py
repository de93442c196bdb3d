"""Everything the mediator decided, with what it decided it from: reproducible from inputs and seed, saved and loaded.

A folder holds `settlement.json` and, in each party's own folder (`equipoise.mediation.folders`), its reward. Equal
settlements have equal decisions, whatever machine and however many pieces they were computed in; timings do not count.
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
from equipoise.reward.targets import Terms, least_among

if TYPE_CHECKING:
    import pandas

FORMAT = "equipoise-settlement"
VERSION = 3
READABLE = (2, 3)  # 2, of 0.4 to 0.6, does not say who counts as bringing nothing
FILE = folders.SETTLEMENT
MAX_BYTES = 512 * 2**20  # which a thousand parties may need
MAX_SHOWN = 16  # parties in a summary


@dataclass(frozen=True)
class Contribution:
    """What one party submitted, as far as decisions depend on it."""

    submission: str  # its id
    digest: str  # SHA-256 of the file
    rows: int
    order: float
    epsilon: float

    @classmethod
    def of(cls, submission: Submission) -> Self:
        """What decisions depend on of a submission."""
        stated = submission.stated
        digest = sha256_hex(submission.to_json())
        return cls(submission.id, digest, submission.count, stated.order, stated.epsilon)


@dataclass(frozen=True)
class CoalitionValue:
    """What a coalition is worth, and how well that is known."""

    members: tuple[str, ...]
    value: Estimate
    draws: int
    rhat: float
    ess: float
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, members: tuple[str, ...], pooled: Pooled) -> Self:
        """The value of a coalition from all draws of its posterior."""
        parts = pooled.parts
        problems = tuple(problem for part in parts for problem in part.problems)
        rhat, ess = max(part.rhat for part in parts), sum(part.ess for part in parts)
        return cls(members, pooled.value, pooled.draws, rhat, ess, problems)


@dataclass(frozen=True)
class CurvePoint:
    """What the posterior of a team is worth, tempered to κ or with τ more noise (as `recipient` would get it)."""

    team: tuple[str, ...]
    kappa: float
    tau: float
    value: Estimate
    recipient: str | None = None


@dataclass(frozen=True)
class Award:
    """One party's share.

    `falls_back` says that no share would leave it as well off as alone, so that it gets the posterior of its own
    release. `epsilons` are the guarantees of everybody whose release is in the reward, as released: no reward weakens
    them, and none that has added noise is relied on to strengthen them. `posteriors` summarise what the party knows
    "alone", with its "reward", and what the "team" knows; `losses` are mean negative log probabilities of a test set
    under the "prior" and these posteriors, if one was given; `errors` how far off each posterior is, in the target's
    unit (`Model.error_name`): measured on the test set, otherwise expected at rows like the party's. `error_curve`
    says how far off models of other values would be; it is not for the party. `notes` say what did not go as planned;
    `reward` has the draws. What the party knows alone is left out where coalitions were sampled.
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
        """Whether its reward is the team's very posterior."""
        return self.kappa == 1 and self.tau == 0 and not self.falls_back

    @property
    def errors_are_measured(self) -> bool:
        """Whether `errors` are those of test rows; only then the team's are known, too."""
        return "team" in self.errors

    @property
    def posterior(self) -> Posterior:
        """The draws the party receives."""
        if self.reward is None:
            raise MediationError(f"the reward of {self.party!r} was not loaded; load the settlement with its rewards")
        return self.reward.posterior


@dataclass(frozen=True, repr=False)
class Settlement:
    """A settled round: everything the mediator decided, with what it was decided from. `mediate` makes one.

    Attributes
    ----------
    agreement : Agreement
        What the parties agreed to.
    contributions : dict of str to Contribution
        What each party submitted: rows, ε and digests.
    options : dict
        The mediator's choices as plain values; `settings` has them as `SettlementSettings`.
    teams : tuple of tuple of str
        Who shared what they know with whom.
    coalitions : tuple of CoalitionValue
        Every coalition that was valued; `exact` says whether that is all of them.
    shapley : dict of str to Estimate
        Shapley values in nats; `shapley_covariance` is that of their errors.
    rho : float
        Fairness exponent. `rational_rho` is the largest that leaves nobody worse off than alone, `stable_rho` the
        largest with which no coalition's best member would leave; None if there is none.
    curve : tuple of CurvePoint
        Values of teams' posteriors that were tempered, or had noise added, on the way to rewards.
    awards : dict of str to Award
        Of each party: `alone`, `target`, `attained` and `similarity` in nats, `kappa` and `tau`, losses of test rows,
        and the `reward` itself.
    prior : dict
        Quantiles of all parameters before any data.
    remarks : tuple of Remark
        What the operator should look at.
    environment, timings : dict
        Versions, and seconds.
    nothing : tuple of str, optional
        Who counts as bringing nothing, because its Shapley value cannot be told from 0. None in settlements of versions
        up to 0.6, which repaired negative ones for everybody (`shapley_repair`: by how much contributions to nobody
        were up-weighted).
    findings : Audit, optional
        What the audit found; `audit` has it.

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
        """Everybody who submitted, in the order of the agreement."""
        return tuple(self.contributions)

    @property
    def absent(self) -> tuple[str, ...]:
        """Parties of the agreement who took no part, in its order: they had not submitted, or were left out."""
        return tuple(party for party in self.agreement.party_names if party not in self.contributions)

    @property
    def seed_was_chosen(self) -> bool:
        """Whether the seed is another than follows from the submissions, as all were in versions up to 0.7."""
        digests = {party: one.digest for party, one in self.contributions.items()}
        return self.settings.seed != seed_of(self.agreement.identity_digest, digests)

    @property
    def deviations(self) -> tuple[Deviation, ...]:
        """Where the settlement leaves the agreement, by what was done rather than by what is said about it."""
        agreed, asked = self.agreement.reward, self.settings.rho
        assert asked is not None
        used = asked if "max" in (asked, agreed.rho) else self.rho
        return deviations(self.agreement, rho=used, mechanism=self._mechanism, teams=self.teams)

    @property
    def _mechanism(self) -> str:
        """How rewards were held back; nothing tells where all are whole, or the prior, which is the same either way."""
        awards = self.awards.values()
        if any(award.tau > 0 for award in awards):
            return "degraded" if self.settings.mechanism == "degraded" else "noise"
        return "tempering" if any(0 < award.kappa < 1 for award in awards) else str(self.settings.mechanism)

    def __repr__(self) -> str:
        return repr(self.summary())

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def summary(self) -> Table:
        """Values and rewards by party, as a table that shows itself, in notebooks with a chart.

        Returns
        -------
        Table
            One row a party: its ε, what its release is worth alone, its Shapley value, its target and what its reward
            is worth, in nats ± standard error.
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
        """The awards as a data frame.

        Returns
        -------
        pandas.DataFrame
            One row a party; estimates in two columns each, such as `target` and, its standard error, `target_error`.
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
        """Value of a coalition in nats; nobody's is 0.

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
            Somebody took no part, or the coalition was not valued.
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
        """Value in nats of every coalition that was valued, by its members."""
        return {frozenset(one.members): one.value for one in self.coalitions}

    @cached_property
    def settings(self) -> SettlementSettings:
        """The settings that the settlement was made with, nothing in them left to the agreement."""
        unsaid = {"coalitions": "all" if self.exact else "sampled", "noise_secret": None}  # by earlier versions, too
        return SettlementSettings.of(None, unsaid | self.options | {"noise_secret": None})

    @property
    def terms(self) -> Terms:
        """The terms by which targets follow from values: exponent, fallback, precision, tolerance."""
        settings = self.settings
        assert settings.rho is not None
        assert settings.tolerance is not None
        fallback, degraded = self.agreement.reward.fallback, settings.mechanism == "degraded"
        # Up to 0.12 sampled games did not say so, and among any number the precision was the least that counts.
        least = least_among(len(self.parties)) if self.exact or "coalitions" in self.options else 1.0
        return Terms(
            settings.rho, fallback, settings.precision, settings.tolerance, degraded, least, self.agreement.reward.rule
        )

    def submissions_among(self, given: Iterable[Submission]) -> tuple[Submission, ...]:
        """The given submissions in the order of the parties; `MediationError` unless they are those that were settled.

        Forged ones, and two of one party, are a `SubmissionError`.
        """
        sent = validate_submissions(self.agreement, given)
        if {one.party: Contribution.of(one) for one in sent} != self.contributions:
            raise MediationError("these are not the submissions that were settled; give the same files")
        return sent

    def awards_of(self, team: Iterable[str]) -> list[Award]:
        """Awards of the members of a team."""
        return [self.awards[party] for party in team]

    def ratio(self, party: str) -> float:
        """A party's φ/φ_max, whose power ρ is its share; 0 if it brings nothing, 1 in a team where nobody does."""
        return self._ratios[party]

    @cached_property
    def _ratios(self) -> dict[str, float]:
        """Every party's φ/φ_max, as `ratio` has it."""
        nothing, found = set(self.nothing or ()), {}
        for team in self.teams:
            sharing = [one for one in team if one not in nothing]
            staying = [one for one in sharing if not self.awards[one].falls_back]
            best = max((self.shapley[one].value for one in staying), default=0.0)
            for party in team:
                if not sharing:
                    found[party] = 1.0
                elif best <= 0:
                    found[party] = float(self.nothing is None)  # up to 0.6, where nobody brings anything all are alike
                else:
                    share = min(max(self.shapley[party].value, 0.0) / best, 1.0)
                    found[party] = 0.0 if party in nothing else share
        return found

    @cached_property
    def errors(self) -> dict[str, dict[str, float]]:
        """Errors of each party's models in the target's unit: alone, with its reward, and with what its team knows.

        Award by award by one yardstick, where its `error_curve` is known; otherwise as the parties are told.
        """
        found = {}
        for party, award in self.awards.items():
            curve, whole = award.error_curve, self.value(*award.team).value
            places = {"reward": award.attained.value, "team": whole}
            found[party] = (
                {"alone": curve.alone, **{name: curve.at(value) for name, value in places.items()}}
                if curve is not None and not award.errors_are_measured
                else award.errors
            )
        return found

    def errors_at(self, rho: float) -> dict[str, float]:
        """Return the expected error of each party's model, in the target's unit, at another fairness exponent.

        Parameters
        ----------
        rho : float
            The exponent, from 0 to 1.

        Returns
        -------
        dict of str to float
            Errors as `errors` has them, read off between posteriors that were sampled; without parties of which too
            little is known.

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
        """Everybody's target in nats, had the fairness exponent been another.

        Parameters
        ----------
        rho : float
            The exponent, from 0 to 1.

        Returns
        -------
        dict of str to float
            By the agreed rule, or what the party falls back to; of degraded rewards at least what it knows alone.

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
        found = self.terms.share(ratios, np.array([*alone.values()]), whole, rho)
        shares = dict(zip(self.awards, found.tolist(), strict=True))
        if self.terms.own_is_whole:
            return {party: max(share, alone[party]) for party, share in shares.items()}
        return {party: alone[party] if self.awards[party].falls_back else share for party, share in shares.items()}

    @property
    def audit(self) -> Audit:
        """The paper's promises, as they were checked when the draws of all rewards were at hand.

        Iterate over it, or ask by code: `settlement.audit["P4"]` has `verdict` and `reason`.
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
        """SHA-256 of everything that was decided: equal for equal inputs, options and seed."""
        document = self.to_json()
        for name in ("timings", "environment"):
            del document[name]
        for award in document["awards"].values():
            for name in ("errors", "error_curve"):  # follow from the rest, and earlier versions have none
                award.pop(name, None)
        return sha256_hex(canonical_json(document))

    @property
    def decisions(self) -> str:
        """Another name of `decisions_digest`, as receipts and the HTTP API spell it."""
        return self.decisions_digest

    def probability_above(self, first: str, second: str) -> float:
        """How probable it is, from 0 to 1, that the first party's Shapley value is truly above the second's."""
        i, j = self.parties.index(first), self.parties.index(second)
        covariance = self._covariance
        variance = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
        difference = self.shapley[first].value - self.shapley[second].value
        return Estimate(difference, float(np.sqrt(max(variance, 0.0)))).probability_above(0.0)

    @cached_property
    def _covariance(self) -> Floats:
        """That of the Shapley values' errors, as an array."""
        return np.array(self.shapley_covariance)

    def to_json(self) -> dict[str, Any]:
        """The settlement as plain numbers, strings, lists and dictionaries, without draws and audit."""
        document = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "findings"}
        awards = {party: asdict(replace(award, reward=None)) for party, award in self.awards.items()}
        for award in awards.values():
            del award["reward"]
            for name in ("errors", "error_curve"):
                if not award[name]:  # as in a settlement of an earlier version
                    del award[name]
        document["agreement"] = self.agreement.model_dump(mode="json")
        document["contributions"] = {party: asdict(one) for party, one in self.contributions.items()}
        document["coalitions"] = [asdict(one) for one in self.coalitions]
        document["curve"] = [asdict(one) for one in self.curve]
        document["remarks"] = [asdict(one) for one in self.remarks]
        document["shapley"] = {party: asdict(one) for party, one in self.shapley.items()}
        version = VERSION
        if self.nothing is None:  # of a version up to 0.6: its decisions are the digest of what that version wrote
            version = READABLE[0]
            del document["nothing"]
            for award in awards.values():
                del award["falls_back"]
        head = {"format": FORMAT, "version": version, "identity": self.agreement.identity_digest}
        plain = {**head, **document, "awards": awards}
        loaded: dict[str, Any] = json.loads(json.dumps(plain, allow_nan=False))  # tuples to lists
        return loaded

    def to_document(self) -> dict[str, Any]:
        """The document that `save` writes: `to_json`, and what the audit found, which only rewards' draws can tell."""
        return {**self.to_json(), "audit": self.audit.to_json()}

    def save(self, folder: str | Path) -> None:
        """Write `settlement.json` into a folder, made if it is not there, and rewards into the parties' own folders."""
        place = Path(folder)
        document = json.dumps(self.to_document(), indent=1, ensure_ascii=False, allow_nan=False)
        try:
            folders.make_passable(place)
            for award in self.awards.values():
                if award.reward is not None:
                    award.reward.save(folders.make_folder_of(place, award.party) / folders.REWARD)
            # Last, so that a folder with a settlement has all of it.
            with replaced_file(place / FILE, mode=0o600) as partial:
                partial.write_text(f"{document}\n", encoding="utf-8")
        except OSError as error:
            raise MediationError(
                f"cannot write the settlement into {str(place)!r}: {error.strerror or error}; free some room and "
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
            With the rewards that are there.

        Raises
        ------
        MediationError
            It cannot be read as a settlement, or its parts contradict each other.
        """
        place = Path(folder)
        path = place / FILE
        try:
            document = strict_json(read_limited(path, max_bytes=MAX_BYTES), max_bytes=MAX_BYTES)
        except (OSError, ValueError) as error:
            raise MediationError(
                f"{str(path)!r} cannot be read as a settlement ({getattr(error, 'strerror', None) or error})"
            ) from error
        settlement = cls.parse(document, name=repr(str(path)))
        awards = dict(settlement.awards)
        for party, award in awards.items():
            found = next((file for file in folders.places_of_reward(place, party) if file.exists()), None)
            if found is not None:
                awards[party] = replace(award, reward=Reward.load(found))
        return replace(settlement, awards=awards)

    @classmethod
    def parse(cls, document: dict[str, Any], *, name: str = "the document") -> Self:
        """Read a settlement from what `to_document` returned: without rewards, with the audit that was stored.

        Parameters
        ----------
        document : dict
            Plain values.
        name : str
            What error messages call it.

        Returns
        -------
        Settlement

        Raises
        ------
        MediationError
            It cannot be read as a settlement, or its parts contradict each other.
        """
        try:
            document = dict(document)
            found = document.pop("audit", None)
            version = document.pop("version")
            if document.pop("format") != FORMAT or version not in READABLE:
                raise ValueError("it has another format, or was written by another version of Equipoise: settle again")
            document["agreement"] = Agreement.model_validate(document["agreement"])
            if document.pop("identity") != document["agreement"].identity_digest:
                raise ValueError("its agreement was changed")
            document["contributions"] = {party: Contribution(**one) for party, one in document["contributions"].items()}
            document["teams"] = tuple(map(tuple, document["teams"]))
            if (document.get("nothing") is not None) != (version == VERSION):
                raise ValueError("it does not say who counts as bringing nothing as its version does")
            if version == VERSION:
                document["nothing"] = tuple(document["nothing"])
            if version < VERSION and document["agreement"].format > 1:
                raise ValueError("its version is older than the format of its agreement")
            if sorted(name for team in document["teams"] for name in team) != sorted(document["contributions"]):
                raise ValueError("its teams do not name everybody who took part just once")
            document["coalitions"] = tuple(
                CoalitionValue(**_with(one, members=tuple, value=_estimate, problems=tuple))
                for one in document["coalitions"]
            )
            document["shapley"] = _estimates(document["shapley"])
            document["shapley_covariance"] = tuple(map(tuple, document["shapley_covariance"]))
            document["curve"] = tuple(
                CurvePoint(**_with(one, team=tuple, value=_estimate)) for one in document["curve"]
            )
            document["remarks"] = tuple(Remark(**_with(one, parties=tuple)) for one in document["remarks"])
            document["awards"] = {party: _award(one) for party, one in document["awards"].items()}
            document["findings"] = None if found is None else Audit.from_json(found)
            settlement = cls(**document)
            settlement._check_consistent()
            return settlement
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise MediationError(f"{name} cannot be read as a settlement ({error})") from error

    def _check_consistent(self) -> None:
        """Refuse parts that are about different parties, or lack what others rely on."""
        if missing := sorted({"seed", "rho", "mechanism", "precision", "tolerance"} - set(self.options)):
            raise ValueError(f"its options lack {missing[0]!r}")
        try:
            self.settings  # noqa: B018  (checked as it is made)
        except EquipoiseError as error:
            raise ValueError(f"its options cannot be used: {error}") from error
        parties = set(self.parties)
        named = {"awards": set(self.awards), "Shapley values": set(self.shapley)}
        named |= {f"award of {party}": {*one.team, one.party, *parties} for party, one in self.awards.items()}
        named |= {"coalitions": parties.union(*(one.members for one in self.coalitions))}
        named |= {"agreement": parties & set(self.agreement.party_names)}
        for part, those in named.items():
            if those != parties:
                raise ValueError(f"its {part} and its contributions name different parties")
        if np.asarray(self.shapley_covariance, float).shape != (len(parties), len(parties)):
            raise ValueError("its covariance is not that of all its parties")


def _with(document: dict[str, Any], **converters: Any) -> dict[str, Any]:
    return document | {name: convert(document[name]) for name, convert in converters.items()}


def _estimate(document: dict[str, float]) -> Estimate:
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in document.values()):
        raise ValueError(f"{document!r:.80} is no estimate")
    return Estimate(**document)


def _estimates(document: dict[str, dict[str, float]]) -> dict[str, Estimate]:
    return {name: _estimate(one) for name, one in document.items()}


def _award(document: dict[str, Any]) -> Award:
    converters: dict[str, Any] = dict.fromkeys(("alone", "target", "attained", "similarity"), _estimate)
    if "error_curve" in document:
        converters["error_curve"] = lambda curve: ErrorCurve(curve["alone"], tuple(map(tuple, curve["points"])))
    return Award(**_with(document, team=tuple, notes=tuple, losses=_estimates, **converters))
