"""The model that a party gets: its posterior, with everything needed to use and check it, in one netCDF file.

It predicts like scikit-learn's estimators and can be used in their place: at the end of a pipeline, in
cross-validation, in permutation importance. It is already fitted, so `fit` changes nothing.

The file follows ArviZ: group `posterior` has the draws by chain, `unconstrained_posterior` the coordinates in which the
prior is N(0, I), `diagnostics` R̂ and effective sizes; the agreement and the scenario are attributes. The draws are
of the model's own parameters (`reward/nuisance.py`); files of versions up to 0.6 also have those of the features. Since
0.11, `others_evidence` has draws, in the same coordinates, of the evidence in the others' releases without one's own,
for `equipoise.client.home`. Since 0.19, degraded rewards have `others_sums` instead: one weighted sum of those
releases.
"""
# scikit-learn's tools call methods by these argument names.
# ruff: noqa: N803, ARG002

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise._util.display import Table
from equipoise._util.files import replaced_file
from equipoise.agreement import Agreement
from equipoise.errors import MediationError, SubmissionError
from equipoise.estimate import Estimate
from equipoise.inference.diagnostics import Diagnostics
from equipoise.inference.posterior import Posterior, load_arviz
from equipoise.inference.scenario import Scenario
from equipoise.protocol.submission import Submission
from equipoise.reward import prediction
from equipoise.reward.reading import (
    COORDINATES,
    DIAGNOSTICS,
    OTHERS,
    POSTERIOR,
    RELEASE,
    SUMS,
    UNCONSTRAINED,
    RewardFile,
)
from equipoise.reward.scoring import mean_negative_log_probability, scaled_rows
from equipoise.reward.summary import WEIGHT, displayed
from equipoise.reward.sums import OthersSums
from equipoise.reward.writing import serialize

if TYPE_CHECKING:
    import arviz
    from sklearn.utils import Tags

FORMAT = "equipoise-reward"
# Models of `equipoise.client.home`. Code that takes rewards from others refuses this format.
HOME_FORMAT = "equipoise-home-model"
VERSION = 1
DEVIATIONS = "deviations"
_ARRAYS = ("rhat", "ess_bulk", "ess_tail")
# Exceptions that h5netcdf and the checks of a file's contents raise for damaged files.
_DAMAGES = (
    SubmissionError,
    OSError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
)


@dataclass(eq=False, repr=False)
class Reward:
    """One party's reward: a model that is already fitted, and predicts like scikit-learn's estimators.

    `load` opens the file that the mediator sent. Equal rewards have equal draws. Features `X` are an array with columns
    in the agreed order, or a data frame, an Arrow table or a dictionary with columns by name, in their own units.

    Attributes
    ----------
    party : str
        The party that the reward is for.
    agreement : Agreement
        The agreement of the round.
    posterior : Posterior
        The draws, in scaled units.
    value : Estimate
        The value of the draws, in nats.
    deviations : tuple of str
        Points in which the settlement departed from the agreement.
    others : array, optional
        Draws [chains, draws, d], in the coordinates of `posterior.coordinates`, of prior times the others' evidence
        without one's own, held back as in the reward: for `combine`. None if nobody else's release is in the
        reward, if it has `sums`, and in files of versions up to 0.10.
    release : Submission, optional
        The party's own submission. `combine` uses it to check that a table is the one that was released. None in files
        of versions up to 0.14.
    sums : OthersSums, optional
        One weighted sum of the others' releases, with noise added as in the reward: for `combine`, of degraded rewards
        of regressions whose features have one distribution. None in files of versions up to 0.18.

    Examples
    --------
    >>> reward = eq.Reward.load("reward.nc")
    >>> expected, interval = reward.predict([[50, 27], [70, 31]], return_interval=0.9)
    >>> expected.round(-1), interval.shape
    (array([190., 260.]), (2, 2))
    """

    file_format: ClassVar[str] = FORMAT

    party: str
    agreement: Agreement
    posterior: Posterior
    value: Estimate
    deviations: tuple[str, ...] = ()
    others: Floats | None = None
    release: Submission | None = None
    sums: OthersSums | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        # A frozen dataclass would refuse too much: scikit-learn's pipelines set private attributes on their steps.
        if name in self.__dataclass_fields__ and name in self.__dict__:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reward) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return repr(self.summary())

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def summary(self) -> Table:
        """Summarise the parameters, in the columns' own units, as a table; notebooks show it with a chart.

        Returns
        -------
        Table
            Median and 90 % interval of every parameter; of a logistic regression also odds ratios, by which the odds of
            the positive label are multiplied when a feature grows by 1.

        Examples
        --------
        >>> eq.Reward.load("reward.nc").summary().headers
        ('parameter', 'median', '5 % to 95 %')
        """
        return displayed(self.agreement, self.posterior.draws, self.title)

    @property
    def title(self) -> str:
        """A title for tables and plots: party, kind of model and value."""
        return f"Reward of {self.party}, a {self.agreement.model.noun}, worth {self.value} nats"

    @property
    def digest(self) -> str:
        """The SHA-256 of party, agreement, scenario and every draw, as hexadecimal digits."""
        parts = [canonical_json(self._attributes())]
        for name in sorted(self.posterior.draws):
            parts += [name.encode(), np.ascontiguousarray(self.posterior.draws[name]).tobytes()]
        if self.posterior.coordinates is not None:
            parts.append(np.ascontiguousarray(self.posterior.coordinates).tobytes())
        if self.others is not None:
            parts += [OTHERS.encode(), np.ascontiguousarray(self.others).tobytes()]
        if self.sums is not None:
            parts += [
                SUMS.encode(),
                *(np.ascontiguousarray(array).tobytes() for array in self._arrays_of_sums().values()),
            ]
        return sha256_hex(b"".join(bytes.fromhex(sha256_hex(part)) for part in parts))

    def predict(self, X: Any, *, return_interval: float | None = None) -> Any:
        """Predict the target of each row, in its own units, or its label as agreed.

        Parameters
        ----------
        X : array, data frame, Arrow table or dictionary
            Features, one row for each prediction.
        return_interval : float, optional
            For regression: also return intervals that should hold this share of new observations.

        Returns
        -------
        predictions : array or series
            Expected targets, or the more probable labels; for a pandas frame a series with its index.
        intervals : array
            [rows, 2], if `return_interval` is given.

        Raises
        ------
        TableError
            The features cannot be read.
        MediationError
            The model has no features, or labels were to have intervals.
        """
        target = self.agreement.model.target.name
        if self._classifies:
            if return_interval is not None:
                raise MediationError("labels have no interval; use predict_proba(X, return_interval=…)")
            labels: NDArray[Any] = self.classes_[np.argmax(np.asarray(self.predict_proba(X)), axis=1)]
            return _with_index(X, labels, target)
        expected = _with_index(X, prediction.expected_target(self.agreement, self.posterior, X), target)
        if return_interval is None:
            return expected
        return expected, prediction.target_interval(self.agreement, self.posterior, X, return_interval)

    def predict_proba(self, X: Any, *, return_interval: float | None = None) -> Any:
        """Return the probability of each label, for a logistic regression.

        Parameters
        ----------
        X : array, data frame, Arrow table or dictionary
            Features, one row for each prediction.
        return_interval : float, optional
            Also return intervals that hold the probability of the positive label (the agreed second one) with this
            probability.

        Returns
        -------
        probabilities : array or data frame
            [rows, 2], in the order of `classes_`; for a pandas frame one with its index.
        intervals : array
            [rows, 2], if `return_interval` is given.
        """
        probabilities = prediction.class_probabilities(self.agreement, self.posterior, X)
        probabilities = _with_index(X, probabilities, self.classes_)
        if return_interval is None:
            return probabilities
        return probabilities, prediction.probability_interval(self.agreement, self.posterior, X, return_interval)

    def sample_predictions(self, X: Any = None, *, size: int | None = None, seed: int = 0) -> NDArray[Any]:
        """Simulate new observations, one for each draw and row.

        Parameters
        ----------
        X : array, data frame, Arrow table or dictionary, optional
            Features, one row for each observation; None for a model without features.
        size : int, optional
            For a model without features: observations for each draw, by default one.
        seed : int
            The same seed gives the same observations.

        Returns
        -------
        array
            [draws, rows], in the target's own units.
        """
        return prediction.simulated(self.agreement, self.posterior, X, size, seed)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the R² of a regression, or the accuracy of a classification.

        Parameters
        ----------
        X : array, data frame, Arrow table or dictionary
            Features.
        y : array
            Targets, in their own units.
        sample_weight : array, optional
            Weights of the rows.

        Returns
        -------
        float
            1 at best.
        """
        from sklearn.metrics import accuracy_score, r2_score

        # Refuse rows that do not fit the agreement with our own messages.
        scaled_rows(self.agreement, X, y)
        measure = accuracy_score if self._classifies else r2_score
        return float(measure(np.asarray(y), self.predict(X), sample_weight=sample_weight))

    def loss(self, X: Any, y: Any) -> float:
        """Return the mean negative log probability of targets, per unit of the target, as settlements report it.

        Parameters
        ----------
        X : array, data frame, Arrow table or dictionary
            Features; None for a model without features.
        y : array
            Targets, in their own units.

        Returns
        -------
        float
            Less is better.
        """
        return mean_negative_log_probability(self.posterior, scaled_rows(self.agreement, X, y))

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Do nothing, for scikit-learn's tools: the mediator already fitted this model to the parties' releases."""
        return self

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The posterior mean of the weights in the columns' own units [features]; of a classification [1, features]."""
        means = self._means(WEIGHT)
        return means[None, :] if self._classifies else means

    @property
    def intercept_(self) -> Any:
        """The posterior mean of the intercept in own units; of a classification [1]."""
        means = self._means("intercept")
        return means if self._classifies else float(means[0])

    @property
    def _classifies(self) -> bool:
        return self.agreement.model.estimator_type == "classifier"

    def _means(self, prefix: str) -> NDArray[np.float64]:
        own = self.agreement.model.own_units(self.posterior.draws)
        means = [values.mean() for name, values in own.items() if name.startswith(prefix)]
        if not means:
            raise AttributeError(f"a {self.agreement.model.noun} has no weights and no intercept")
        return np.array(means)

    @property
    def classes_(self) -> NDArray[Any]:
        """The agreed labels, in NumPy's order."""
        return self.agreement.model.class_labels()

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return len(self.feature_names_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the features, in the agreed order."""
        return np.array([column.name for column in self.agreement.columns[:-1]], dtype=object)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return no parameters, for scikit-learn's tools: nothing can be tuned."""
        return {}

    def set_params(self, **parameters: Any) -> Self:
        """Refuse all parameters, for scikit-learn's tools: nothing can be tuned."""
        if parameters:
            raise MediationError(f"a reward has no parameters to set, so not {', '.join(parameters)}; leave them out")
        return self

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> "Tags":
        return prediction.sklearn_tags(self.agreement)

    def to_csv(self, path: str | Path) -> None:
        """Write every draw in the columns' own units as a CSV file; an existing one is replaced once this is whole."""
        _write_csv(Path(path), self.agreement.model.own_units(self.posterior.draws), self.posterior.chains)

    def to_inferencedata(self) -> "arviz.InferenceData":
        """Convert to ArviZ: draws by chain, coordinates, diagnostics, and the agreement among the attributes."""
        arviz = load_arviz()
        data = self.posterior.to_inferencedata()
        groups = {
            name: arviz.dict_to_dataset(values, **({"default_dims": []} if name in (DIAGNOSTICS, SUMS) else {}))
            for name, values in self._groups().items()
            if name != POSTERIOR
        }
        data.add_groups(groups, warn_on_custom_groups=False)
        data.attrs.update(self._texts())
        return data

    def save(self, path: str | Path) -> None:
        """Write the reward as a netCDF file for its owner to read; an existing one is replaced once this is whole."""
        with replaced_file(Path(path), mode=0o600) as partial:
            partial.write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Serialize the reward as the netCDF file that `save` writes."""
        return serialize(self.posterior.attributes | self._texts(), self._groups())

    def _groups(self) -> dict[str, dict[str, Floats]]:
        """Return all arrays of the file, by group and name."""
        posterior, diagnostics = self.posterior, self.posterior.diagnostics
        groups = {POSTERIOR: posterior.by_chain}
        if posterior.coordinates is not None:
            by_chain = posterior.coordinates.reshape(posterior.chains, -1, posterior.coordinates.shape[1])
            groups[UNCONSTRAINED] = {COORDINATES: by_chain}
        if self.others is not None:
            groups[OTHERS] = {COORDINATES: self.others}
        if self.sums is not None:
            groups[SUMS] = self._arrays_of_sums()
        return groups | {DIAGNOSTICS: {name: np.asarray(getattr(diagnostics, name)) for name in _ARRAYS}}

    def _arrays_of_sums(self) -> dict[str, Floats]:
        assert self.sums is not None
        return {
            "rows": np.array([self.sums.rows]),
            "statistic": np.asarray(self.sums.statistic),
            "variance": np.asarray(self.sums.variance),
        }

    def _texts(self) -> dict[str, str | int]:
        return {name: _plain(value) for name, value in self._attributes().items()}

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a reward.

        Parameters
        ----------
        path : path
            A file that `save` wrote. It may come from an untrusted source: all of it is checked.

        Returns
        -------
        Reward

        Raises
        ------
        MediationError
            It cannot be read as a reward.
        """
        with readable(path):
            return cls.of_file(RewardFile.read(Path(path)))

    @classmethod
    def of_file(cls, file: RewardFile) -> Self:
        """Build the reward from a file that has been read, or raise what shows that it is none."""
        if file.texts["format"] == HOME_FORMAT != cls.file_format:
            raise MediationError(
                "this is a model at home, which holds rows without noise: it is no reward, and must not be handed on. "
                "Open it with HomeModel.load"
            )
        if (file.texts["format"], file.version) != (cls.file_format, VERSION):
            raise ValueError(f"format {file.texts['format']!r}, version {file.version!r}")
        agreement = Agreement.model_validate_json(file.texts["agreement"])
        numbers = file.document("diagnostics")
        file.check(agreement, numbers["draws"])
        dropped = tuple(numbers.pop("dropped_chains"))
        by_chain = file.groups[POSTERIOR]
        coordinates = file.groups[UNCONSTRAINED][COORDINATES] if UNCONSTRAINED in file.groups else None
        arrays: dict[str, Any] = {name: file.groups[DIAGNOSTICS][name] for name in _ARRAYS}
        scenario = file.document("scenario")
        posterior = Posterior(
            {name: _flat(values) for name, values in by_chain.items()},
            Diagnostics(**arrays, **numbers, dropped_chains=dropped),
            Scenario(tuple(scenario["coalition"]), scenario["kappa"], scenario["tau"]),
            **file.document("sampling"),
            chains=len(next(iter(by_chain.values()))),
            coordinates=None if coordinates is None else _flat(coordinates),
        )
        value = Estimate(**file.document("value"))
        others = file.groups[OTHERS][COORDINATES] if OTHERS in file.groups else None
        return cls(
            file.texts["party"],
            agreement,
            posterior,
            value,
            tuple(file.deviations),
            others,
            _release_in(file, agreement),
            _sums_in(file),
            **cls._more_of(file),
        )

    @classmethod
    def _more_of(cls, file: RewardFile) -> dict[str, Any]:  # noqa: ARG003  (subclasses need it)
        """Return the fields that a subclass adds."""
        return {}

    def _attributes(self) -> dict[str, Any]:
        posterior = self.posterior
        diagnostics = posterior.diagnostics
        return {
            "format": self.file_format,
            "version": VERSION,
            "party": self.party,
            "agreement": self.agreement.model_dump(mode="json"),
            "value": {"value": self.value.value, "error": self.value.error},
            "scenario": {
                "coalition": list(posterior.scenario.coalition or ()),
                "kappa": float(posterior.scenario.kappa),
                "tau": {party: float(tau) for party, tau in posterior.scenario.tau.items()},
            },
            "sampling": {
                "method": posterior.method,
                "rule": posterior.rule,
                "seed": posterior.seed,
                "noise_seed": posterior.noise_seed,
            },
            "diagnostics": {
                "draws": diagnostics.draws,
                "dropped_chains": list(diagnostics.dropped_chains),
                "divergences": diagnostics.divergences,
                "acceptance": diagnostics.acceptance,
                "thin": diagnostics.thin,
                "gradients": diagnostics.gradients,
            },
            **({DEVIATIONS: list(self.deviations)} if self.deviations else {}),
            **({} if self.release is None else {RELEASE: self.release.model_dump()}),
        }


def _release_in(file: RewardFile, agreement: Agreement) -> Submission | None:
    """Read the party's own submission in a reward file; refuse another party's, or one for another agreement."""
    if RELEASE not in file.texts:
        return None
    release = Submission.parse(file.texts[RELEASE].encode(), name="the release in it")
    if (release.party, release.agreement) != (file.texts["party"], agreement.identity_digest):
        raise ValueError(f"it holds a release of {release.party!r}, or for another agreement")
    return release


def _sums_in(file: RewardFile) -> OthersSums | None:
    """Read the sum of the others' releases, if a file has it."""
    if SUMS not in file.groups:
        return None
    arrays = file.groups[SUMS]
    return OthersSums(float(arrays["rows"][0]), arrays["statistic"], arrays["variance"])


@contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Turn any exception from reading a damaged or foreign file into one clear error."""
    try:
        yield
    except _DAMAGES as error:
        raise MediationError(
            f"{str(path)!r} cannot be read as a reward ({error}); use the file as the mediator sent it"
        ) from error


def _with_index(rows: Any, values: NDArray[Any], name: Any) -> Any:
    """Return values as a pandas series, or a frame with these column names, if the rows are a pandas frame."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(rows, pandas.DataFrame):
        return values
    if values.ndim == 1:
        return pandas.Series(values, rows.index, name=name)
    return pandas.DataFrame(values, rows.index, list(name))


def _plain(value: Any) -> str | int:
    return value if isinstance(value, str | int) else json.dumps(value, allow_nan=False)


def _flat(by_chain: np.ndarray) -> np.ndarray:
    return by_chain.reshape(-1, *by_chain.shape[2:])


def _write_csv(path: Path, own: dict[str, NDArray[np.float64]], chains: int) -> None:
    """Write the draws of all chains, one line each, replacing an existing file."""
    length = len(next(iter(own.values()))) // chains
    with replaced_file(path, mode=0o600) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["chain", "draw", *own])
        for index, values in enumerate(zip(*(column.tolist() for column in own.values()), strict=True)):
            writer.writerow([*divmod(index, length), *values])
