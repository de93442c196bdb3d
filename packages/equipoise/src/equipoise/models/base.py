"""The half of a kind of model that needs no sampler: a class for each kind, a section of the agreement.

A kind says which sums a party releases, with the proof of how far one row can change them (`layout`); the names and
ranges of its parameters; how draws of them become predictions, probabilities of new rows and simulated rows; and the
wording of all of that. Its other half, the moments of a row and posteriors of exact statistics, lies in
`inference/models`. `docs/howto/new-model.md` goes through both.

Draws are mappings of the engine's parameters to arrays [draws, …], in *scaled* units, where every bounded column spans
[−1, 1]; rates and probabilities are in their own.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import scipy  # its `special` is loaded when it is first used
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.text import counted, first_few
from equipoise.errors import MediationError
from equipoise.models.columns import CategoryColumn, Column, LabelColumn
from equipoise.models.layout import Layout, ScaledColumn
from equipoise.models.section import Section

Draws = Mapping[str, Floats]
Likelihood = Callable[[Draws], Floats]  # log probability of some rows together, at every draw

MAX_SHOWN = 8  # columns or parameters, in a sentence
PRIOR_DRAWS = 20_000  # enough for two digits of a quantile
LARGEST = 1e100  # largest parameter, so that sums and squares stay finite

BOUNDS_COMMENT = """\
# Public bounds. Choose them from common knowledge, NEVER from the data: values outside are moved to them, and
# wider bounds mean more noise in the data's own units.
"""


class Support(NamedTuple):
    """The range of a parameter: the shape of a draw, and the least and largest number in it."""

    shape: tuple[int, ...]
    lower: float
    upper: float


POSITIVE = Support((), 0.0, LARGEST)
PROBABILITY = Support((), 0.0, 1.0)


class Readable(NamedTuple):
    """A parameter as people read it: its label, its name in `Model.own_units`, and the factor to multiply it by."""

    label: str
    name: str
    factor: float = 1.0


class Axis(NamedTuple):
    """Parameters that share a unit. `zero` says that 0 means "no effect"."""

    unit: str
    parameters: tuple[Readable, ...]
    zero: bool = False


class Template(NamedTuple):
    """An example to start an agreement from: its title, and its `[model]` section with comments."""

    title: str
    text: str


@dataclass(frozen=True)
class Rows:
    """Validated rows of a test set.

    Features are in scaled units, with a last column of ones; a family without features has none. Targets are as the
    model's `log_probability` takes them: in scaled or own units, as ±1, or as indices of the agreed labels.
    """

    features: Floats | None
    target: Floats
    unit: float  # own units of the target in one unit of `target`
    model: "Model"


class Model(Section, ABC):
    """The `[model]` section of an agreement, and everything that follows from it without a sampler."""

    estimator_type: ClassVar[Literal["regressor", "classifier", "density_estimator"]] = "density_estimator"
    score_name: ClassVar[str] = ""  # name of the score that `Reward.score` returns, if there are features
    odds_ratios: ClassVar[bool] = False  # True if weights are log odds, which people read as ratios
    errors_are_shares: ClassVar[bool] = False  # True if `expected_error` is a share of rows
    template: ClassVar[Template]

    # Subclasses declare these fields, because the order in a file is theirs.
    if TYPE_CHECKING:

        @property
        def kind(self) -> str:
            """The name of the kind, as in an agreement."""

        @property
        def target(self) -> Column:
            """The column that the model learns about."""

        @property
        def prior(self) -> Section:
            """The beliefs about the parameters before any data."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns that the model reads: the features in order, then the target."""
        return (self.target,)

    @property
    def number_names(self) -> tuple[str, ...]:
        """The features that are numbers, in the order of draws of their means and covariance."""
        return ()

    @property
    def noun(self) -> str:
        """The model's name in messages, as in "a linear regression"."""
        return f"{self.kind} model"

    # What parties release.

    @cached_property
    def layout(self) -> Layout:
        """The sums to release, and their proved sensitivity."""
        return self._layout()

    @abstractmethod
    def _layout(self) -> Layout:
        """Build the layout; the docstring proves the sensitivity."""

    def joint_domains(self) -> dict[str, list[Any]]:
        """Return public limits on several columns at once, by name, as a ledger remembers them."""
        return {}

    # Parameters.

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Support]:
        """The model's own parameters as a posterior has them, without those of the features' distribution."""

    @property
    def readable_names(self) -> tuple[str, ...]:
        """The names of all parameters in `own_units`."""
        return tuple(parameter.name for axis in self.axes() for parameter in axis.parameters)

    def said_of(self, name: str) -> str:
        """Return in words what a parameter, named as in `own_units`, describes."""
        return name

    def row_name(self, name: str) -> str:
        """Return the first cell of a parameter's row, named as in `own_units`; for an effect, the change behind it."""
        return name

    @abstractmethod
    def own_units(self, draws: Draws) -> dict[str, Floats]:
        """Return the parameters by name, each an array [draws], in the columns' own units."""

    @abstractmethod
    def coordinate_names(self) -> list[str]:
        """Name the parameters in words, in the order of the coordinates in which the prior is N(0, I)."""

    @abstractmethod
    def at_coordinates(self, coordinates: Floats) -> dict[str, Floats]:
        """Return draws of the model's own parameters at coordinates [draws, d] in which the prior is N(0, I)."""

    @abstractmethod
    def likelihood_of(self, rows: "Rows") -> Likelihood:
        """Return the likelihood of exact rows: for regressions, of their targets given their features."""

    @abstractmethod
    def widened_prior(self, width: float) -> dict[str, Any]:
        """Return the changes in the prior's section that make beliefs `width` times as wide."""

    # Predictions.

    def class_labels(self) -> NDArray[Any]:
        """Return a classifier's agreed labels in NumPy's order, which scikit-learn's metrics use."""
        raise AttributeError(f"only a logistic model has classes; this one is {self.kind}")

    def expected_target(self, draws: Draws, table: Floats) -> Floats:  # noqa: ARG002
        """Return the target's predictive mean for each row of features, both in their own units."""
        raise MediationError(f"a {self.noun} does not predict a number from features")

    def target_interval(self, draws: Draws, table: Floats, tails: list[float]) -> Floats:  # noqa: ARG002
        """Return quantiles at two levels of a new observation for each row of features [rows, 2], in own units."""
        raise MediationError(f"a {self.noun} does not predict a number from features")

    def positive_probabilities(self, draws: Draws, table: Floats) -> Iterator[Floats]:  # noqa: ARG002
        """Yield the probability of the second label at every draw [some rows, draws], a few rows at a time."""
        raise MediationError(f"a {self.noun} does not predict labels from features")

    def scaled_features(self, table: Floats) -> Floats:  # noqa: ARG002
        """Return features [rows, columns] scaled so that agreed bounds are ±1, and a last column of ones."""
        raise MediationError(f"a {self.noun} has no features")

    @abstractmethod
    def simulate(self, draws: Draws, features: Floats | None, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Simulate observations [draws, rows]: one for each row of features, or `size` if there are no features."""

    def check_targets(self, answers: NDArray[Any]) -> tuple[Floats, float]:
        """Return targets of test rows as `log_probability` takes them, and their unit; refuse invalid ones."""
        if isinstance(self.target, LabelColumn | CategoryColumn):
            return label_positions(self.target.values, answers), 1.0
        return self.check_numbers(numbers_of(answers))

    def check_numbers(self, numbers: Floats) -> tuple[Floats, float]:
        """Do the same as `check_targets` for numeric targets: in scaled units unless the kind overrides this."""
        return scaled_values(self.target_column, numbers), self.target_column.half_width

    @abstractmethod
    def log_probability(self, draws: Draws, features: Floats | None, target: Floats) -> Floats:
        """Return the log probability, or log density in the units of `Rows`, of each target, averaged over draws."""

    def predictive_variance(self, draws: Draws, features: Floats | None) -> Floats | None:  # noqa: ARG002
        """Return the variance of a new target over all draws, by row, in the units of `Rows`; None for labels."""
        return None

    @property
    @abstractmethod
    def error_name(self) -> str:
        """The name of `expected_error`, for the title of a table."""

    @abstractmethod
    def expected_error(self, draws: Draws, truth: Draws, features: Floats | None) -> float:
        """Return the expected error of predictions by `draws` if the truth is a draw of `truth`, in the target's unit.

        A model with features predicts the given rows of scaled features. Errors of several posteriors can be compared
        only if the truth is the same: a posterior that has learnt little may well expect the least of itself.
        """

    def measured_error(self, draws: Draws, rows: Rows) -> float | None:  # noqa: ARG002
        """Return the error at rows with known targets, or None if the model does not predict single rows."""
        return None

    # Words.

    @property
    @abstractmethod
    def purpose(self) -> str:
        """Name what the model learns, for a sentence."""

    def prior_draws(self, number: int, rng: np.random.Generator) -> Draws | None:  # noqa: ARG002
        """Draw `number` times from the prior, for sentences; return None if the kind cannot."""
        return None

    def beliefs(self) -> tuple[str, ...]:
        """Return sentences on the agreed treatment of rows and on beliefs before any data."""
        drawn = self.prior_draws(PRIOR_DRAWS, np.random.default_rng(0))
        if drawn is None:
            return (f"Prior beliefs: {stated(self.prior)}.",)
        own = self.own_units(drawn)
        told = []
        for axis in self.axes():
            for parameter in axis.parameters:
                low, high = sorted(parameter.factor * end for end in np.quantile(own[parameter.name], (0.05, 0.95)))
                told.append(f"{parameter.label} between {_two_figures(low)} and {_two_figures(high)} ({axis.unit})")
        more = len(told) - MAX_SHOWN
        shown = "; ".join(told[:MAX_SHOWN]) + (f"; and so on for {counted(more, 'other')}" if more > 0 else "")
        return (f"Believed before any data, each nine times out of ten: {shown}.",)

    def cautions(self) -> tuple[str, ...]:
        """Return sentences on terms that may be agreed but are unwise."""
        return ()

    @abstractmethod
    def axes(self) -> list[Axis]:
        """Return the axes of a chart of the parameters, in the agreement's order; only the first may be long."""

    def reading(self) -> tuple[str, ...]:
        """Return further sentences for readers of such a chart."""
        return ()

    @property
    def samplers(self) -> tuple[str, ...]:
        """The samplers that can draw from posteriors of this model, the usual one first."""
        return ("moments", "naive", "prior")

    @property
    def is_conjugate(self) -> bool:
        """True if the posterior of exact statistics is known in closed form."""
        return True

    @property
    def gibbs_refusal(self) -> str:
        """The reason why Gibbs sampling cannot be used, if it is not among `samplers`."""
        return f'method "gibbs" is for linear regression, and this agreement is {self.kind}; use "moments"'

    # Format 1 of agreements.

    @classmethod
    def read_first_format(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Return the section as format 2 would state it."""
        return document

    @classmethod
    def state_reaches(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Return the section with a reach wherever a typical range is the reach, as it is since format 3."""
        return document

    @classmethod
    def write_first_format(cls, document: dict[str, Any]) -> None:
        """Remove keys that format 1 does not know from a written section."""

    def check_first_format(self) -> None:
        """Refuse what format 1 cannot state."""

    @property
    def target_column(self) -> ScaledColumn:
        """The target's grid column, if it is a number."""
        column = self.layout.columns[-1]
        assert isinstance(column, ScaledColumn)
        return column


class Family(Model):
    """A model without features: all rows have the same distribution."""

    def own_units(self, draws: Draws) -> dict[str, Floats]:
        """Return the parameters unchanged: probabilities and rates are in own units already."""
        return {name: draws[name] for name in self.parameters}

    @abstractmethod
    def sample(self, draws: Draws, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Simulate observations for each draw [draws, size]."""

    @abstractmethod
    def log_density(self, draws: Draws, target: Floats) -> Floats:
        """Return log probabilities or densities [rows, draws] of targets [rows, 1] at every draw."""

    @property
    def error_name(self) -> str:
        first, *others = self.axes()[0].parameters
        return f"Typical error of the {'least known share' if others else first.label}"

    def expected_error(self, draws: Draws, truth: Draws, features: Floats | None) -> float:  # noqa: ARG002
        """Return the error of a parameter's mean, the largest among the parameters of the first axis."""
        own, true = self.own_units(draws), self.own_units(truth)
        names = [parameter.name for parameter in self.axes()[0].parameters]
        return max(root_mean_square(true[name] - own[name].mean()) for name in names)

    @abstractmethod
    def imagine(self, truth: Draws, number: int, rng: np.random.Generator) -> Rows:
        """Simulate rows from `truth`, which holds a single draw; nothing is clipped."""

    def simulate(self, draws: Draws, features: Floats | None, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Simulate observations [draws, size]."""
        assert features is None
        return self.sample(draws, size, rng)

    def likelihood_of(self, rows: Rows) -> Likelihood:
        values, times = np.unique(rows.target, return_counts=True)
        return lambda draws: times @ self.log_density(draws, values[:, None])

    def log_probability(self, draws: Draws, features: Floats | None, target: Floats) -> Floats:
        """Return the log probability or density of each target, averaged over draws."""
        assert features is None
        return averaged(self.log_density(draws, target[:, None]))


def root_mean_square(errors: Floats) -> float:
    """Return the root mean square of errors."""
    return float(np.sqrt(np.mean(np.square(errors))))


def stated(prior: Section) -> str:
    """Return a prior's section in a few words: its name and its settings."""
    settings = {name: value for name, value in prior.model_dump().items() if value is not None and name != "kind"}
    return f"{type(prior).__name__}({', '.join(f'{name} = {value}' for name, value in settings.items())})"


def _two_figures(value: float) -> str:
    """Format a number with two significant digits, or with all digits before the decimal point if it has more."""
    return f"{value:,.0f}" if 10 <= abs(value) < 1e15 else f"{value:.2g}"


def scaled_values(column: ScaledColumn, values: Floats) -> Floats:
    """Scale to units in which the agreed range is ±1; targets of test rows are not clipped."""
    if not np.all(np.isfinite(values)):
        raise MediationError(f"the test column {column.name!r} has values that are not finite numbers; leave them out")
    return np.asarray((values - column.middle) / column.half_width)


def numbers_of(answers: NDArray[Any]) -> Floats:
    """Return targets as numbers; refuse others."""
    try:
        return answers.astype(float)
    except (TypeError, ValueError) as error:
        raise MediationError(f"test targets must be numbers: {error}") from error


def label_positions(labels: tuple[int | str, ...], answers: NDArray[Any]) -> Floats:
    """Return the index of each answer among the agreed labels."""
    places = {label: float(position) for position, label in enumerate(labels)}
    positions = [places.get(answer) for answer in answers.tolist()]
    if None in positions:
        strange = answers.tolist()[positions.index(None)]
        agreed = f"neither {labels[0]!r} nor {labels[1]!r}" if len(labels) == 2 else f"none of {first_few(labels)}"
        raise MediationError(f"the test target {strange!r} is {agreed}; give targets as they are agreed")
    return np.array(positions, float)


def averaged(log_probability: Floats) -> Floats:
    """Return the logarithm of the mean probability over draws [rows, draws]."""
    return np.asarray(scipy.special.logsumexp(log_probability, axis=1) - math.log(log_probability.shape[1]))


def log_normal_density(target: Floats, mean: Floats, variance: Floats) -> Floats:
    """Return the log density of a normal variable."""
    return np.asarray(-0.5 * (np.log(2 * math.pi * variance) + (mean - target) ** 2 / variance))


def check_length(key: str, values: list[float] | None, length: int) -> None:
    """Refuse a list of the wrong length."""
    if values is not None and len(values) != length:
        raise ValueError(f"{key} has {len(values)} numbers; this model needs {length}")
