"""Regressions with the standardised prior: what nothing is worth, what exact sums give, and other samplers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import equipoise as eq
import rounds
from equipoise.errors import InferenceError
from equipoise.inference.infer import infer, infer_exact
from equipoise.inference.scenario import check_method
from equipoise.party.release import release
from equipoise.valuation.proxy import normal_proxy
from equipoise.valuation.surprise import surprise

NAMES = ("north", "south")


def agreed(kind: str = "linear", *, prior: str = "standardised", scope: str = "shared") -> eq.Agreement:
    """Write a regression on x0 and x1 within ±1."""
    target = "bounds = [-1, 1]" if kind == "linear" else 'labels = ["no", "yes"]'
    parties = "".join(f'[[parties]]\nname = "{name}"\n' for name in NAMES)
    return eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "{kind}"\ntarget = {{ name = "y", {target} }}\n'
        'features = [{ name = "x0", bounds = [-1, 1] }, { name = "x1", bounds = [-1, 1] }]\n'
        f'[model.prior]\nkind = "{prior}"\n[model.data_prior]\nscope = "{scope}"\n'
        f"[privacy]\nmax_epsilon = 1000\n{parties}"
    )


def table(rows: int, *, deviation: float = 0.1, seed: int = 0) -> dict[str, Any]:
    """Draw rows whose features span little of their bounds, from no code of the model's."""
    rng = np.random.default_rng(seed)
    x = 0.2 + deviation * rng.normal(size=(rows, 2))
    y = 0.1 + 0.15 * ((x - 0.2) / deviation) @ [1.0, -0.5] + 0.1 * rng.normal(size=rows)
    return {"x0": x[:, 0], "x1": x[:, 1], "y": y}


@pytest.fixture(autouse=True)
def repeatable_noise() -> Iterator[None]:
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(0)):
        yield


def one_release(kind: str, folder: Path) -> tuple[eq.Agreement, list[eq.Submission]]:
    agreement = agreed(kind)
    columns = table(300)
    if kind == "logistic":
        columns["y"] = np.where(columns["y"] > 0, "yes", "no").tolist()
    return agreement, [release(agreement, columns, party="north", epsilon=4.0, ledger=folder / "north.ledger")]


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_the_prior_is_worth_nothing(kind: str, tmp_path: Path) -> None:
    agreement, sent = one_release(kind, tmp_path)
    found = surprise(agreement, infer(agreement, sent, method="prior", draws=4_000))
    assert abs(found.value) < 4 * found.error + 0.02
    assert surprise(agreement, infer(agreement, sent, kappa=0.0, draws=2_000)).value == 0.0


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_the_normal_stand_in_is_worth_about_as_much(kind: str, tmp_path: Path) -> None:
    agreement, sent = one_release(kind, tmp_path)
    values = normal_proxy(agreement, sent)(np.array([[False], [True]]))
    assert values[0] == pytest.approx(0, abs=1e-9)
    assert values[1] > 0.3
    assert surprise(agreement, infer(agreement, sent, draws=2_000)).value == pytest.approx(values[1], abs=1.5)


def test_other_samplers_are_for_other_agreements() -> None:
    with pytest.raises(InferenceError, match='needs the conjugate prior.*use "moments"'):
        check_method("gibbs", agreed("linear").model)
    assert check_method("gibbs", agreed("linear", prior="conjugate").model) == "gibbs"
    for kind in ("linear", "logistic"):
        model = agreed(kind, prior="conjugate").model
        assert check_method("auto", model) == "moments"


def test_without_noise_it_is_least_squares(tmp_path: Path) -> None:
    """Exact statistics by `infer_exact`, and nearly exact ones by the method that ignores noise."""
    agreement, columns = agreed(), table(5_000)
    together = np.column_stack([columns[name] for name in ("x0", "x1", "y")])
    products = (together.T @ together)[np.triu_indices(3)]
    exact = infer_exact(agreement, {"north": (5_000, [*together.sum(axis=0), *products])}, draws=2_000)
    sent = release(agreement, columns, party="north", epsilon=1000.0, ledger=tmp_path / "ledger")
    features = np.column_stack([columns["x0"], columns["x1"], np.ones(5_000)])
    expected = np.linalg.lstsq(features, columns["y"], rcond=None)[0]
    for posterior in (exact, infer(agreement, [sent], method="naive", draws=2_000)):
        assert posterior.converged
        np.testing.assert_allclose(posterior.mean("weights"), expected, atol=0.06)
