"""The model that a party should use: its reward combined with its own rows.

    p(θ | own rows, reward) ∝ p(θ) · p(own rows | θ) · e(θ)

e is the others' evidence as the reward carries it. Own rows enter without noise; values beyond the agreed bounds are
moved to them. For a regression, the likelihood is that of targets given features, since the distribution of features
says nothing about θ once rows are known. The party's own release is left out, because it is these rows again, with
noise.

Degraded rewards of regressions carry the sum of the others' releases, whose likelihood is known. The deviation of the
others from the own rows is learnt with it (`equipoise.reward.others`).

Other rewards carry the evidence as draws, to which a density is fitted (`equipoise.reward.evidence`). If own rows lie
in the tail of the evidence, few draws are near them and the fit is a guess there, however well it describes the draws
as a whole. The draws themselves show this: weighted by the likelihood of own rows they are draws of the posterior at
home, and the effective number of these importance weights, (Σw)²/Σw², tells how many of them matter. If it is small,
own rows alone are shown beside the model.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from equipoise._util.cores import one_core_each
from equipoise._util.display import Table
from equipoise._util.text import counted
from equipoise.client.home.released import read_own_rows
from equipoise.client.home.rows import OwnRows
from equipoise.errors import InferenceError, MediationError
from equipoise.estimate import Estimate
from equipoise.inference.posterior import Posterior
from equipoise.models.base import Rows
from equipoise.models.regression import Regression
from equipoise.reward.evidence import LARGEST_MISFIT, Evidence
from equipoise.reward.model import HOME_FORMAT, Reward, readable
from equipoise.reward.others import ExactEvidence, deviation_at
from equipoise.reward.reading import RewardFile
from equipoise.reward.slice_sampling import sample
from equipoise.reward.summary import Summary, summarise
from equipoise.reward.sums import OthersSums
from equipoise.valuation.divergence import divergence

DRAWS = 4_000
FEWEST_EFFECTIVE = 100
# Standard deviations of own rows alone. A model that differs by more is to be compared by held-out rows.
LARGEST_SHIFT = 0.5
# Heterogeneity, in prior standard deviations, from which on the others are said to differ. It is the prior's median.
CLEARLY_DIFFERENT = 0.02
# In coordinates where the prior is N(0, 1), no release gives evidence farther out than this.
FARTHEST_EVIDENCE = 1_000.0
METHOD = "home"
NOTICE = (
    "This model holds rows without noise. It must not leave the house: whoever has it learns of single rows what no "
    "release would tell."
)


@dataclass(eq=False, repr=False)
class HomeModel(Reward):
    """A reward and a party's own rows together; it predicts, prints and is saved like a `Reward`.

    `combine` makes one. It holds rows without noise and must not leave the house. `Reward.load`, and with it everything
    that takes rewards from others, refuses its file.

    Attributes
    ----------
    rows : int
        Number of own rows in it.
    parts : int
        Number of normal distributions that describe the others' evidence: 1 unless that does not fit.
    misfit : Estimate, optional
        Divergence in nats of the others' evidence from this description; None if the reward has no evidence as draws.
    effective : float, optional
        Effective number of the others' draws, weighted by how likely they make the own rows. Below 100 the model rests
        on the description alone.
    heterogeneity : tuple of float, optional
        Quantiles, at 5, 50 and 95 %, of the distance of the others' weights from those of the own rows, in units of the
        size that the agreement expects of a weight. None if the others' evidence comes as draws.
    own : dict of str to list of float, optional
        Quantiles of the parameters by own rows alone, at 5, 25, 50, 75 and 95 %, if `effective` is below 100 and
        the chains of this comparison converged.
    party, agreement, posterior, value, deviations, release : object
        As in a `Reward`; `value` is that of rows and evidence together, `others`, `sums` and `release` are None.

    Examples
    --------
    >>> eq.combine("reward.nc", "north.csv").save("model.nc")
    >>> model = eq.HomeModel.load("model.nc")
    >>> model.rows, model.predict([[50, 27], [70, 31]]).shape
    (60, (2,))
    """

    file_format = HOME_FORMAT

    rows: int = 0
    parts: int = 1
    misfit: Estimate | None = None
    effective: float | None = None
    own: Summary | None = None
    heterogeneity: tuple[float, float, float] | None = None

    @property
    def title(self) -> str:
        """The description, with the notice that the model must stay at home."""
        return f"{self.described}. {NOTICE}"

    @property
    def described(self) -> str:
        """A short description: party, kind of model, own rows and value."""
        return (
            f"Model at home of {self.party}, a {self.agreement.model.noun}: the reward and "
            f"{counted(self.rows, 'own row')}, worth {self.value} nats"
        )

    @property
    def fits(self) -> bool:
        """True if the fitted density describes the others' evidence well enough."""
        return self.misfit is None or self.misfit.value <= LARGEST_MISFIT

    @property
    def remarks(self) -> list[str]:
        """Reasons not to rely on the model, as sentences."""
        told = []
        if self.effective is not None and self.effective < FEWEST_EFFECTIVE:
            told.append(self._remark_on_few_draws(self.effective))
        if not self.fits:
            told.append(
                f"The others' evidence is not well described by {counted(self.parts, 'normal distribution')}: "
                f"{self.misfit} nats are left. Compare the models before you rely on this one (`equipoise party "
                "compare`), or ask the mediator for more draws."
            )
        if self.heterogeneity is not None and (remark := remark_on_heterogeneity(self.heterogeneity)):
            told.append(remark)
        told += [f"Its chains have not converged: {problem}." for problem in self.posterior.diagnostics.problems]
        return told

    def _remark_on_few_draws(self, effective: float) -> str:
        """Say that few of the others' draws lie near the own rows, and how far the model is from these alone."""
        remark = (
            f"The effective number of the others' draws under your own rows is {effective:.3g}, below "
            f"{FEWEST_EFFECTIVE}. Few of them lie where your rows are, so there the model rests on how the evidence "
            "was described."
        )
        if (shift := self.shift) is None:
            return f"{remark} The model cannot be compared with your own rows alone, whose chains did not converge."
        remark += f" The model is up to {shift:.2g} standard deviations away from your own rows alone."
        if shift > LARGEST_SHIFT:
            remark += " Compare the two by held-out rows before you rely on it (`equipoise party compare`)."
        return remark

    @property
    def shift(self) -> float | None:
        """The largest distance of a parameter from that by own rows alone, in standard deviations of the latter.

        None if there is no `own` to compare with.
        """
        if self.own is None:
            return None
        here = summarise(self.agreement, self.posterior.draws)
        # Between the 5 % and the 95 % quantile of a normal distribution lie 3.29 standard deviations.
        return max(
            abs(here[name][2] - middle) / max((high - low) / 3.29, 1e-300)
            for name, (low, _, middle, _, high) in self.own.items()
        )

    @classmethod
    def _more_of(cls, file: RewardFile) -> dict[str, Any]:
        document = file.document("home")
        misfit = None if document["misfit"] is None else Estimate(**document["misfit"])
        more = {name: document.get(name) for name in ("effective", "own")}
        if "heterogeneity" in document:
            more["heterogeneity"] = tuple(document["heterogeneity"])
        return {"rows": document["rows"], "parts": document["parts"], "misfit": misfit, **more}

    def _attributes(self) -> dict[str, Any]:
        misfit = None if self.misfit is None else {"value": self.misfit.value, "error": self.misfit.error}
        home: dict[str, Any] = {"rows": self.rows, "parts": self.parts, "misfit": misfit, "notice": NOTICE}
        told = {
            "effective": self.effective,
            "own": self.own,
            "heterogeneity": self.heterogeneity and list(self.heterogeneity),
        }
        home |= {name: value for name, value in told.items() if value is not None}
        return super()._attributes() | {"home": home}

    def beside_own_rows(self) -> Table | None:
        """Return the parameters by own rows alone beside those of this model; None unless few draws matter."""
        if self.own is None:
            return None
        here = summarise(self.agreement, self.posterior.draws)
        rows = [
            (
                name,
                *(f"{middle:.3g} ({low:.3g} to {high:.3g})" for low, _, middle, _, high in (self.own[name], quantiles)),
            )
            for name, quantiles in here.items()
        ]
        return Table("Own rows alone, and with the others' evidence", ("parameter", "own rows", "at home"), rows)


def load_model(path: str | Path) -> Reward:
    """Open a file that holds a reward or a model at home."""
    with readable(path):
        file = RewardFile.read(Path(path))
        kind = HomeModel if file.texts["format"] == HOME_FORMAT else Reward
        return kind.of_file(file)


def combine(
    reward: Reward | str | Path,
    table: Any,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    force: bool = False,
    allow_clipping: bool = False,
    other_rows: bool = False,
) -> HomeModel:
    """Combine a reward with one's own rows, at home: the model that a party should predict with.

    Own rows enter without noise; numbers beyond the agreed bounds are moved to them, as in a release. The others'
    evidence comes from the reward. No privacy is spent, but nothing may leave: the model holds rows without noise.

    Parameters
    ----------
    reward : Reward or path
        The reward as the mediator sent it.
    table : path, data frame, Arrow table, dictionary of columns, array or (X, y)
        Own rows, with the agreed columns, as `release` takes them. Rows whose target is missing are left out.
    draws : int
        Draws to make.
    seed : int
        The same seed gives the same draws.
    force : bool
        Return a model even if its chains have not converged.
    allow_clipping : bool
        Go on although more than a fifth of a column lies outside the agreed bounds.
    other_rows : bool
        Accept another table than the one that was released, for instance one that has grown since.

    Returns
    -------
    HomeModel
        Its `heterogeneity` is the distance of the others from own rows. If the others' evidence comes as draws, its
        `misfit` tells how well these were described, and `effective` how many of them agree with the own rows. There is
        a warning if the others clearly differ, above 0.1 nats of misfit, or below 100 draws.

    Raises
    ------
    MediationError
        The reward does not hold the others' evidence (as in versions up to 0.10), or is no reward.
    TableError
        The table lacks agreed columns or rows, has too many values outside the bounds, or is not the one that was
        released.
    ConvergenceError
        The chains do not agree, and `force` is not set.

    Examples
    --------
    >>> model = eq.combine("reward.nc", "north.csv")
    >>> model.posterior.converged
    True
    >>> model.save("model.nc")
    """
    if not isinstance(reward, Reward):
        reward = Reward.load(reward)
    evidence = evidence_of(reward)
    own = read_own_rows(reward, table, allow_clipping=allow_clipping, other_rows=other_rows)
    model = combined(reward, evidence, own, draws=draws, seed=seed, force=force)
    for remark in model.remarks:
        warnings.warn(remark, stacklevel=2)
    return model


def combined(
    reward: Reward, evidence: Evidence | ExactEvidence, own: OwnRows, *, draws: int, seed: int, force: bool = False
) -> HomeModel:
    """Combine evidence and rows that have been read; see `combine`."""
    posterior, heterogeneity = posterior_at_home(reward, evidence, own.rows, draws=draws, seed=seed)
    posterior.require_converged(force=force)
    assert posterior.coordinates is not None
    value = divergence(posterior.coordinates.reshape(posterior.chains, -1, posterior.coordinates.shape[1]))
    effective = None if reward.others is None else effective_draws(reward, own.rows)
    alone = None
    if effective is not None and effective < FEWEST_EFFECTIVE:
        alone, _ = posterior_at_home(reward, no_evidence(reward), own.rows, draws=draws, seed=seed)
        # Only the model itself must converge. A comparison that did not is left out, and `remarks` says so.
        alone = alone if alone.converged else None
    return HomeModel(
        reward.party,
        reward.agreement,
        posterior,
        value,
        reward.deviations,
        rows=len(own.rows.target),
        parts=len(evidence.parts),
        misfit=evidence.misfit,
        effective=effective,
        own=None if alone is None else summarise(reward.agreement, alone.draws),
        heterogeneity=heterogeneity,
    )


def effective_draws(reward: Reward, rows: Rows) -> float:
    """Return the effective number (Σw)²/Σw² of the others' draws, weighted by the likelihood of own rows."""
    assert reward.others is not None
    model = reward.agreement.model
    points = reward.others.reshape(-1, reward.others.shape[2])
    log_weights = model.likelihood_of(rows)(model.at_coordinates(points))
    return float(np.exp(2 * scipy.special.logsumexp(log_weights) - scipy.special.logsumexp(2 * log_weights)))


def no_evidence(reward: Reward) -> Evidence:
    """Return the prior as evidence, for own rows alone."""
    return Evidence.none(len(reward.agreement.model.coordinate_names()))


def remark_on_heterogeneity(heterogeneity: tuple[float, float, float]) -> str:
    """Return a remark if the others' rows clearly follow other weights than the own rows; otherwise nothing."""
    low, middle, high = heterogeneity
    if low < CLEARLY_DIFFERENT:
        return ""
    return (
        f"The others differ from your rows: their weights are off by about {middle:.2g} times ({low:.2g} to "
        f"{high:.2g}) the size that the agreement expects of a weight, so they count for less here. If that is a "
        "surprise, ask whether everybody uses the same units and definitions."
    )


def evidence_of(reward: Reward) -> Evidence | ExactEvidence:
    """Return the others' evidence in a reward, exact or fitted to draws; the prior if there are no others."""
    if isinstance(reward, HomeModel):
        raise MediationError(
            f"this is a model at home already, with {counted(reward.rows, 'own row')} in it; rows would count twice. "
            "Combine them with the reward as the mediator sent it"
        )
    if reward.sums is not None:
        return _exact_evidence(reward, reward.sums)
    scenario = reward.posterior.scenario
    others = [party for party in scenario.coalition or () if party != reward.party]
    if reward.others is not None:
        _check_evidence(reward)
        return Evidence.fitted(reward.others)
    if not others or scenario.kappa == 0:
        return no_evidence(reward)
    raise MediationError(
        f"the reward of {reward.party!r} does not hold the evidence of the others ({', '.join(others)}) by itself, as "
        "those of versions up to 0.10; ask the mediator to settle the round again with this version, which gives the "
        "same reward with the evidence beside it"
    )


def _exact_evidence(reward: Reward, sums: OthersSums) -> ExactEvidence:
    model = reward.agreement.model
    # `RewardFile.check` refuses sums in rewards of other models.
    assert isinstance(model, Regression)
    with _usable(reward), one_core_each():
        return ExactEvidence(model, sums)


@contextmanager
def _usable(reward: Reward) -> Iterator[None]:
    """Raise one clear error if the evidence leaves no posterior that can be computed."""
    try:
        yield
    except (InferenceError, np.linalg.LinAlgError) as error:
        raise MediationError(
            f"the others' evidence in the reward of {reward.party!r} cannot be combined with these rows ({error}): "
            "ask the mediator to send the reward again, in case the file was changed, or use your own rows alone"
        ) from error


def _check_evidence(reward: Reward) -> None:
    """Refuse draws of the others' evidence that no sampler makes: all alike, or far beyond what the prior allows."""
    assert reward.others is not None
    points = reward.others.reshape(-1, reward.others.shape[2])
    farthest = float(np.abs(points).max())
    fewest = 2 * points.shape[1] + 2
    distinct = len(np.unique(points, axis=0))
    if farthest > FARTHEST_EVIDENCE or distinct < fewest or np.ptp(points, axis=0).min() == 0:
        what = (
            f"lies up to {farthest:.3g} prior standard deviations away"
            if farthest > FARTHEST_EVIDENCE
            else f"consists of {counted(distinct, 'draw')} that differ, and is constant in some direction or nearly so"
        )
        raise MediationError(
            f"the others' evidence in the reward of {reward.party!r} {what}, which no settlement gives: the file was "
            "changed or made by another program; ask the mediator to send the reward again"
        )


def posterior_at_home(
    reward: Reward, evidence: Evidence | ExactEvidence, rows: Rows, *, draws: int, seed: int
) -> tuple[Posterior, tuple[float, float, float] | None]:
    """Sample the model's own parameters given evidence and rows.

    Also return quantiles of the others' deviation at 5, 50 and 95 %, if the evidence is exact; otherwise None.
    """
    model = reward.agreement.model
    likelihood, own = model.likelihood_of(rows), len(model.coordinate_names())

    def log_density(points: np.ndarray) -> np.ndarray:
        return evidence.log_density(points) + likelihood(model.at_coordinates(points[:, :own]))

    with _usable(reward), one_core_each():
        chains, diagnostics = sample(log_density, evidence.parts, draws, seed)
    coordinates = chains.reshape(-1, chains.shape[2])
    scenario = reward.posterior.scenario
    posterior = Posterior(
        model.at_coordinates(coordinates[:, :own]),
        diagnostics,
        scenario,
        METHOD,
        reward.posterior.rule,
        seed,
        0,
        len(chains),
        np.ascontiguousarray(coordinates[:, :own]),
    )
    if isinstance(evidence, Evidence):
        return posterior, None
    low, middle, high = (float(value) for value in np.quantile(deviation_at(coordinates[:, -1]), [0.05, 0.5, 0.95]))
    return posterior, (low, middle, high)
