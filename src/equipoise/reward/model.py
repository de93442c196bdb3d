"""The model a party gets: its posterior, with everything needed to use it and to check it, in one netCDF file.

The file is ArviZ's: group `posterior` has the draws by chain, `unconstrained_posterior` the coordinates in which the
prior is N(0, I), `diagnostics` R̂ and effective sizes; the agreement and the scenario are attributes. It holds no other
party's reward, and nothing that the parties did not release.
"""

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from equipoise.agreement import Agreement
from equipoise.canonical import canonical_json, sha256_hex
from equipoise.durable import fsync_folder
from equipoise.errors import MediationError
from equipoise.estimate import Estimate
from equipoise.inference.diagnostics import Diagnostics
from equipoise.inference.posterior import Posterior
from equipoise.inference.problem import Scenario

if TYPE_CHECKING:
    import arviz

FORMAT = "equipoise-reward"
VERSION = 1
COORDINATES = "coordinates"
_ARRAYS = ("rhat", "ess_bulk", "ess_tail")


@dataclass(frozen=True, eq=False)
class Reward:
    """One party's reward: whose it is, under which agreement, its posterior, and what that is worth in nats."""

    party: str
    agreement: Agreement
    posterior: Posterior
    value: Estimate

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reward) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def digest(self) -> str:
        """SHA-256 of party, agreement, scenario and every draw."""
        parts = [canonical_json(self._attributes())]
        for name in sorted(self.posterior.draws):
            parts += [name.encode(), np.ascontiguousarray(self.posterior.draws[name]).tobytes()]
        if self.posterior.coordinates is not None:
            parts.append(np.ascontiguousarray(self.posterior.coordinates).tobytes())
        return sha256_hex(b"".join(bytes.fromhex(sha256_hex(part)) for part in parts))

    def to_inferencedata(self) -> "arviz.InferenceData":
        """All of it, for ArviZ."""
        import arviz

        data = self.posterior.to_inferencedata()
        groups: dict[str, Any] = {}
        if self.posterior.coordinates is not None:
            by_chain = self.posterior.coordinates.reshape(
                self.posterior.chains, -1, self.posterior.coordinates.shape[1]
            )
            groups["unconstrained_posterior"] = arviz.dict_to_dataset({COORDINATES: by_chain})
        found = self.posterior.diagnostics
        groups["diagnostics"] = arviz.dict_to_dataset(
            {name: np.asarray(getattr(found, name)) for name in _ARRAYS}, default_dims=[]
        )
        data.add_groups(groups, warn_on_custom_groups=False)
        data.attrs.update({name: _plain(value) for name, value in self._attributes().items()})
        return data

    def save(self, path: str | Path) -> None:
        """Write a netCDF file; one that is there is replaced, once the new one is whole."""
        target = Path(path)
        partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
        try:
            self.to_inferencedata().to_netcdf(str(partial), engine="h5netcdf")
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        fsync_folder(target.resolve().parent)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a reward."""
        import arviz

        try:
            data = arviz.from_netcdf(str(path), engine="h5netcdf")
            return cls._read(data)
        except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise MediationError(
                f"{str(path)!r} cannot be read as a reward ({error}); use the file as the mediator sent it"
            ) from error

    @classmethod
    def _read(cls, data: Any) -> Self:
        attributes = data.attrs
        if (attributes["format"], int(attributes["version"])) != (FORMAT, VERSION):
            raise ValueError(f"format {attributes['format']!r}, version {attributes['version']!r}")
        chains = int(data.posterior.sizes["chain"])
        draws = {str(name): _flat(values.to_numpy()) for name, values in data.posterior.data_vars.items()}
        coordinates = None
        if "unconstrained_posterior" in data.groups():
            coordinates = _flat(data.unconstrained_posterior[COORDINATES].to_numpy())
        numbers = json.loads(attributes["diagnostics"])
        dropped = tuple(numbers.pop("dropped_chains"))
        arrays = {name: data.diagnostics[name].to_numpy() for name in _ARRAYS}
        scenario = json.loads(attributes["scenario"])
        sampling = json.loads(attributes["sampling"])
        posterior = Posterior(
            draws,
            Diagnostics(**arrays, **numbers, dropped_chains=dropped),
            Scenario(tuple(scenario["coalition"]), scenario["kappa"], scenario["tau"]),
            **sampling,
            chains=chains,
            coordinates=coordinates,
        )
        agreement = Agreement.model_validate_json(attributes["agreement"])
        return cls(attributes["party"], agreement, posterior, Estimate(**json.loads(attributes["value"])))

    def _attributes(self) -> dict[str, Any]:
        posterior = self.posterior
        found = posterior.diagnostics
        return {
            "format": FORMAT,
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
                "draws": found.draws,
                "dropped_chains": list(found.dropped_chains),
                "divergences": found.divergences,
                "acceptance": found.acceptance,
                "thin": found.thin,
                "gradients": found.gradients,
            },
        }


def _plain(value: Any) -> str | int:
    return value if isinstance(value, str | int) else json.dumps(value, allow_nan=False)


def _flat(by_chain: np.ndarray) -> np.ndarray:
    return by_chain.reshape(-1, *by_chain.shape[2:])
