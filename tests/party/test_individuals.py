"""Rows of individuals: nobody has more than agreed, and all that somebody has is protected."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import equipoise as eq
from equipoise.agreement.explanation import explain
from equipoise.errors import AgreementError, TableError
from equipoise.models import Layout, layout_of
from equipoise.party.inspection import problems_of
from equipoise.party.ledger import domains_of
from equipoise.party.statistics import exact_statistic

SECRET = "patient-4711"


def agreement(privacy: str = 'individual = "patient"') -> eq.Agreement:
    return eq.Agreement.parse(
        'format = 2\n[model]\nkind = "linear"\nfeatures = [{ name = "x", bounds = [-1, 1] }]\n'
        'target = { name = "y", bounds = [-1, 1] }\n'
        f'[privacy]\nmax_epsilon = 4.0\n{privacy}\n[[parties]]\nname = "p"\n'
    )


def layout(privacy: str = 'individual = "patient"') -> Layout:
    return layout_of(agreement(privacy))


def table(patients: list[Any]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"x": rng.uniform(-1, 1, len(patients)), "y": rng.uniform(-1, 1, len(patients)), "patient": patients}


def test_repeats_are_refused_by_row_and_not_by_name() -> None:
    with pytest.raises(TableError, match="row 4: 'patient' is that of 1 earlier row") as refused:
        exact_statistic(layout(), table(["a", SECRET, "b", SECRET]))
    assert SECRET not in str(refused.value)
    assert exact_statistic(layout(), table(["a", "b", "c"])).count == 3


@pytest.mark.parametrize("owners", [[1, 2, 1], [1.0, 2.0, 1.0], ["1", "2", "1"], [b"1", b"2", b"1"]])
def test_repeats_are_found_whatever_names_are_made_of(owners: list[Any]) -> None:
    frame = pd.DataFrame(table(owners))
    for source in (frame, frame.astype({"patient": "category"})):
        with pytest.raises(TableError, match="row 3: 'patient' is that of 1 earlier row"):
            exact_statistic(layout(), source)


def test_repeats_are_found_from_one_batch_to_the_next(tmp_path: Path) -> None:
    owners = [f"{k}" for k in range(70_000)]
    owners[-1] = "17"
    pd.DataFrame(table(owners)).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(TableError, match="row 70000: 'patient' is that of 1 earlier row"):
        exact_statistic(layout(), tmp_path / "rows.csv")
    text = (tmp_path / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text(text.replace(",17\n", ",017\n", 1))  # as it is written, which is another
    assert exact_statistic(layout(), tmp_path / "rows.csv").count == 70_000


def test_rows_beyond_those_agreed_are_dropped_if_agreed() -> None:
    drop = layout('individual = "patient"\nrows_per_individual = 2\nexcess = "drop"')
    rows = table(["a", "b", "a", "a", "b", "a", "c"])
    kept = {name: [values[k] for k in (0, 1, 2, 4, 6)] for name, values in rows.items()}
    pieces = pa.concat_tables([pa.table(rows).slice(k, 1) for k in range(7)])
    for source in (rows, pieces):
        found = exact_statistic(drop, source)
        assert found.count == 5
        assert found.values == exact_statistic(layout(""), kept).values


def test_what_protects_an_individual_costs_as_many_times_the_noise() -> None:
    many = 'individual = "patient"\nrows_per_individual = 3'
    assert layout().sensitivity == layout("").sensitivity
    assert layout(many).sensitivity == 3 * layout("").sensitivity
    one, three = (agreement(privacy) for privacy in ("", many))
    guarantee = one.guarantee(epsilon=1.0)
    assert layout_of(three).noise_steps(guarantee) == 3 * layout_of(one).noise_steps(guarantee)


@pytest.mark.parametrize("ignored", [False, True], ids=["as it is", "repeats ignored"])
def test_replacing_all_rows_of_one_stays_within_the_sensitivity(ignored: bool) -> None:
    """The broken variant, which reads rows without asking whose they are, must be caught."""
    most = 2
    agreed = layout(f'individual = "patient"\nrows_per_individual = {most}\nexcess = "drop"')
    read = layout("") if ignored else agreed
    rng = np.random.default_rng(0)
    furthest = 0.0
    for _ in range(200):
        owners = rng.choice(["target", "a", "b"], size=8)
        rows = {"patient": owners, **{name: rng.choice([-1.0, 0.0, 1.0], size=8) for name in ("x", "y")}}
        mine = owners == "target"
        value = rng.choice([-1.0, 1.0], size=2)
        other = {
            **rows,
            "x": np.where(mine, value[0], rows["x"]),
            "y": np.where(mine, value[1], rows["y"]),
        }
        first, second = (np.array(exact_statistic(read, each).values, float) for each in (rows, other))
        furthest = max(furthest, float(np.linalg.norm(first - second)))
    assert (furthest > agreed.sensitivity) == ignored


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({**table(["a", "b"]), "patient": ["a", None]}, "column 'patient', row 2: the value is missing"),
        (
            pd.DataFrame({**table(["a", "b"]), "patient": [1.0, np.nan]}),
            "column 'patient', row 2: the value is missing",
        ),
        ({name: values for name, values in table(["a"]).items() if name != "patient"}, "'patient' is not in the table"),
        (np.ones((4, 2)), "give a table whose columns have names"),
        ((np.ones((4, 1)), np.ones(4)), "give a table whose columns have names"),
        ({**table(["a", "b"]), "patient": [["a"], ["b"]]}, "which name nobody"),
    ],
)
def test_it_must_be_known_whose_rows_they_are(source: Any, says: str) -> None:
    with pytest.raises(TableError, match=says):
        exact_statistic(layout(), source)


def test_a_dry_run_counts_repeats_and_a_ledger_knows_the_column_alone(tmp_path: Path) -> None:
    rows = table([SECRET, "b", SECRET, SECRET])
    (problem,) = problems_of(layout(), rows)
    assert (problem.column, problem.problem, problem.count, problem.first_row) == (
        "patient", "more rows than agreed", 2, 3,
    )  # fmt: skip
    assert problem.refused
    drop = 'individual = "patient"\nexcess = "drop"'
    (problem,) = problems_of(layout(drop), rows)
    assert not problem.refused
    eq.release(agreement(drop), rows, party="p", epsilon=1.0, ledger=tmp_path / "ledger")
    assert SECRET not in (tmp_path / "ledger").read_text()
    assert domains_of(agreement(drop))["rows of one patient"] == [1]


def test_what_cannot_be_agreed_to() -> None:
    for privacy, says in (
        ("rows_per_individual = 2", "need `individual`"),
        ('individual = "x"', "'x' says whose row it is and cannot be learnt from"),
        ('individual = "patient"\nrows_per_individual = 0', "rows_per_individual"),
    ):
        with pytest.raises(AgreementError, match=says):
            agreement(privacy)


def test_an_agreement_says_who_is_protected() -> None:
    found = explain(agreement('individual = "patient"\nrows_per_individual = 3'))
    assert "Replacing all rows, at most 3, of one patient changes the sums" in " ".join(found.sentences)
    assert "How many rows somebody has is not protected" in " ".join(found.cautions)
