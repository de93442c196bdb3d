"""Bounds from the command line: bought by each party, shown together and alone, filled into a draft."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rounds
from equipoise.party import bounds
from equipoise.party.ledger import Ledger
from equipoise.party.units import Unit
from equipoise.protocol.keys import create_key, public_hex
from program import run

PARTIES = ("north", "south")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tables of two parties, noise that is the same in every run, and a draft with open bounds."""
    monkeypatch.setattr(bounds, "perturb", rounds.seeded(0))
    rng = np.random.default_rng(0)
    for party, mean in zip(PARTIES, (40, 60), strict=True):
        ages = rng.normal(mean, 8, 1_500).clip(18, 99)
        pd.DataFrame(
            {"age": ages, "😀": rng.lognormal(0, 0.5, 1_500), "outcome": 3 * ages, "patient": np.arange(1_500) // 3}
        ).to_csv(tmp_path / f"{party}.csv", index=False)
    run("agreement", "draft", "north.csv", "--target", "outcome", "--party", "north", cwd=tmp_path)
    return tmp_path


def buy(home: Path, party: str, *more: object, columns: tuple[str, ...] = ("age", "😀"), code: int = 0) -> Any:
    chosen = [word for column in columns for word in ("--column", column)]
    return run(
        "party", "bounds", f"{party}.csv", *chosen, "--party", party, "--ledger", f"{party}.ledger",
        "--cap-zcdp", 1, "--zcdp", 0.1, *more, cwd=home, code=code, COLUMNS="200",
    )  # fmt: skip


def test_bounds_are_bought_shown_and_filled_in(home: Path) -> None:
    said = buy(home, "north").stdout
    assert "noise of standard deviation 4.47 rows" in said
    assert "outside or missing" in said
    buy(home, "south")
    files = [f"{party}.bounds.json" for party in PARTIES]
    shown = run("agreement", "bounds", *files, "--draft", "agreement.toml", cwd=home, COLUMNS="200").stdout
    for words in ("north alone", "south alone", "signed with the key", "Filled in agreement.toml: age, 😀"):
        assert words in shown
    text = (home / "agreement.toml").read_text()
    features = {one["name"]: one for one in tomllib.loads(text)["model"]["features"]}
    assert features["age"]["bounds"][0] < 20
    assert features["age"]["bounds"][1] > 80
    assert features["age"]["bounds"][0] <= features["age"]["typical"][0] < features["age"]["typical"][1]
    assert "# bought: north alone: " in text
    found = json.loads(run("agreement", "bounds", *files, "--json", cwd=home).stdout)
    assert set(found["alone"]) == set(PARTIES)
    assert found["alone"]["north"]["age"]["bounds"][1] < found["proposed"]["age"]["bounds"][1]
    assert found["proposed"]["age"]["is_told"]
    assert [one["rows"] for one in found["files"]] == [1_500, 1_500]


def test_what_cannot_be_told_is_said_and_not_filled_in(home: Path) -> None:
    said = buy(home, "north", "--zcdp", 1e-3, columns=("age",)).stdout
    assert "age: too little was spent to tell" in said
    assert "times the zCDP" in said
    before = (home / "agreement.toml").read_text()
    shown = run("agreement", "bounds", "north.bounds.json", "--draft", "agreement.toml", cwd=home).stdout
    assert "Filled in agreement.toml: nothing" in " ".join(shown.split())
    assert (home / "agreement.toml").read_text() == before


def test_bounds_are_bought_at_the_unit_of_an_individual(home: Path) -> None:
    said = buy(home, "north", "--individual", "patient", "--aggregate", "mean").stdout
    assert "500 rows" in said  # of which there is one for each patient
    assert Ledger(home / "north.ledger").read().others[0].unit == Unit("patient", None)
    more = ("-o", "more.json")
    for options, says in (
        (("--aggregate", "mean"), "need --individual"),
        (("--rows-per-individual", 2), "need --individual"),
        (("--individual", "patient", "--aggregate", "mean", "--rows-per-individual", 2), "leave out"),
    ):
        assert says in buy(home, "north", *options, *more, code=4).stderr
    assert "do not add up" in " ".join(buy(home, "north", *more, code=5).stderr.split())


def test_a_key_that_the_draft_does_not_name_is_refused(home: Path) -> None:
    buy(home, "north", columns=("age",))
    named = public_hex(create_key(home / "named.key"))
    text = (home / "agreement.toml").read_text().replace('name = "north"', f'name = "north"\npublic_key = "{named}"')
    (home / "agreement.toml").write_text(text)
    fill = ("agreement", "bounds", "north.bounds.json", "--draft", "agreement.toml")
    assert "which is not the one that 'agreement.toml' names" in " ".join(run(*fill, cwd=home, code=12).stderr.split())
    assert (home / "agreement.toml").read_text() == text
    (home / "north.bounds.json").unlink()
    buy(home, "north", "--key", "named.key", columns=("age",))
    assert "Filled in agreement.toml: age" in run(*fill, cwd=home, COLUMNS="200").stdout
    altered = (home / "north.bounds.json").read_text().replace('"count":1500', '"count":1501')
    (home / "north.bounds.json").write_text(altered)
    assert "altered afterwards" in run("agreement", "bounds", "north.bounds.json", cwd=home, code=12).stderr
