"""The command line as its user meets it: real files, messages instead of tracebacks, exit codes."""

import json
import re
from pathlib import Path

import pytest

from equipoise.cli.advise import show
from equipoise.estimate import Estimate
from equipoise.mediation.advice import Advice, Choice
from equipoise.protocol.submission import Submission
from program import Terminal, equipoise, from_json, run, spawn


@pytest.fixture
def home(home: Path) -> Path:
    """The table has a column that nobody asks for."""
    header, *rows = (home / "north.csv").read_text().splitlines()
    named = [f"{header},name", *(f"{row},patient{number}" for number, row in enumerate(rows))]
    (home / "north.csv").write_text("\n".join(named) + "\n")
    return home


RELEASE = ("party", "release", "agreement.toml", "north.csv", "--party", "north", "--ledger", "north.ledger")


def test_a_partys_whole_afternoon(home: Path) -> None:
    key = from_json("party", "keygen", "-o", "north.key", cwd=home)
    agreement = (home / "agreement.toml").read_text()
    pinned = agreement.replace('name = "north"\n', f'name = "north"\npublic_key = "{key["public_key"]}"\n')
    (home / "agreement.toml").write_text(pinned)

    explained = equipoise("agreement", "check", "agreement.toml", "--epsilon", 0.2, cwd=home)
    assert "linear regression of progression on age, bmi, blood_pressure" in explained
    assert "must carry the agreed key" in explained
    assert "58.9 %" in explained  # what an opponent's guess about one row is worth

    dry = equipoise(*RELEASE, "--epsilon", 0.2, "--key", "north.key", "--dry-run", cwd=home)
    assert "nothing is spent" in dry
    assert "columns never read: name" in dry
    assert "at most 58.9 % of the time" in " ".join(dry.split())
    assert not (home / "north.ledger").exists()

    said = equipoise(*RELEASE, "--epsilon", 0.2, "--key", "north.key", cwd=home)
    assert "spent (1.99, 1e-6)-DP, that is Rényi epsilon 0.2 at order 2, that is zCDP 0.1" in " ".join(said.split())
    assert "with your release, at most 58.9 % of the time" in " ".join(said.split())
    submission = Submission.load(home / "north.submission.json")
    assert submission.count == 200

    shown = from_json("party", "ledger", "north.ledger", "--check", "north.submission.json", cwd=home)
    assert shown["total"]["zcdp"] == 0.1
    assert shown["total"]["guess"] == pytest.approx(0.5885, abs=1e-4)
    assert shown["total"]["epsilon"] == 0.2
    assert shown["total"]["epsilon_delta"] == pytest.approx(1.99, abs=0.02)
    assert shown["spends"][0]["finished"]

    refused = equipoise(*RELEASE, "--epsilon", 0.2, "--key", "north.key", "-o", "b.json", cwd=home, code=5)
    assert "already released" in refused
    assert "party resend" in refused
    resend = ("party", "resend", "agreement.toml", "--party", "north", "--ledger", "north.ledger")
    equipoise(*resend, "-o", "b.json", cwd=home)
    assert (home / "b.json").read_bytes() == (home / "north.submission.json").read_bytes()

    equipoise("party", "amend", "north.ledger", "--cap-zcdp", 1, "--reason", "second round", cwd=home)
    equipoise(*RELEASE, "--zcdp", 0.2, "--key", "north.key", "--again", "-o", "c.json", cwd=home)
    table = equipoise("party", "ledger", "north.ledger", cwd=home)
    assert "second round" in table
    head = next(line for line in table.splitlines() if "time (UTC)" in line)
    assert head.index("(eps, 1e-6)") < head.index("guess") < head.index("Rényi eps") < head.index("zCDP")
    assert "with all that was released, at most 65.1 % of the time" in " ".join(table.split())
    assert "0.3" in table


def test_approx_guarantee(home: Path) -> None:
    said = from_json(*RELEASE, "--approx", 2, 1e-6, cwd=home)
    assert said["guarantee"]["epsilon_delta"] == pytest.approx(2.0)


def test_dry_run_json_has_every_field_that_leaves(home: Path) -> None:
    dry = from_json(*RELEASE, "--epsilon", 0.2, "--dry-run", cwd=home)
    equipoise(*RELEASE, "--epsilon", 0.2, cwd=home)
    sent = json.loads((home / "north.submission.json").read_text())
    assert set(dry["would_send"]) == set(sent)
    assert len(dry["would_send"]["statistic"]) == len(sent["statistic"])
    assert dry["would_send"]["count"] == sent["count"]


@pytest.mark.parametrize(
    ("change", "arguments", "code", "says"),
    [
        (("bmi,", "BMI,"), ("--epsilon", 0.2), 4, "did you mean 'BMI'"),
        (
            ("22,17,62,0,patient0", "20,,60,0,patient0"),
            ("--epsilon", 0.2),
            4,
            "column 'bmi', row 1: the value is missing",
        ),
        (("22,17,62,0,patient0", "20,18 kg,60,0,patient0"), ("--epsilon", 0.2), 4, "'18 kg' is not a number"),
        (None, ("--epsilon", 0), 5, "epsilon must be a positive number"),
        (None, ("--epsilon", 2), 3, "above the agreed maximum 1"),
        (None, (), 3, "exactly one way"),
        (None, ("--epsilon", "much"), 2, "valid number"),
        (None, ("--epsilon", 0.2, "--party", "east"), 3, "'east' is not a party"),
        (None, ("--epsilon", 0.2, "--key", "none.key"), 7, "cannot read the key"),
        (None, ("--epsilon", 0.2, "-o", "no/such/folder/s.json"), 6, "cannot write into"),
        (None, ("--epsilon", 0.2, "-o", "north.csv"), 6, "exists"),
        (None, ("--epsilon", 1e-20), 5, "more noise than 64-bit numbers hold"),
    ],
)
def test_mistakes_cost_nothing(
    home: Path, change: tuple[str, str] | None, arguments: tuple[object, ...], code: int, says: str
) -> None:
    if change:
        (home / "north.csv").write_text((home / "north.csv").read_text().replace(*change))
    assert says in equipoise(*RELEASE, *arguments, cwd=home, code=code)
    assert not (home / "north.ledger").exists()
    assert not (home / "north.submission.json").exists()


def test_missing_and_broken_files(home: Path) -> None:
    assert "cannot read the agreement" in equipoise("agreement", "check", "none.toml", cwd=home, code=3)
    assert "no file or folder" in equipoise(
        "party",
        "release",
        "agreement.toml",
        "none.csv",
        "--party",
        "north",
        "--ledger",
        "l",
        "--epsilon",
        0.2,
        cwd=home,
        code=4,
    )
    assert "there is no ledger" in equipoise("party", "ledger", "none", cwd=home, code=5)
    assert "there is no ledger" in equipoise(
        "party", "resend", "agreement.toml", "--party", "north", "--ledger", "none", cwd=home, code=5
    )
    assert "looks like a table" in equipoise("agreement", "check", "north.csv", cwd=home, code=3)
    assert "looks like a table" in equipoise("party", "ledger", "north.csv", cwd=home, code=5)
    (home / "bad.ledger").write_text('{"kind": "spend"}\n')
    assert "line 1" in equipoise("party", "ledger", "bad.ledger", cwd=home, code=5)


def test_agreement_new_never_overwrites(home: Path) -> None:
    before = (home / "agreement.toml").read_text()
    assert "exists" in equipoise("agreement", "new", "poisson", cwd=home, code=3)
    assert (home / "agreement.toml").read_text() == before
    equipoise("agreement", "new", "poisson", "--force", cwd=home)
    assert "no model 'arima'" in equipoise("agreement", "new", "arima", "-o", "x.toml", cwd=home, code=3)
    assert "use 1 to 64 letters" in equipoise(
        "agreement", "new", "poisson", "-o", "y", "--party", "a b", cwd=home, code=3
    )


def test_foreign_submission_is_not_accounted_for(home: Path) -> None:
    equipoise(*RELEASE, "--epsilon", 0.2, cwd=home)
    equipoise(*RELEASE[:-1], "other.ledger", "--epsilon", 0.2, "-o", "other.json", cwd=home)
    said = equipoise("party", "ledger", "north.ledger", "--check", "other.json", cwd=home, code=5)
    assert "does not account for 'other.json'" in said


def test_changed_bounds_need_an_amendment(home: Path) -> None:
    equipoise(*RELEASE, "--epsilon", 0.2, "--cap-zcdp", 1, cwd=home)
    text = (home / "agreement.toml").read_text()
    (home / "agreement.toml").write_text(text.replace("typical = [18, 40]", "typical = [16, 45]"))
    again = (*RELEASE, "--epsilon", 0.2, "-o", "b.json")
    assert "bounds of 'bmi' have changed" in equipoise(*again, cwd=home, code=5)
    amended = equipoise(
        "party", "amend", "north.ledger", "--accept-bounds", "agreement.toml", "--reason", "new scales", cwd=home
    )
    assert "bmi: [18.0, 40.0] is now [16.0, 45.0]" in amended
    equipoise(*again, cwd=home)


@pytest.mark.parametrize("command", [(), ("agreement",), ("party",)])
def test_bare_groups_show_help(command: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*command, cwd=tmp_path, code=2)
    assert "Usage:" in result.stdout + result.stderr


def test_every_command_has_help_with_an_example(tmp_path: Path) -> None:
    for command in (
        ("agreement", "new"),
        ("agreement", "check"),
        ("party", "keygen"),
        ("party", "release"),
        ("party", "resend"),
        ("party", "ledger"),
        ("party", "amend"),
        ("party", "spend"),
        ("party", "advise"),
        ("mediate",),
        ("report",),
        ("predict",),
        ("demo",),
        ("doctor",),
    ):
        assert f"Example: equipoise {' '.join(command)}" in equipoise(*command, "--help", cwd=tmp_path)


def test_version(tmp_path: Path) -> None:
    from equipoise import __version__

    assert equipoise("--version", cwd=tmp_path) == f"equipoise {__version__}\n"


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.first
def test_demo(tmp_path: Path) -> None:
    """The whole round; then the mediator's half again from the files, which finds its own journal."""
    found = json.loads(spawn("demo", "-o", "round", "--json", cwd=tmp_path).stdout)
    assert [h["rows"] for h in found["hospitals"]] == [500, 550, 600]
    settlement = found["settlement"]
    verdicts = {finding["code"]: finding["verdict"] for finding in settlement["audit"]["findings"]}
    assert "fails" not in verdicts.values(), settlement["audit"]
    assert verdicts["P4"] == verdicts["P3"] == "holds"
    for one in found["yardsticks"].values():
        assert list(one["losses"]) == list(one["errors"]) == ["own rows", "alone", "reward", "both"]
        assert one["losses"]["both"] < one["losses"]["own rows"] + 0.02  # by luck of the noise, no clear gain
    losses = [one["losses"] for one in found["yardsticks"].values()]
    assert sum(one["alone"] - one["own rows"] for one in losses) > 0.02  # of all, since noise may help one of them
    assert sum(one["gain_at_home"]["value"] for one in found["yardsticks"].values()) > 0.02
    assert (tmp_path / "round" / "yardsticks.svg").exists()
    assert "exists" in equipoise("demo", "-o", "round", cwd=tmp_path, code=1)

    sent = [f"round/{name}/{name}.submission.json" for name in ("west", "north", "south")]
    mediate: tuple[object, ...] = ("mediate", "round/agreement.toml", *sent, "-o", "round/settlement")
    mediate = (*mediate, "--test", "round/test.csv", "--seed", 2023)
    journal = (tmp_path / "round" / "settlement" / "journal.jsonl").read_bytes()
    equipoise(*mediate, cwd=tmp_path)
    assert (tmp_path / "round" / "settlement" / "journal.jsonl").read_bytes() == journal
    for name in settlement["awards"]:
        for file in (f"for/{name}/reward.nc", f"for/{name}/report.html", "report.html"):
            assert (tmp_path / "round" / "settlement" / file).exists()

    for model in ("round/settlement/for/west/reward.nc", "round/west/model.nc"):
        predicted = equipoise("predict", model, "--data", "round/test.csv", cwd=tmp_path).splitlines()
        assert predicted[0] == "mobility,operation,prediction,lower,upper"
        assert len(predicted) == 1 + 5_000


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.exhaustive
def test_demo_of_classification(tmp_path: Path) -> None:
    said = spawn("demo", "classification", "-o", "round", cwd=tmp_path, COLUMNS="80").stdout
    assert "gain at home" in said
    assert "Report: round/settlement/report.html" in said
    assert "fails" not in said
    assert "…" not in said
    assert "no demo 'magic'" in equipoise("demo", "magic", cwd=tmp_path, code=1)


def test_tables_to_play_with(tmp_path: Path) -> None:
    """What README begins with: files that the commands after it need, of which none is replaced."""
    said = equipoise("demo", "--tables", cwd=tmp_path)
    assert "Begin with: equipoise agreement check agreement.toml" in said
    assert {path.name for path in tmp_path.iterdir()} == {
        "agreement.toml", "north.csv", "south.csv", "west.csv", "test.csv",
    }  # fmt: skip
    assert len((tmp_path / "north.csv").read_text().splitlines()) == 501
    assert "'agreement.toml' exists; choose an empty folder" in equipoise("demo", "--tables", cwd=tmp_path, code=1)
    found = from_json("demo", "classification", "--tables", "-o", "new/place", cwd=tmp_path)
    assert found["test"] == "new/place/test.csv"
    assert "home" in (tmp_path / found["west"]).read_text()


@pytest.mark.engine
@pytest.mark.group("tests/mediation/test_advice.py")
@pytest.mark.slow
def test_advice_on_the_command_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it says, what it draws, and that it never looks at the table beside it."""
    equipoise("agreement", "new", "bernoulli", "--party", "north", "--party", "south", "-o", "shares.toml", cwd=home)
    ask = ("party", "advise", "shares.toml", "--party", "north", "--rows", 90, "--simulations", 6)
    found = from_json(*ask, "--other", "south=400,0.5", "--picture", "advice.svg", cwd=home)
    assert [choice["epsilon"] for choice in found["choices"]] == [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]
    assert found["others"] == {"south": {"rows": 400, "epsilon": 0.5}}
    assert (home / "advice.svg").read_text().startswith("<?xml")
    said = equipoise(*ask, "--epsilon", 0.1, "--epsilon", 1, "--epsilon", 0.01, cwd=home, columns=80)
    for words in ("quality", "(eps, 1e-6)", "knee", "weaker privacy", "none of your rows was read", "south 90 rows"):
        assert words in " ".join(said.split())
    assert "…" not in said
    assert re.search(r"^ *\(eps, 1e-6\) +guess +quality +epsilon", said, re.M)
    assert "knee" not in equipoise(*ask, "--epsilon", 0.1, "--epsilon", 1, cwd=home)  # two points have none
    nats = Estimate(1.0, 0.1)
    choices = [
        Choice(epsilon, epsilon / 2, 9 * epsilon, nats, nats, nats, nats, 0.0, 0.0, 0.1, 0.2, 80 / epsilon, 60.0)
        for epsilon in (0.5, 1.0)
    ]
    show(Advice("north", 90, {}, 1e-6, "max", tuple(choices), None, 6, 0, 1.0, 0.0, "progression", 400.0, 50.0))
    words = " ".join(capsys.readouterr().out.split())
    assert "±200 knows nothing, ±25 the truth" in words
    assert "80 → 30" in words
    assert "what it says of progression from ±30 to ±30" in words
    assert "NAME=ROWS,EPSILON" in equipoise(*ask, "--other", "south:3", cwd=home, code=3)
    assert "must end in one of .png" in equipoise(*ask, "--picture", "advice.gif", cwd=home, code=3)
    assert "above the agreed maximum 1" in equipoise(*ask, "--epsilon", 3, cwd=home, code=3)
    assert not list(home.glob("*.ledger"))


def test_a_release_gets_a_second_look(home: Path) -> None:
    """On a terminal; `--yes` and scripts are not asked. A new ledger is announced either way."""
    (home / "north.csv").write_text((home / "north.csv").read_text().replace(",399,", ",9399,"))
    for answer in ("n\n", "\n"):
        refused = run(*RELEASE, "--epsilon", 0.2, cwd=home, code=5, typed=Terminal(answer))
        assert "not confirmed; nothing was spent" in refused.stderr
    asked = " ".join(refused.stderr.split())
    for words in (
        "north.ledger is a NEW ledger",
        "never spend more than its cap, zCDP 0.1",
        "200 rows",
        "that is (1.99, 1e-6)-DP",
        "spent nothing before, zCDP 0.1, that is (1.99, 1e-6)-DP, after, for one row;",
        "of its cap zCDP 0.1, zCDP 0 would be left",
        "column age: 7.5% of the first values moved to an end of the range",
        "column progression: 13.0% of the first values moved to an end of the range (for your eyes only)",
        "Spend this? [y/N]",
    ):
        assert words in asked
    assert not (home / "north.ledger").exists()
    assert not (home / "north.submission.json").exists()
    said = run(*RELEASE, "--epsilon", 0.2, "--json", cwd=home, typed=Terminal("y\n"))
    assert json.loads(said.stdout)["spent"]
    assert "moved to" not in said.stdout
    second = (*RELEASE, "--epsilon", 0.1, "--again", "-o", "second.json")
    equipoise("party", "amend", "north.ledger", "--cap-zcdp", 1, "--reason", "agreed", cwd=home)
    done = run(*second, "--yes", cwd=home, typed=Terminal(""))
    assert done.stderr == ""  # neither asked nor told of a new ledger
    third = (*RELEASE, "--epsilon", 0.1, "--again", "-o", "third.json")
    asked = run(*third, cwd=home, code=5, typed=Terminal("n\n")).stderr
    assert "spent zCDP 0.15" in asked
    assert "NEW" not in asked


def test_mediate_says_what_is_wrong(home: Path) -> None:
    equipoise(*RELEASE, "--epsilon", 0.2, cwd=home)
    mediate = ("mediate", "agreement.toml", "north.submission.json", "-o", "out")
    assert "rho = 'much'" in equipoise(*mediate, "--rho", "much", cwd=home, code=9)
    assert "'prayer'" in equipoise(*mediate, "--mechanism", "prayer", cwd=home, code=9)
    assert "'mars' is in a team" in equipoise(*mediate, "--team", "north,mars", cwd=home, code=9)
    assert "twice" in equipoise(*mediate, "north.submission.json", cwd=home, code=6)
    assert "south, west have not submitted; wait, or settle without with --partial" in equipoise(
        *mediate, cwd=home, code=9
    )
    assert not (home / "out").exists()


def test_altered_submission_is_not_accounted_for(home: Path) -> None:
    equipoise(*RELEASE, "--epsilon", 0.2, cwd=home)
    document = json.loads((home / "north.submission.json").read_text())
    document["statistic"][0] += 1
    (home / "altered.json").write_text(json.dumps(document))
    said = equipoise("party", "ledger", "north.ledger", "--check", "altered.json", cwd=home, code=5)
    assert "does not account for" in said


@pytest.mark.parametrize("order", [-3, 0, 1])
def test_totals_need_a_real_order(order: int, home: Path) -> None:
    equipoise(*RELEASE, "--epsilon", 0.2, cwd=home)
    assert "order must be a number above 1" in equipoise(
        "party", "ledger", "north.ledger", "--order", order, cwd=home, code=5
    )


def test_nothing_to_amend(home: Path) -> None:
    equipoise(*RELEASE, "--epsilon", 0.2, cwd=home)
    amend = ("party", "amend", "north.ledger", "--reason", "x")
    assert "nothing to amend" in equipoise(*amend, cwd=home, code=5)
    assert "nothing to accept" in equipoise(*amend, "--accept-bounds", "agreement.toml", cwd=home, code=5)
    assert "choose at least that" in equipoise(*amend, "--cap-zcdp", 0.01, cwd=home, code=5)


def test_what_others_spent_is_recorded(home: Path) -> None:
    equipoise(*RELEASE, "--epsilon", 0.2, "--cohort", "2023", "--cap-zcdp", 0.5, cwd=home)
    spend = ("party", "spend", "north.ledger", "--why", "counts in the annual report")
    assert "in one way" in equipoise(*spend, cwd=home, code=5)
    assert "in one way" in equipoise(*spend, "--zcdp", 0.1, "--pure", 0.1, cwd=home, code=5)
    assert "in one way" in equipoise(*spend, "--pure", -1, cwd=home, code=5)
    found = from_json(*spend, "--pure", 0.2, "--add-remove", "--cohort", "2024", cwd=home)
    assert found["zcdp"] == pytest.approx(0.08)  # ½ (2 · 0.2)²
    assert found["total_zcdp"] == pytest.approx(0.1)  # 2023's, which is the dearer
    said = equipoise(*spend, "--zcdp", 0.45, cwd=home)
    assert "Spent in all, for one row: zCDP 0.55 of the cap 0.5." in said
    assert "above the cap" in said
    shown = equipoise("party", "ledger", "north.ledger", cwd=home, columns=200)
    for words in ("cohort 2023", "cohort 2024; counts in the annual report", "cohort 2024, with everybody"):
        assert words in shown
    assert from_json("party", "ledger", "north.ledger", cwd=home)["cohorts"] == {
        "2023": pytest.approx(0.55),
        "2024": pytest.approx(0.53),
    }
    again = (*RELEASE, "--epsilon", 0.2, "--again", "-o", "again.json")
    assert "of the cap 0.5 is spent" in equipoise(*again, cwd=home, code=5)


def test_a_table_with_semicolons_and_decimal_commas(home: Path) -> None:
    header, *rows = (home / "north.csv").read_text().replace(",", ";").splitlines()
    (home / "north.csv").write_text("\n".join([header, *(row.replace(";", ",5;", 1) for row in rows)]) + "\n")
    assert "--delimiter" in equipoise(*RELEASE, "--epsilon", 0.2, cwd=home, code=4)
    assert "--decimal" in equipoise(*RELEASE, "--epsilon", 0.2, "--delimiter", ";", cwd=home, code=4)
    equipoise(*RELEASE, "--epsilon", 0.2, "--delimiter", ";", "--decimal", ",", cwd=home)
    assert len(rows) == json.loads((home / "north.submission.json").read_text())["count"]


def test_a_dry_run_tells_all_problems_at_once(home: Path) -> None:
    header, first, second, *rows = (home / "north.csv").read_text().splitlines()
    column = header.split(",")[0]
    first, second = (",".join([cell, *row.split(",")[1:]]) for cell, row in (("", first), ("abc", second)))
    (home / "north.csv").write_text("\n".join([header.replace("bmi", "BMI"), first, second, *rows]) + "\n")
    dry = (*RELEASE, "--epsilon", 0.2, "--dry-run")
    said = equipoise(*dry, cwd=home, code=4)
    assert "3 problems" in said
    for words in ("did you mean 'BMI'", "such as 'abc': correct them", "fill them in, or remove the rows"):
        assert words in said
    lines = [line.split() for line in said.splitlines()]
    assert [column, "missing", "1", "1"] in [line[:4] for line in lines]
    assert [column, "not", "a", "number", "1", "2"] in [line[:6] for line in lines]
    assert not (home / "north.ledger").exists()


def test_a_dry_run_writes_nothing_and_needs_no_place_to_write(home: Path) -> None:
    """An output that is there is no reason to refuse it; it is told all the same, and nothing happens to it."""
    (home / "taken.json").write_text("mine")
    dry = (*RELEASE, "--epsilon", 0.2, "--dry-run")
    done = run(*dry, "-o", "taken.json", cwd=home)
    assert "DRY RUN" in done.stdout
    assert "'taken.json' exists: a release needs another name" in done.stderr
    assert (home / "taken.json").read_text() == "mine"
    assert "DRY RUN" in equipoise(*dry, "-o", "no/such/folder/s.json", cwd=home)
    equipoise(*RELEASE, "--epsilon", 0.2, cwd=home)
    again = run(*RELEASE, "--epsilon", 0.2, "--again", "--dry-run", cwd=home, code=5)  # the cap, not the file
    assert "of the cap 0.1 is spent" in again.stderr


def test_dry_run_finds_what_a_release_would_find(home: Path) -> None:
    dry = (*RELEASE, "--epsilon", 0.2, "--dry-run")
    assert "folder must exist" in equipoise(*dry[:7], "no/l", *dry[8:], cwd=home, code=5)


@pytest.mark.parametrize("kind", ["linear", "bernoulli", "categorical"])
def test_everything_fits_80_columns(kind: str, home: Path) -> None:
    equipoise("agreement", "new", kind, "--force", cwd=home)
    shown = equipoise("agreement", "check", "agreement.toml", cwd=home, columns=80)
    if kind == "linear":
        shown += equipoise(*RELEASE, "--epsilon", 0.2, cwd=home, columns=80)
        shown += equipoise("party", "ledger", "north.ledger", cwd=home, columns=80)
    assert max(len(line) for line in shown.splitlines() if "identity" not in line) <= 80
    assert ("between -1 and 1" in shown) == (kind == "linear")


def test_names_may_have_emoji_and_letters_of_any_script(tmp_path: Path) -> None:
    """Columns, labels, cohorts and reasons are people's own words; names of parties, which name files, are plain."""
    text = (
        'format = 2\ntitle = "🏥 年齢"\n[model]\nkind = "logistic"\n'
        'features = [{ name = "😀 mood", bounds = [0, 10] }, '
        '{ name = "Größe", kind = "category", levels = ["klein", "👩‍🔬"], other = true }]\n'
        'target = { name = "gesund?", labels = ["💔", "❤️"] }\n'
        '[privacy]\nmax_epsilon = 1.0\n[[parties]]\nname = "north"\n'
    )
    (tmp_path / "agreement.toml").write_text(text)
    rows = "".join(f"{k % 11},{('klein', '👩‍🔬')[k % 2]},{('💔', '❤️')[k % 3 == 0]}\n" for k in range(60))
    (tmp_path / "north.csv").write_text(f"😀 mood,Größe,gesund?\n{rows}")
    release = ("party", "release", "agreement.toml", "north.csv", "--party", "north", "--ledger", "north.ledger")
    given = ("--epsilon", 0.5, "--cohort", "🏥 2024", "--family", "👩‍👩‍👧")
    assert "sum of 😀 mood" in equipoise(*release, "--epsilon", 0.5, "--dry-run", cwd=tmp_path)
    equipoise(*release, *given, cwd=tmp_path)
    equipoise("party", "spend", "north.ledger", "--zcdp", 0.1, "--why", "Bericht 📊", cwd=tmp_path)
    shown = equipoise("party", "ledger", "north.ledger", cwd=tmp_path, columns=200)
    for words in ("👩‍👩‍👧", "cohort 🏥 2024", "Bericht 📊"):
        assert words in shown
    assert "🏥 年齢" in equipoise("agreement", "check", "agreement.toml", cwd=tmp_path)
    (tmp_path / "north.csv").write_text("😀 mood,Größe,gesund?\nx,klein,💔\n,👩‍🔬,❤️\n")
    refused = equipoise(*release, "--epsilon", 0.1, "--again", "--dry-run", cwd=tmp_path, code=5)
    assert "of the cap" in refused
    problems = equipoise(*release[:-1], "l", "--epsilon", 0.1, "--dry-run", cwd=tmp_path, code=4)
    assert "😀 mood  not a number" in problems
    for name in ("😀", "north ❤️"):
        said = equipoise("agreement", "new", "linear", "--party", name, cwd=tmp_path, code=3)
        assert "cannot be a party's name: use 1 to 64 letters" in said
