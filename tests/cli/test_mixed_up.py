"""Arguments that have changed places: a message names what a file seems to be and what is wanted; nothing happens."""

from pathlib import Path

import pandas as pd
import pytest

from equipoise._util.recognition import recognised
from program import run

FILES = {
    "agreement.toml": "an agreement",
    "north.csv": "a table",
    "north.parquet": "a table",
    "north.ledger": "a ledger",
    "north.ledger.key": "a signing key",
    "north.submission.json": "a submission",
    "north.bounds.json": "a file of bought bounds",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All files of a party, each made by its command."""
    folder = tmp_path_factory.mktemp("home")
    run("agreement", "new", "linear", "--party", "north", cwd=folder)
    rows = pd.DataFrame({"age": range(20, 90), "bmi": range(20, 90), "blood_pressure": 80, "progression": range(70)})
    rows.to_csv(folder / "north.csv", index=False)
    rows.to_parquet(folder / "north.parquet")
    given = ("--party", "north", "--ledger", "north.ledger")
    run("party", "bounds", "north.csv", "--column", "age", *given, "--cap-zcdp", 1, cwd=folder)
    run("party", "release", "agreement.toml", "north.csv", *given, "--epsilon", 0.2, "--allow-clipping", cwd=folder)
    return folder


@pytest.mark.parametrize("name", FILES)
def test_files_of_a_round_are_recognised(name: str, home: Path) -> None:
    assert recognised(home / name) == FILES[name]
    assert recognised(home / "nothing.csv") == ""


EXIT_CODES = {
    "an agreement": 3,
    "a table": 4,
    "a ledger": 5,
    "a submission": 6,
    "a file of bought bounds": 4,
}
RELEASE = ("--party", "north", "--epsilon", 0.1, "-o", "other.json")
SWAPPED: list[tuple[tuple[object, ...], str, str]] = [
    (("agreement", "check", "north.csv"), "a table", "an agreement"),
    (("agreement", "check", "north.submission.json"), "a submission", "an agreement"),
    (("agreement", "check", "north.parquet"), "a table", "an agreement"),
    (("party", "release", "north.csv", "agreement.toml", *RELEASE, "--ledger", "l"), "a table", "an agreement"),
    (("party", "release", "agreement.toml", "agreement.toml", *RELEASE, "--ledger", "l"), "an agreement", "a table"),
    (("party", "release", "agreement.toml", "north.ledger", *RELEASE, "--ledger", "l"), "a ledger", "a table"),
    (("party", "release", "agreement.toml", "north.csv", *RELEASE, "--ledger", "north.csv"), "a table", "a ledger"),
    (("party", "resend", "north.ledger", "--party", "north", "--ledger", "agreement.toml"), "a ledger", "an agreement"),
    (("party", "ledger", "agreement.toml"), "an agreement", "a ledger"),
    (("party", "ledger", "north.ledger.key"), "a signing key", "a ledger"),
    (("party", "ledger", "north.ledger", "--check", "agreement.toml"), "an agreement", "a submission"),
    (("party", "spend", "north.csv", "--why", "counts", "--zcdp", 0.1), "a table", "a ledger"),
    (("agreement", "draft", "agreement.toml", "-o", "d.toml"), "an agreement", "a table"),
    (("agreement", "bounds", "agreement.toml"), "an agreement", "a file of bought bounds"),
    (("agreement", "bounds", "north.submission.json"), "a submission", "a file of bought bounds"),
    (("mediate", "north.submission.json", "agreement.toml", "-o", "out"), "a submission", "an agreement"),
]


@pytest.mark.parametrize(("command", "seen", "wanted"), SWAPPED, ids=[" ".join(map(str, one[0])) for one in SWAPPED])
def test_swapped_arguments_are_recognised(command: tuple[object, ...], seen: str, wanted: str, home: Path) -> None:
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    done = run(*command, cwd=home, code=EXIT_CODES[wanted])
    assert f"looks like {seen}, where {wanted} is wanted; have two arguments changed places?" in done.stderr
    after = {path.name: path.read_bytes() for path in home.iterdir() if not path.name.endswith(".lock")}
    assert after == {name: data for name, data in before.items() if not name.endswith(".lock")}


@pytest.mark.parametrize("ending", ["xlsx", "xls", "ods"])
@pytest.mark.parametrize("how", [(), ("--delimiter", ";")], ids=str)
def test_spreadsheets_are_to_be_saved_as_csv(ending: str, how: tuple[str, ...], home: Path) -> None:
    (home / f"north.{ending}").write_bytes(b"PK\x03\x04")
    for command in (
        ("party", "release", "agreement.toml", f"north.{ending}", *RELEASE, "--ledger", "new.ledger", *how),
        ("agreement", "draft", f"north.{ending}", "-o", "d.toml", *how),
    ):
        said = run(*command, cwd=home, code=4).stderr
        assert "is a spreadsheet, which is not read; save the sheet as CSV (UTF-8)" in said
    assert not (home / "new.ledger").exists()
