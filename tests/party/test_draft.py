"""Drafts: names and types of columns, questions, and no value of the table."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import equipoise as eq
from equipoise.errors import AgreementError, TableError
from equipoise.party.csv_stream import CsvFile
from equipoise.party.draft import Seen, drafted, seen_columns

TABLE = pd.DataFrame(
    {
        "patient_id": ["P-991", "P-992", "P-993"],
        "age": [61.25, None, 73.5],
        "region": ["Vorarlberg", "Tyrol", None],
        "admitted": pd.to_datetime(["2031-05-07", "2031-05-08", "2031-05-09"]),
        "ill": [True, False, True],
        "readmitted": ["nay", "yea", "nay"],
        "code": [4711, 4712, 4711],
    }
)


def test_no_value_of_the_table_is_in_a_draft(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "rows.csv", index=False)
    for source in (TABLE, tmp_path / "rows.csv"):
        text = drafted(source, "readmitted", ("north", "south"))
        for cell in map(str, TABLE.to_numpy().ravel()):
            assert cell in ("nan", "None", "True", "False") or cell not in text
        assert '# individual = "patient_id"' in text
        assert 'kind = "logistic"' in text
        assert '{ name = "admitted", since = "?", typical = ["?", "?"] }' in text


def test_gaps_do_not_show() -> None:
    assert drafted(TABLE, "readmitted", ()) == drafted(TABLE.dropna(), "readmitted", ())


def test_a_draft_with_every_question_answered_is_an_agreement() -> None:
    text = drafted(TABLE, "readmitted", ("north", "south"))
    with pytest.raises(AgreementError, match="cannot be agreed to"):
        eq.Agreement.parse(text)
    text = (
        text.replace('since = "?"', 'since = "2030-01-01"')
        .replace('typical = ["?", "?"]', "typical = [0, 120]")
        .replace('max_epsilon = "?"', "max_epsilon = 1.0")
    )
    text = text.replace('["?", "?"]', '["a", "b"]').replace("# individual", "individual")
    agreed = eq.Agreement.parse(text)
    assert [column.name for column in agreed.columns] == ["age", "region", "admitted", "ill", "code", "readmitted"]
    assert (agreed.privacy.individual, agreed.privacy.max_rows) == ("patient_id", 100_000)


def test_a_draft_limits_the_norm_of_many_numbers() -> None:
    many = pd.DataFrame({f"x{place}": [0.5, 1.5] for place in range(8)} | {"y": [1.0, 2.0]})
    text = drafted(many, "y", ("north", "south"))
    answered = text.replace('typical = ["?", "?"]', "typical = [0, 120]").replace(
        'max_epsilon = "?"', "max_epsilon = 1"
    )
    bounded, free = (eq.Agreement.parse(one) for one in (answered, answered.replace("norm_bound", "# norm_bound")))
    radius = bounded.model.norm_bound  # type: ignore[attr-defined]
    assert f"norm_bound = {radius:g} would lower" in " ".join(free.model.cautions())  # what `agreement check` suggests
    assert bounded.layout.sensitivity < 0.8 * free.layout.sensitivity
    assert "norm_bound" not in drafted(many[["x0", "y"]], "y", ("north",))


def test_types_are_those_of_files_written_otherwise(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a;b;c;d\n1,5;x;2031-05-07;\n2,5;3;2031-05-08;\n")
    found = seen_columns(CsvFile(tmp_path / "rows.csv", ";", ","))
    assert found == [Seen("a", "number"), Seen("b", "text"), Seen("c", "date"), Seen("d", "nothing")]


def test_what_cannot_be_drafted_from_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        TableError, match=re.escape("there is no column 'target' to predict; the table has 'patient_id'")
    ):
        drafted(TABLE, "target", ())
    with pytest.raises(TableError, match="has no rows"):
        drafted(TABLE.head(0), None, ())
    assert 'kind = "?"' in drafted(TABLE, None, ())


INJECTED = "x\n[privacy]\nmax_epsilon = 100.0\n#"
NAMES = [
    "😀 mood",
    "Größe",
    'a "quoted" name',
    INJECTED,
    "tab\there",
    "back\\slash",
    "\u202eright to left",
    "\x7f\x1b[31m",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "values", [[1.0, 2.0], ["a", "b"], [True, False], [None, None], pd.to_datetime(["2031-05-07"] * 2)], ids=str
)
def test_names_of_columns_are_names_and_nothing_else(name: str, values: Any) -> None:
    """A table may come from anybody: no name of its columns adds a key, or ends a comment."""
    table = pd.DataFrame({name: values, "age": [1.0, 2.0], "patient_" + name: [1, 2]})
    text = drafted(table, "age", ("north",))
    document = tomllib.loads(text)
    assert document["privacy"] == {"max_epsilon": "?", "max_rows": 100_000}
    assert [feature["name"] for feature in document["model"]["features"]] == ([] if values[0] is None else [name])
    assert set(document) == {"format", "title", "model", "privacy", "reward", "parties"}
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", text)
    if values[0] is not None:
        target = drafted(table[[name, "age"]], name, ("north",))
        assert tomllib.loads(target)["model"]["target"]["name"] == name


def test_names_that_are_no_text_are_refused() -> None:
    with pytest.raises(TableError, match="surrogates not allowed"):
        drafted({"\ud83d": [1.0], "age": [1.0]}, "age", ())


def test_typical_values_and_transforms_are_offered() -> None:
    text = drafted(TABLE, None, ("north",))
    for words in ("bounds = [least, most]", 'transform = "log"', '"sqrt"', '"logit"'):
        assert words in text
    answered = (
        drafted(TABLE[["age", "code"]], "code", ("north",))
        .replace('"age", typical = ["?", "?"]', '"age", bounds = [1, 100], typical = [20, 90], transform = "log"')
        .replace('typical = ["?", "?"]', "typical = [10, 1e3]")
        .replace('max_epsilon = "?"', "max_epsilon = 1.0")
    )
    assert eq.Agreement.parse(answered).model.kind == "linear"


def test_files_that_are_written_otherwise_are_recognised(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n1,5;x\n2,5;y\n")
    for source in (path, CsvFile(path, ",", ".")):
        with pytest.raises(TableError, match="--delimiter ';'"):
            drafted(source, None, ())
    with pytest.raises(TableError, match=re.escape("column 'a' holds numbers that are written with ','")):
        drafted(CsvFile(path, ";"), None, ())
    assert '{ name = "a", typical = ["?", "?"] }' in drafted(CsvFile(path, ";", ","), None, ())
    path.write_text('a,b\n"1,5",x\n"so, so",y\n')  # text with commas is text
    assert seen_columns(path) == [Seen("a", "text"), Seen("b", "text")]


def test_a_question_that_is_open_is_named_with_its_column() -> None:
    text = drafted(TABLE, "readmitted", ("north",)).replace('max_epsilon = "?"', "max_epsilon = 1.0")
    with pytest.raises(AgreementError) as refused:
        eq.Agreement.parse(text)
    said = str(refused.value)
    for line in (
        "column 'age': model.features[0].typical is still \"?\"",
        "column 'region': model.features[1].levels is still \"?\"",
        "column 'admitted': model.features[2].since is still \"?\"",
        "column 'code': model.features[4].typical is still \"?\"",
        "column 'readmitted': model.target.labels is still \"?\"",
    ):
        assert line in said
    assert "has only 0 values" not in said
    assert "'ill'" not in said  # which asks nothing
    misspelt = text.replace('"age", typical', '"age", typcal')
    with pytest.raises(AgreementError, match="'typcal' is not a key of .*did you mean 'typical'"):
        eq.Agreement.parse(misspelt)
    half = text.replace('"age", typical = ["?", "?"]', '"age", typical = [0, "?"]')
    with pytest.raises(AgreementError, match=re.escape("column 'age': model.features[0].typical is still")):
        eq.Agreement.parse(half)
    for open_place, key in (('max_epsilon = "?"', "privacy.max_epsilon"), ('name = "?"', "parties[0].name")):
        with pytest.raises(AgreementError, match=re.escape(f'{key} is still "?"')):
            eq.Agreement.parse(text.replace("max_epsilon = 1.0", open_place).replace('name = "north"', open_place))
