"""The ten mistakes a newcomer makes: each is told what is wrong and what to do, and costs nothing."""

import json
from pathlib import Path

import pytest

from cli.test_cli import RELEASE
from program import equipoise, from_json, run
from reward_posteriors import some_reward

SENT = "north.submission.json"


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def refused(home: Path, *arguments: object, code: int) -> str:
    """What a release that must be refused says; nothing may have been spent or written."""
    said = equipoise(*(arguments or RELEASE), "--epsilon", 0.2, cwd=home, code=code)
    assert not (home / "north.ledger").exists()
    assert not (home / SENT).exists()
    return said


def test_a_wrong_column_name(home: Path) -> None:
    change(home / "north.csv", "blood_pressure", "BloodPressure")
    assert refused(home, code=4) == (
        "Error: the agreed column 'blood_pressure' is not in the table; did you mean 'BloodPressure'? The table's "
        "columns are 'age', 'bmi', 'BloodPressure', 'progression'; rename the column to match the agreement\n"
    )


def test_bounds_that_are_too_narrow(home: Path) -> None:
    """Found by a dry run, and refused before anything is spent unless it is meant."""
    change(home / "agreement.toml", "typical = [18, 40], bounds = [15, 60] }", "typical = [20, 25] }")
    dry = " ".join(equipoise(*RELEASE, "--epsilon", 0.2, "--dry-run", cwd=home).split())
    assert (
        "bmi: 73.5% of the first rows lie beyond the agreed range and are moved to its ends; that is much, and a "
        "release refuses it without --allow-clipping: is the column in the agreed unit, or is the range too narrow?"
    ) in dry
    assert refused(home, code=4) == (
        "Error: 74% of the first values of 'bmi' lie beyond the agreed range and would be moved to its ends; nothing "
        "was spent. Is the table in the agreed units? If it is, the range is too narrow: agree on a wider one from "
        "common knowledge, not from this table, or release all the same with --allow-clipping "
        "(allow_clipping=True). (These "
        "shares are not private: keep them to yourself.)\n"
    )
    said = run(*RELEASE, "--epsilon", 0.2, "--allow-clipping", cwd=home).stderr
    assert said.endswith(
        "Warning: 74% of the first values of 'bmi' lie beyond the agreed range and were moved to its ends; is the "
        "column in the agreed unit? If it is, the range is too narrow: agree on a wider one from common knowledge, "
        "not from "
        "this table. (This share is not private: keep it to yourself.)\n"
    )


def test_labels_other_than_the_agreed_ones(home: Path) -> None:
    equipoise("agreement", "new", "logistic", "--force", cwd=home)
    change(home / "agreement.toml", 'labels = ["no", "yes"]', "labels = [-1, 1]")
    rows = ["age,bmi,glucose,readmitted", *(f"{20 + k},{18 + k % 30},{60 + k},{1 - k % 2}" for k in range(60))]
    (home / "north.csv").write_text("\n".join(rows) + "\n")
    assert refused(home, code=4) == (
        "Error: column 'readmitted', row 2: 0 is not one of the agreed labels [-1, 1]; correct the cell, recode the "
        "column, or agree on the labels it has\n"
    )


def test_an_epsilon_of_nothing(home: Path) -> None:
    assert equipoise(*RELEASE, "--epsilon", 0, cwd=home, code=5) == (
        "Error: epsilon must be a positive number, not 0.0; smaller is more private, and 0 would release nothing\n"
    )
    assert not (home / "north.ledger").exists()


def test_the_same_submission_twice(home: Path) -> None:
    equipoise(*RELEASE, "--epsilon", 0.2, cwd=home)
    assert equipoise("mediate", "agreement.toml", SENT, SENT, "-o", "out", cwd=home, code=6) == (
        "Error: 'north' is there twice; keep one of its submissions, each party's counts once\n"
    )
    assert not (home / "out").exists()


def test_a_party_that_is_not_in_the_agreement(home: Path) -> None:
    stranger = tuple("nroth" if word == "north" else word for word in RELEASE)
    assert refused(home, *stranger, code=3) == (
        "Error: 'nroth' is not a party of this agreement; its parties are north, south, west\n"
    )


def test_an_edited_submission(home: Path) -> None:
    equipoise(*RELEASE, "--epsilon", 0.2, cwd=home)
    change(home / SENT, '"count":200', '"count":2000')
    assert equipoise("mediate", "agreement.toml", SENT, "-o", "out", cwd=home, code=6) == (
        "Error: the submission of 'north' was altered after it was signed; ask the party to send its file again, "
        "unchanged\n"
    )
    assert not (home / "out").exists()
    equipoise("party", "resend", *RELEASE[2:3], *RELEASE[4:], "-o", "again.json", cwd=home)  # which costs nothing
    assert json.loads((home / "again.json").read_text())["count"] == 200
    assert from_json("party", "ledger", "north.ledger", cwd=home)["total"]["epsilon"] == pytest.approx(0.2)


def test_submissions_under_two_agreements(home: Path) -> None:
    equipoise(*RELEASE, "--epsilon", 0.2, cwd=home)
    first = from_json("agreement", "check", "agreement.toml", cwd=home)["identity"]
    change(home / "agreement.toml", "bounds = [15, 60] }", "bounds = [15, 65] }")
    second = from_json("agreement", "check", "agreement.toml", cwd=home)["identity"]
    south = tuple(word.replace("north", "south") if word != "north.csv" else word for word in RELEASE)
    equipoise(*south, "--epsilon", 0.2, cwd=home)
    both = ("south.submission.json", SENT)
    assert equipoise("mediate", "agreement.toml", *both, "--partial", "-o", "out", cwd=home, code=6) == (
        f"Error: the submission of 'north' was made for agreement {first[:12]}…, not {second[:12]}…; all parties must "
        "release under the same agreement file\n"
    )
    assert not (home / "out").exists()


def test_missing_values(home: Path) -> None:
    change(home / "north.csv", "\n27,22,", "\n27,,")
    assert refused(home, code=4) == (
        "Error: column 'bmi', row 6: the value is missing; fill it in, or remove the row from your table before "
        'releasing (the row count is public), or for a feature, agree on missing = "indicator", or on '
        'missing = "value" with a fill\n'
    )


def test_the_reward_of_another_party(tmp_path: Path) -> None:
    some_reward("poisson").save(tmp_path / "north.nc")
    said = equipoise("predict", "north.nc", "--party", "south", "-o", "found.csv", cwd=tmp_path, code=9)
    assert said == (
        "Error: 'north.nc' is the reward of 'north', not of 'south'; ask the mediator for south.nc, and give this file "
        "to north\n"
    )
    assert not (tmp_path / "found.csv").exists()
