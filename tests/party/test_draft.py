"""Drafts: names and types of columns, questions, and no value of the table."""

import re
from pathlib import Path

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
        assert '{ name = "admitted", since = "?", bounds = ["?", "?"] }' in text


def test_gaps_do_not_show() -> None:
    assert drafted(TABLE, "readmitted", ()) == drafted(TABLE.dropna(), "readmitted", ())


def test_a_draft_with_every_question_answered_is_an_agreement() -> None:
    text = drafted(TABLE, "readmitted", ("north", "south"))
    with pytest.raises(AgreementError, match="cannot be agreed to"):
        eq.Agreement.parse(text)
    text = (
        text.replace('since = "?"', 'since = "2030-01-01"')
        .replace('bounds = ["?", "?"]', "bounds = [0, 120]")
        .replace('max_epsilon = "?"', "max_epsilon = 1.0")
    )
    text = text.replace('["?", "?"]', '["a", "b"]').replace("# individual", "individual")
    agreed = eq.Agreement.parse(text)
    assert [column.name for column in agreed.columns] == ["age", "region", "admitted", "ill", "code", "readmitted"]
    assert agreed.privacy.individual == "patient_id"


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
