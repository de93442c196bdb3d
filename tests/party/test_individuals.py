"""Rows of individuals: nobody has more than agreed, and all that somebody has is protected."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import coded
import equipoise as eq
from equipoise.agreement.explanation import explain
from equipoise.errors import AgreementError, TableError
from equipoise.models import Layout, layout_of
from equipoise.party.individuals import ContributionBounding
from equipoise.party.inspection import problems_of
from equipoise.party.ledger import domains_of
from equipoise.party.statistics import exact_statistic

SECRET = "patient-4711"


def agreement(privacy: str = 'individual = "patient"', missing: str = "") -> eq.Agreement:
    return eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "linear"\nfeatures = [{{ name = "x", bounds = [-1, 1]{missing} }}]\n'
        'target = { name = "y", bounds = [-1, 1] }\n'
        f'[privacy]\nmax_epsilon = 4.0\n{privacy}\n[[parties]]\nname = "p"\n'
    )


def layout(privacy: str = 'individual = "patient"', missing: str = "") -> Layout:
    return layout_of(agreement(privacy, missing))


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


@pytest.mark.parametrize("agreed", ["", "rows_per_individual = 2", 'aggregate = "mean"'])
def test_files_that_name_individuals_in_two_ways_are_refused(agreed: str, tmp_path: Path) -> None:
    """Somebody who is 1 in one file and "1" in the next would have a row as each, and be protected as if by halves."""
    for name, owners in (("a", [1, 2]), ("b", [3.0, 4.0]), ("c", ["1", "5"])):
        pd.DataFrame(table(owners)).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(TableError, match="holds number values up to row 4 and text values from there on"):
        exact_statistic(layout(f'individual = "patient"\n{agreed}'), tmp_path)
    (problem,) = problems_of(layout(f'individual = "patient"\n{agreed}'), tmp_path)
    assert problem.refused
    (tmp_path / "c.parquet").unlink()
    assert exact_statistic(layout(f'individual = "patient"\n{agreed}'), tmp_path).count == 4


@pytest.mark.parametrize("agreed", ["", 'aggregate = "mean"'])
def test_a_dry_run_tells_of_names_that_are_nearly_alike(agreed: str, tmp_path: Path) -> None:
    """Names count as they are written; who is written in two ways is two, and has the protection of half."""
    rows = pd.DataFrame(table([SECRET, "b", f" {SECRET}", SECRET.upper(), "c"]))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    for source in (rows, tmp_path / "rows.csv"):
        (odd,) = problems_of(layout(f'individual = "patient"\n{agreed}'), source)
        assert (odd.problem, odd.count, odd.refused) == ("alike but for spaces and capitals", 2, False)
        assert SECRET not in str(odd)


def test_names_that_are_no_text_are_names_all_the_same() -> None:
    """Parquet files of other programs have texts that are not UTF-8; an error would show what is in them."""
    offsets = pa.py_buffer(np.array([0, 1, 2, 3], np.int32).tobytes())
    owners = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"\xff\xfe\xff")])
    rows = pa.table({**table([0, 0, 0]), "patient": owners})
    with pytest.raises(TableError, match="row 3: 'patient' is that of 1 earlier row"):
        exact_statistic(layout(), rows)


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
        ('aggregate = "mean"', "need `individual`"),
        ('individual = "patient"\naggregate = "median"', "aggregate"),
        ('individual = "patient"\naggregate = "mean"\nexcess = "drop"', "remove rows_per_individual and excess"),
    ):
        with pytest.raises(AgreementError, match=says):
            agreement(privacy)
    with pytest.raises(AgreementError, match="a mean of counts is no count"):
        eq.Agreement.parse(
            'format = 2\n[model]\nkind = "poisson"\ntarget = { name = "y", bounds = [0, 9] }\n[privacy]\n'
            'max_epsilon = 1.0\nindividual = "patient"\naggregate = "mean"\n[[parties]]\nname = "p"\n'
        )


def test_an_agreement_says_who_is_protected() -> None:
    found = explain(agreement('individual = "patient"\nrows_per_individual = 3'))
    assert "Replacing all rows, at most 3, of one patient changes the sums" in " ".join(found.sentences)
    assert "How many rows somebody has is not protected" in " ".join(found.cautions)


FEATURES = """
  { name = "x", bounds = [-10, 10] },
  { name = "creatinine", bounds = [0.1, 20], transform = "log", missing = "indicator" },
  { name = "smoker", kind = "binary", labels = ["no", "yes"] },
  { name = "region", kind = "category", levels = ["north", "south", "west"], other = true },
  { name = "visit", bounds = [0, 100], since = "2020-01-01" },
"""
VISITS = pd.DataFrame(
    {
        "patient": ["a", "b", "a", "a", "c", "c", "b"],
        "x": [1.0, 5.0, None, 4.0, -2.0, 0.0, 5.0],
        "creatinine": [None, None, 2.0, 8.0, None, None, None],
        "smoker": ["yes", "no", "yes", "no", "yes", "no", None],
        "region": ["west", "abroad", "south", "west", "there", "north", "abroad"],
        "visit": ["2020-01-03", "2020-01-01", "2020-01-05", "2020-01-07", "2020-02-01", "2020-02-01", "2020-01-03"],
        "outcome": [1.0, 2.0, 3.0, 8.0, -1.0, 0.0, 4.0],
    }
)
ONE_ROW_EACH: dict[str, dict[str, list[Any]]] = {
    "mean": {
        "x": [2.5, 5.0, -1.0],
        "creatinine": [5.0, None, None],  # before the logarithm
        "smoker": ["yes", "no", "no"],  # of equals, the one agreed first
        "region": ["west", "abroad", "north"],  # and what is not listed last
        "visit": ["2020-01-05", "2020-01-02", "2020-02-01"],
        "outcome": [4.0, 3.0, -0.5],
    },
    "first": {
        "x": [1.0, 5.0, -2.0],
        "creatinine": [2.0, None, None],
        "smoker": ["yes", "no", "yes"],
        "region": ["west", "abroad", "there"],
        "visit": ["2020-01-03", "2020-01-01", "2020-02-01"],
        "outcome": [1.0, 2.0, -1.0],
    },
    "last": {
        "x": [4.0, 5.0, 0.0],
        "creatinine": [8.0, None, None],
        "smoker": ["no", "no", "no"],
        "region": ["west", "abroad", "north"],
        "visit": ["2020-01-07", "2020-01-03", "2020-02-01"],
        "outcome": [8.0, 4.0, 0.0],
    },
}


def mixed_layout(aggregate: str | None) -> Layout:
    document = coded.agreement("linear", FEATURES, parties=1).model_dump(mode="json")
    if aggregate is not None:
        document["privacy"] |= {"individual": "patient", "aggregate": aggregate}
    return layout_of(eq.Agreement.model_validate(document))


@pytest.mark.parametrize("aggregate", ["mean", "first", "last"])
def test_all_rows_of_one_are_made_one(aggregate: str, tmp_path: Path) -> None:
    agreed, plain = mixed_layout(aggregate), mixed_layout(None)
    assert agreed.sensitivity == plain.sensitivity
    VISITS.to_csv(tmp_path / "visits.csv", index=False)
    arrow = pa.Table.from_pandas(VISITS)
    expected = exact_statistic(plain, pd.DataFrame(ONE_ROW_EACH[aggregate])).values
    row_by_row = pa.concat_tables([arrow.slice(k, 1) for k in range(len(VISITS))])
    for source in (VISITS, arrow, row_by_row, tmp_path / "visits.csv"):
        found = exact_statistic(agreed, source)
        assert found.count == 3
        assert found.values == expected
        assert found.individuals == {2: 2, 3: 1}


def test_counts_of_labels_are_of_individuals() -> None:
    agreed = eq.Agreement.parse(
        'format = 2\n[model]\nkind = "bernoulli"\ntarget = { name = "y", labels = ["no", "yes"] }\n[privacy]\n'
        'max_epsilon = 1.0\nindividual = "patient"\naggregate = "mean"\n[[parties]]\nname = "p"\n'
    )
    found = exact_statistic(layout_of(agreed), {"patient": [1, 1, 1, 2], "y": ["yes", "no", "yes", "no"]})
    assert found.count == 2
    assert found.values == exact_statistic(agreed.model.layout, {"y": ["yes", "no"]}).values


def test_a_mean_does_not_depend_on_where_batches_end() -> None:
    """Somebody's additional row moves the others' rows to other batches, and may not move their means with them."""
    agreed = layout('individual = "patient"\naggregate = "mean"')
    awkward = [1e16, 0.1, -1e16, 0.7, 0.3] * 3
    rows = pa.table({"x": awkward, "y": awkward[::-1], "patient": ["a"] * len(awkward)})
    values = {
        exact_statistic(agreed, pa.concat_tables([rows.slice(0, cut), rows.slice(cut)])).values
        for cut in range(len(awkward))
    }
    assert len(values) == 1


def _within_batches(owners: ContributionBounding, batches: Any, *arguments: Any) -> Any:
    """A broken `ContributionBounding.merged`: one row of what somebody has in each batch."""
    for batch in batches:
        yield from _merged(ContributionBounding(owners.agreed), [batch], *arguments)


_merged = ContributionBounding.merged


@pytest.mark.parametrize("aggregate", ["mean", "last"])
@pytest.mark.parametrize("broken", ["", "ignored", "within batches"])
def test_replacing_whatever_one_has_changes_no_more_than_a_row(
    aggregate: str, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variants that take rows as they are, or forget whose they are from one batch to the next, must be caught."""
    agreed = mixed_layout(aggregate)
    read = mixed_layout(None) if broken == "ignored" else agreed
    if broken == "within batches":
        monkeypatch.setattr(ContributionBounding, "merged", _within_batches)
    rng = np.random.default_rng(0)

    def drawn(size: int, extreme: bool) -> pd.DataFrame:
        values: dict[str, list[Any]] = {
            "x": [-10.0, 10.0] if extreme else [-10.0, 0.0, 10.0],
            "creatinine": [0.1, 20.0] if extreme else [None, 0.1, 20.0],
            "smoker": ["no", "yes"],
            "region": ["north", "south", "abroad"],
            "visit": ["2020-01-01", "2020-04-10"],
            "outcome": [-8.0, 8.0],
        }
        alike = extreme and rng.uniform() < 0.5  # what moves sums furthest, if all rows count
        drawn_once = {name: rng.integers(len(levels)) for name, levels in values.items()}
        return pd.DataFrame(
            {
                name: [levels[drawn_once[name] if alike else rng.integers(len(levels))] for _ in range(size)]
                for name, levels in values.items()
            }
        )

    furthest = 0.0
    for _ in range(20):
        others = drawn(2, False).fillna({"creatinine": 1.0}).assign(patient=["a", "b"])
        sums = []
        for _ in range(2):
            size = int(rng.integers(1, 5)) if not broken else 4  # or row counts would differ, which gives it away
            own = drawn(size, True).assign(patient="target")
            rows = pa.Table.from_pandas(pd.concat([own, others]), preserve_index=False)
            pieces = pa.concat_tables([rows.slice(k, 1) for k in range(len(rows))])
            sums.append(np.array(exact_statistic(read, pieces, threads=1).values, float))
        furthest = max(furthest, float(np.linalg.norm(sums[0] - sums[1])))
        if furthest > agreed.sensitivity:
            break
    assert (furthest > agreed.sensitivity) == bool(broken)


def test_a_gap_is_left_where_all_of_somebody_are_gaps() -> None:
    agreed = layout('individual = "patient"\naggregate = "last"')
    rows: dict[str, list[Any]] = {"x": [None, 1.0, None], "y": [1.0, None, 0.5], "patient": [SECRET, "b", SECRET]}
    with pytest.raises(TableError, match=r"'x' is missing in all rows of 1 individual, .* row 1; column 'y' .* row 2"):
        exact_statistic(agreed, rows)
    rows["x"][2], rows["y"][1] = 0.0, 0.0
    assert exact_statistic(agreed, rows).count == 2
    with pytest.raises(TableError, match="column 'x', row 3: the value is infinite"):
        exact_statistic(agreed, {**rows, "x": [None, 1.0, np.inf]})
    with pytest.raises(TableError, match="add up to more than numbers hold"):
        exact_statistic(layout('individual = "patient"\naggregate = "mean"'), {**rows, "x": [1.5e308, 0.0, 1.5e308]})


def test_a_dry_run_says_who_has_how_many_rows(tmp_path: Path) -> None:
    agreed = agreement('individual = "patient"\naggregate = "mean"')
    rows = table([SECRET, "b", SECRET, SECRET])
    rows["x"][0] = np.nan
    seen = eq.preview(agreed, rows, party="p", epsilon=1.0, ledger=tmp_path / "ledger")
    assert seen.individuals == {1: 1, 3: 1}
    assert seen.submission.count == 2
    odd, few = seen.odd
    assert (odd.problem, odd.count, odd.refused) == ("missing", 1, False)
    assert (few.column, few.problem, few.count) == ("the table", "hidden by noise", 2)
    assert domains_of(agreed)["rows of one patient"] == [1, "aggregate = mean"]


def test_gaps_that_another_row_fills_are_told_from_those_that_none_does(tmp_path: Path) -> None:
    """Of four gaps two are of somebody with a value elsewhere, one of somebody's only row, one of a last row."""
    agreed = layout('individual = "patient"\naggregate = "last"')
    rows: dict[str, list[Any]] = {
        "patient": ["a", "a", "a", "b", "c", "c"],
        "x": [None, 1.0, None, None, 0.5, None],
        "y": [0.5] * 6,
    }
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    pieces = pa.concat_tables([pa.table(rows).slice(k, 1) for k in range(6)])
    for source in (rows, tmp_path / "rows.csv", pieces):
        filled, without, _ = problems_of(agreed, source)
        assert (filled.problem, filled.count, filled.refused) == ("missing", 3, False)
        assert "taken from the individual's other rows" in filled.remedy
        assert (without.problem, without.count, without.refused) == ("missing in all rows of 1 individual", 1, True)
        assert 'missing = "indicator"' in without.remedy
        with pytest.raises(TableError, match="'x' is missing in all rows of 1 individual"):
            exact_statistic(agreed, source)
    coded = layout('individual = "patient"\naggregate = "last"', missing=', missing = "indicator"')
    filled, without, _ = problems_of(coded, rows)
    assert (filled.count, without.count, without.refused) == (3, 1, False)
    assert "coded as agreed" in without.remedy


def test_an_agreement_says_how_rows_are_made_one() -> None:
    for aggregate, words in (("mean", "the mean of numbers"), ("last", "each column's last value")):
        found = explain(agreement(f'individual = "patient"\naggregate = "{aggregate}"'))
        said = " ".join(found.sentences)
        assert "Replacing all rows of one patient changes the sums" in said
        assert f"All rows of one patient count as one row: {words}" in said
        assert not any("rows" in caution for caution in found.cautions)
