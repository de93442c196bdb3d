"""Comparison of own rows, the reward, and both, by cross-validation at home; nothing of it is sent.

Rows are dealt into folds. The models that predict a fold were fitted to the other folds: with the prior ("own rows"),
and with the others' evidence ("both"). If the agreement identifies individuals, all rows of an individual go to one
fold; otherwise a fold could be predicted from the same individuals. The reward is as the mediator sent it. It has seen
every row, through the party's own noised release, which favours it a little; so has the model of that release alone, if
it is given. The other two models have not.

P4′ is the promise that matters to a party: the model that it has at home after the round predicts no worse than its own
rows did. Nobody else can check it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.display import Chart, Interval, Table
from equipoise.client.home.model import evidence_of, no_evidence, posterior_at_home, remark_on_heterogeneity
from equipoise.client.home.released import read_own_rows
from equipoise.errors import MediationError, TableError
from equipoise.estimate import UNSURE, Estimate
from equipoise.models.base import Rows
from equipoise.reward.model import Reward
from equipoise.reward.scoring import losses_on, mean_of_rows

FOLDS = 5
DRAWS = 1_600
OWN, ALONE, REWARD, BOTH = "own rows", "alone", "reward", "both"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Held-out losses of the models that a party can have at home; `compare` makes one.

    Attributes
    ----------
    party : str
        The party of the reward.
    rows, folds : int
        Number of own rows, and of the folds that they were dealt into.
    losses : dict of str to Estimate
        Mean negative log probability of a held-out row, per unit of the target: of "own rows", the own release "alone"
        if its model was given, the "reward" as it was sent, and "both". Less is better; standard errors are those of
        sampling rows.
    gains : dict of str to Estimate
        Mean improvement of the other models over own rows, row by row. Its error is smaller than that of the losses,
        because all models meet the same rows.
    best : str, optional
        The model that predicts better than every other one, row by row, by more than two standard errors; None if
        held-out rows cannot tell.
    remarks : tuple of str
        Reasons not to rely on the comparison, and observations on the table.

    Examples
    --------
    >>> eq.compare("reward.nc", "north.csv", folds=2).summary().headers
    ('model', 'held-out loss', 'better than own rows by', '')
    """

    party: str
    rows: int
    folds: int
    losses: dict[str, Estimate]
    gains: dict[str, Estimate]
    best: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict on P4′, that both are no worse than own rows alone: "holds", "fails" or "cannot tell"."""
        gain = self.gains[BOTH]
        if gain.z_score < -UNSURE:
            return "fails"
        return "holds" if gain.z_score > UNSURE or gain.error < 1e-3 else "cannot tell"

    def __repr__(self) -> str:
        return repr(self.summary())

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def summary(self) -> Table:
        """Return losses and gains as a table; notebooks show it with a chart."""
        rows = [
            (name, str(loss), "" if name == OWN else str(self.gains[name]), "best" if name == self.best else "")
            for name, loss in self.losses.items()
        ]
        lines = [
            (name, [Interval("loss", loss.value - 2 * loss.error, loss.value, loss.value + 2 * loss.error)])
            for name, loss in self.losses.items()
        ]
        return Table(
            f"What {self.party} can predict with, by {self.folds} folds of {self.rows:,} own rows: mean negative log "
            "probability of a held-out row (less is better)",
            ("model", "held-out loss", "better than own rows by", ""),
            rows,
            Chart("held-out loss, ± two standard errors", lines),
            [
                f"P4′, at home you predict no worse than with your own rows: {self.verdict}.",
                *([] if self.best else ["Which model is best cannot be told from these rows."]),
                *self.remarks,
            ],
        )


def compare(
    reward: Reward | str | Path,
    table: Any,
    *,
    alone: Reward | str | Path | None = None,
    folds: int = FOLDS,
    draws: int = DRAWS,
    seed: int = 0,
    allow_clipping: bool = False,
    other_rows: bool = False,
) -> Comparison:
    """Compare own rows, the reward and both, by how well they predict held-out own rows; nothing is sent.

    Parameters
    ----------
    reward : Reward or path
        The reward as the mediator sent it.
    table : path, data frame, Arrow table, dictionary of columns, array or (X, y)
        Own rows, with the agreed columns.
    alone : Reward or path, optional
        The model of the party's own release alone, to be compared as well: the reward of a round that it settles by
        itself (`equipoise mediate … --partial`).
    folds : int
        Number of parts into which rows are dealt; each is predicted from the others.
    draws : int
        Draws of each model.
    seed : int
        The same seed deals the same folds and gives the same draws.
    allow_clipping, other_rows : bool
        As in `combine`.

    Returns
    -------
    Comparison

    Raises
    ------
    MediationError
        The reward does not hold the others' evidence, `alone` is not of the same party's release alone, or there are
        fewer than two folds.
    TableError
        The table does not have the agreed columns, or fewer rows than folds.

    Examples
    --------
    >>> found = eq.compare("reward.nc", "north.csv", folds=2)
    >>> found.losses["both"].value < found.losses["reward"].value
    True
    """
    if not isinstance(reward, Reward):
        reward = Reward.load(reward)
    if folds < 2:
        raise MediationError(f"{folds} folds leave nothing to predict from; give 2 or more")
    evidence = evidence_of(reward)
    sent = {REWARD: reward} if alone is None else {ALONE: _release_alone(alone, reward), REWARD: reward}
    own = read_own_rows(reward, table, allow_clipping=allow_clipping, other_rows=other_rows)
    rows, remarks = own.rows, list(own.remarks)
    if not evidence.fits:
        remarks.append(f"The others' evidence is not well described: {evidence.misfit} nats are left.")
    number = len(rows.target)
    whose = None if own.owners is None else np.unique(own.owners, return_inverse=True)[1]
    dealt_out = number if whose is None else int(whose.max()) + 1
    if dealt_out < folds:
        them = "rows" if whose is None else "individuals"
        raise TableError(f"{dealt_out} {them} are too few for {folds} folds; give fewer folds, or more rows")
    nothing = no_evidence(reward)
    terms = {OWN: np.empty(number)}
    terms |= {name: losses_on(rows, model.posterior.draws) for name, model in sent.items()}
    terms[BOTH] = np.empty(number)
    doubtful, heterogeneity = 0, []
    dealt = np.random.default_rng(seed).permutation(dealt_out) % folds
    if whose is not None:
        dealt = dealt[whose]
    for fold in range(folds):
        kept, held = _rows_at(rows, dealt != fold), _rows_at(rows, dealt == fold)
        for name, known in ((OWN, nothing), (BOTH, evidence)):
            fitted, off = posterior_at_home(reward, known, kept, draws=draws, seed=seed + fold)
            heterogeneity += [] if off is None else [off]
            doubtful += not fitted.converged
            terms[name][dealt == fold] = losses_on(held, fitted.draws)
    losses = {name: mean_of_rows(values, whose) for name, values in terms.items()}
    gains = {name: mean_of_rows(terms[OWN] - terms[name], whose) for name in terms if name != OWN}
    if heterogeneity:
        low, middle, high = np.mean(heterogeneity, axis=0).tolist()
        remarks += [remark] if (remark := remark_on_heterogeneity((low, middle, high))) else []
    if doubtful:
        remarks.append(f"{doubtful} of {2 * folds} fits have not converged; ask for more draws, or fewer folds.")
    return Comparison(reward.party, number, folds, losses, gains, _best(terms, whose), tuple(remarks))


def _best(terms: dict[str, Floats], whose: NDArray[np.int64] | None) -> str | None:
    """Name the model whose loss is below that of every other one by more than the errors of the differences."""
    first = min(terms, key=lambda name: float(np.mean(terms[name])))
    behind = [mean_of_rows(losses - terms[first], whose) for name, losses in terms.items() if name != first]
    return first if all(difference.z_score > UNSURE for difference in behind) else None


def _release_alone(alone: Reward | str | Path, reward: Reward) -> Reward:
    model = alone if isinstance(alone, Reward) else Reward.load(alone)
    if model.agreement.identity_digest != reward.agreement.identity_digest:
        raise MediationError("the model of the release alone is of another agreement than the reward")
    if model.posterior.scenario.coalition != (reward.party,):
        raise MediationError(
            f"this is no model of the release of {reward.party!r} alone; settle that release by itself, with "
            "`equipoise mediate AGREEMENT SUBMISSION --partial`, and give the reward of that"
        )
    return model


def _rows_at(rows: Rows, chosen: Any) -> Rows:
    features = None if rows.features is None else rows.features[chosen]
    return Rows(features, rows.target[chosen], rows.unit, rows.model)
