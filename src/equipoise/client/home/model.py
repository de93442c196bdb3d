"""The model that a party should use: its reward and its own rows, as they are, together.

    p(θ | own rows, reward) ∝ p(θ) · p(own rows | θ) · e(θ)

e is the others' evidence as the reward carries it (`equipoise.reward.evidence`). Own rows enter exactly, unclipped and
without noise; of a regression they are its targets given its features, since how features are distributed says nothing
of θ once rows are known. The party's own release is left out: it is these rows again, with noise.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._util.text import counted
from equipoise.client.home.rows import OwnRows, own_rows
from equipoise.errors import MediationError
from equipoise.estimate import Estimate
from equipoise.inference.posterior import Posterior
from equipoise.models.base import Rows
from equipoise.reward.evidence import LARGEST_MISFIT, Evidence
from equipoise.reward.model import HOME_FORMAT, Reward, readable
from equipoise.reward.reading import RewardFile
from equipoise.reward.slice_sampling import sample
from equipoise.valuation.divergence import divergence

DRAWS = 4_000
METHOD = "home"
NOTICE = (
    "This model holds rows without noise. It must not leave the house: whoever has it learns of single rows what no "
    "release would tell."
)


@dataclass(eq=False, repr=False)
class HomeModel(Reward):
    """A reward and a party's own rows together: predicts, shows itself and is saved as a `Reward` is.

    `combine` makes one. It holds rows without noise and must not leave the house; `Reward.load`, and with it everything
    that takes rewards from others, refuses its file.

    Attributes
    ----------
    rows : int
        Own rows in it.
    parts : int
        Normal distributions that describe the others' evidence: 1 unless that does not fit.
    misfit : Estimate, optional
        Divergence in nats of the others' evidence from this description; None where the reward has none.
    party, agreement, posterior, value, deviations : object
        As of a `Reward`; `value` is that of rows and evidence together, `others` is None.

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

    @property
    def title(self) -> str:
        """What this is, and that it must stay at home."""
        return f"{self.described}. {NOTICE}"

    @property
    def described(self) -> str:
        """What this is, in a few words."""
        return (
            f"Model at home of {self.party}, a {self.agreement.model.noun}: the reward and "
            f"{counted(self.rows, 'own row')}, worth {self.value} nats"
        )

    @property
    def fits(self) -> bool:
        """Whether the others' evidence is described well enough."""
        return self.misfit is None or self.misfit.value <= LARGEST_MISFIT

    @property
    def remarks(self) -> list[str]:
        """What speaks against relying on the model, in sentences."""
        told = []
        if not self.fits:
            told.append(
                f"The others' evidence is not well described by {counted(self.parts, 'normal distribution')}: "
                f"{self.misfit} nats are left. Compare the models before you rely on this one (`equipoise party "
                "compare`), or ask the mediator for more draws."
            )
        told += [f"Its chains have not converged: {problem}." for problem in self.posterior.diagnostics.problems]
        return told

    @classmethod
    def _more_of(cls, file: RewardFile) -> dict[str, Any]:
        found = file.document("home")
        misfit = None if found["misfit"] is None else Estimate(**found["misfit"])
        return {"rows": found["rows"], "parts": found["parts"], "misfit": misfit}

    def _attributes(self) -> dict[str, Any]:
        misfit = None if self.misfit is None else {"value": self.misfit.value, "error": self.misfit.error}
        home = {"rows": self.rows, "parts": self.parts, "misfit": misfit, "notice": NOTICE}
        return super()._attributes() | {"home": home}


def load_model(path: str | Path) -> Reward:
    """Open a reward or a model at home, whichever a file is."""
    with readable(path):
        file = RewardFile.read(Path(path))
        kind = HomeModel if file.texts["format"] == HOME_FORMAT else Reward
        return kind.of_file(file)


def combine(
    reward: Reward | str | Path, table: Any, *, draws: int = DRAWS, seed: int = 0, force: bool = False
) -> HomeModel:
    """Combine a reward with one's own rows, at home: what a party should predict with.

    Own rows count exactly as they are, without noise; the rest is the others' evidence, as the reward carries it.
    Nothing is spent, and nothing may leave: the model holds rows without noise.

    Parameters
    ----------
    reward : Reward or path
        As the mediator sent it.
    table : path, data frame, Arrow table, dictionary of columns, array or (X, y)
        Own rows, with the agreed columns, as `release` takes them. Rows whose target is missing are left out.
    draws : int
        Draws to make.
    seed : int
        The same seed gives the same draws.
    force : bool
        Whether to return a model whose chains have not converged.

    Returns
    -------
    HomeModel
        Its `misfit` says how well the others' evidence was described; above 0.1 nats there is a warning.

    Raises
    ------
    MediationError
        The reward does not hold the others' evidence, as those of versions up to 0.10, or is no reward.
    TableError
        The table does not have the agreed columns, or no rows.
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
    found = combined(reward, evidence, own_rows(reward.agreement, table), draws=draws, seed=seed, force=force)
    for remark in found.remarks:
        warnings.warn(remark, stacklevel=2)
    return found


def combined(
    reward: Reward, evidence: Evidence, own: OwnRows, *, draws: int, seed: int, force: bool = False
) -> HomeModel:
    """As `combine`, of evidence and rows that have been read."""
    posterior = posterior_at_home(reward, evidence, own.rows, draws=draws, seed=seed).require_converged(force=force)
    assert posterior.coordinates is not None
    value = divergence(posterior.coordinates.reshape(posterior.chains, -1, evidence.dimension))
    return HomeModel(
        reward.party,
        reward.agreement,
        posterior,
        value,
        reward.deviations,
        rows=len(own.rows.target),
        parts=len(evidence.parts),
        misfit=evidence.misfit,
    )


def evidence_of(reward: Reward) -> Evidence:
    """The others' evidence in a reward, fitted; that of nobody else is none."""
    if isinstance(reward, HomeModel):
        raise MediationError(
            f"this is a model at home already, with {counted(reward.rows, 'own row')} in it; rows would count twice. "
            "Combine them with the reward as the mediator sent it"
        )
    scenario, dimension = reward.posterior.scenario, len(reward.agreement.model.coordinate_names())
    others = [party for party in scenario.coalition or () if party != reward.party]
    if reward.others is not None:
        return Evidence.fitted(reward.others)
    if not others or scenario.kappa == 0:
        return Evidence.none(dimension)
    raise MediationError(
        f"the reward of {reward.party!r} does not hold the evidence of the others ({', '.join(others)}) by itself, as "
        "those of versions up to 0.10; ask the mediator to settle the round again with this version, which gives the "
        "same reward with the evidence beside it"
    )


def posterior_at_home(reward: Reward, evidence: Evidence, rows: Rows, *, draws: int, seed: int) -> Posterior:
    """Draws of the model's own parameters given evidence and rows."""
    model = reward.agreement.model
    likelihood = model.likelihood_of(rows)

    def log_density(points: np.ndarray) -> np.ndarray:
        return evidence.log_density(points) + likelihood(model.at_coordinates(points))

    found, diagnostics = sample(log_density, evidence.parts, draws, seed)
    coordinates = found.reshape(-1, found.shape[2])
    scenario = reward.posterior.scenario
    return Posterior(
        model.at_coordinates(coordinates),
        diagnostics,
        scenario,
        METHOD,
        reward.posterior.rule,
        seed,
        0,
        len(found),
        coordinates,
    )
