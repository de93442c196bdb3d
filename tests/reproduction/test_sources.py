"""The two public tables: where they are looked for, and what is said when they are not there."""

from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets

from equipoise.errors import ExperimentError
from equipoise_paper import sources


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sources.VARIABLE, raising=False)


def some_table(folder: Path, name: str, rows: int) -> None:
    lines = ["a,b,c,d,e,f,g,h,target", *(",".join(str(row + k) for k in range(9)) for row in range(rows))]
    (folder / name).write_text("\n".join(lines) + "\n")


def test_the_tables_have_their_rows(data: Path) -> None:
    assert sources.load(sources.HOUSING, data).shape == (20_640, 9)
    diabetes = sources.load(sources.DIABETES, data)
    assert set(diabetes[:, -1]) == {0.0, 1.0}


def test_a_folder_is_named_by_option_or_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some_table(tmp_path, sources.DIABETES, 768)
    given = sources.load(sources.DIABETES, tmp_path)
    assert given[3].tolist() == [float(value) for value in range(3, 12)]
    monkeypatch.setenv(sources.VARIABLE, str(tmp_path))
    np.testing.assert_array_equal(sources.load(sources.DIABETES), given)
    with pytest.raises(ExperimentError, match="elsewhere"):  # what is given comes first
        sources.load(sources.DIABETES, tmp_path / "elsewhere")


def test_a_missing_folder_says_what_belongs_there(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError) as caught:
        sources.load(sources.HOUSING, tmp_path / "nowhere")
    for part in ("nowhere", sources.HOUSING, sources.DIABETES, "--data", sources.VARIABLE):
        assert part in str(caught.value)


def test_a_table_of_the_wrong_shape_is_refused(tmp_path: Path) -> None:
    some_table(tmp_path, sources.DIABETES, 700)
    with pytest.raises(ExperimentError, match=r"should have 768 rows of 9 numbers.* \(700, 9\); get the original"):
        sources.load(sources.DIABETES, tmp_path)
    (tmp_path / sources.DIABETES).write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(ExperimentError, match="cannot read"):
        sources.load(sources.DIABETES, tmp_path)


@pytest.mark.parametrize(
    ("name", "fetcher"), [(sources.HOUSING, "fetch_california_housing"), (sources.DIABETES, "fetch_openml")]
)
def test_without_a_network_the_remedy_is_a_folder(name: str, fetcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_arguments: Any, **_options: Any) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr(sklearn.datasets, fetcher, offline)
    with pytest.raises(ExperimentError, match="no route to host.*offline, put it into a folder.*--data") as caught:
        sources.load(name)
    assert name in str(caught.value)
