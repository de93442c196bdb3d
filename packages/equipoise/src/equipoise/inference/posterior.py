"""The result of inference: draws, and diagnostics of their reliability."""

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from equipoise._util.arrays import Floats
from equipoise._util.display import Chart, Interval, Table
from equipoise._util.optional import import_optional
from equipoise.errors import ConvergenceError, InferenceError
from equipoise.estimate import Estimate
from equipoise.inference.diagnostics import Diagnostics

if TYPE_CHECKING:
    import arviz

    from equipoise.inference.scenario import Scenario, UnitNoise

MAX_SHOWN = 24  # most numbers in a summary


@dataclass(frozen=True, repr=False)
class Posterior:
    """Draws from the posterior of one scenario.

    `infer` makes one. Regression parameters are in scaled units, where every column spans [−1, 1]; the bias is the last
    weight. `len(posterior)` is the number of draws.

    Attributes
    ----------
    draws : dict of str to array
        Each parameter [draws, …], of all kept chains together, one after the other.
    diagnostics : Diagnostics
        Split-R̂, effective sample sizes, divergences, and `problems` in words.
    scenario : Scenario
        What was inferred from.
    method, rule : str
        By which sampler and tempering rule.
    seed, noise_seed : int, int or str
        Of the draws, and of the noise that τ scales.
    chains : int
        Chains that were kept.
    coordinates : array, optional
        The model's own parameters [draws, d] mapped so that the prior is N(0, I); samplers that do not work in them
        leave it None.
    divergence : Estimate, optional
        Divergence from the prior in nats, where importance weights tell it; files do not have it.

    Examples
    --------
    >>> posterior = eq.Reward.load("reward.nc").posterior
    >>> posterior.converged, posterior.mean("weights").round(1)
    (True, array([ 0.8, -0.3,  0.1]))
    """

    draws: dict[str, Floats]
    diagnostics: Diagnostics
    scenario: "Scenario"
    method: str
    rule: str
    seed: int
    noise_seed: "UnitNoise"
    chains: int
    coordinates: Floats | None = field(default=None, repr=False)
    divergence: Estimate | None = None

    def __len__(self) -> int:
        return self.diagnostics.draws

    @property
    def converged(self) -> bool:
        """True if the draws can be relied on: the chains agree, are long enough, and hardly ever diverged."""
        return self.diagnostics.converged

    def require_converged(self, *, force: bool = False) -> Self:
        """Return this posterior if it has converged or is forced; else raise `ConvergenceError` with reasons."""
        if not self.converged and not force:
            raise ConvergenceError(
                f"this posterior has not converged: {'; '.join(self.diagnostics.problems)}. Ask for more draws, or "
                "pass force=True to use it all the same"
            )
        return self

    def __repr__(self) -> str:
        return repr(self.summary())

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def summary(self) -> Table:
        """Tabulate mean, standard deviation and 90 % interval of every number.

        Returns
        -------
        Table
            In scaled units, where every column spans [−1, 1]; `Reward.summary` has the columns' own.
        """
        rows, lines = [], []
        named = [
            (f"{name}{list(index) if index else ''}", values[(slice(None), *index)])
            for name, values in self.draws.items()
            for index in np.ndindex(values.shape[1:])
        ]
        for name, values in named[:MAX_SHOWN]:
            low, high = np.quantile(values, (0.05, 0.95))
            rows.append((name, *(f"{number:.4g}" for number in (values.mean(), values.std(), low, high))))
            lines.append((name, [Interval("5 % to 95 %", float(low), float(values.mean()), float(high))]))
        who = ", ".join(self.scenario.coalition or ())
        state = "converged" if self.converged else f"not converged: {'; '.join(self.diagnostics.problems)}"
        more = [f"… and {len(named) - MAX_SHOWN} more"] if len(named) > MAX_SHOWN else []
        return Table(
            f"Posterior of {{{who}}} at κ = {self.scenario.kappa:.3g}: {len(self):,} draws by {self.method!r}, {state}",
            ("parameter (scaled units)", "mean", "sd", "5 %", "95 %"),
            rows,
            Chart("scaled units", lines),
            more,
        )

    def mean(self, parameter: str) -> Floats:
        """Return the posterior mean of a parameter, by its name in `draws`."""
        return np.asarray(self._of(parameter).mean(axis=0))

    def sd(self, parameter: str) -> Floats:
        """Return the posterior standard deviation of a parameter, by its name in `draws`."""
        return np.asarray(self._of(parameter).std(axis=0))

    def _of(self, parameter: str) -> Floats:
        if parameter not in self.draws:
            raise InferenceError(f"there is no parameter {parameter!r}; there are {', '.join(self.draws)}")
        return self.draws[parameter]

    @property
    def by_chain(self) -> dict[str, Floats]:
        """The parameters by name, each [chains, draws, …]."""
        return {name: values.reshape(self.chains, -1, *values.shape[1:]) for name, values in self.draws.items()}

    @property
    def attributes(self) -> dict[str, str | int | float]:
        """The scenario and the options of sampling, as files state them."""
        return {
            "inference_library": "equipoise",
            "method": self.method,
            "tempering_rule": self.rule,
            "kappa": float(self.scenario.kappa),
            "coalition": ",".join(self.scenario.coalition or ()),
            "tau": ",".join(f"{party}={tau!r}" for party, tau in sorted(self.scenario.tau.items())),
            "seed": self.seed,
            "noise_seed": self.noise_seed,
            "converged": int(self.converged),
        }

    def to_inferencedata(self) -> "arviz.InferenceData":
        """Return the posterior for ArviZ: draws by chain, with the scenario as attributes."""
        data: arviz.InferenceData = load_arviz().from_dict(posterior=self.by_chain, attrs=self.attributes)
        return data


def load_arviz() -> Any:
    """Import ArviZ without its daily warning of coming changes, which no user of our commands can act on.

    The import takes a second, and parties who only predict never need it.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing", FutureWarning)
        return import_optional("arviz", extra="arviz")
