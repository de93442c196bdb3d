"""`equipoise mediate` from files to rewards, and questions about the settlement that is there."""

import json
from pathlib import Path
from unittest import mock

import pytest

import rounds
from equipoise.estimate import Estimate
from equipoise.mediation import appraisal
from program import equipoise, from_json, run

pytestmark = [pytest.mark.engine, pytest.mark.group("gaussian")]


def test_a_round_from_files(tmp_path: Path) -> None:
    (tmp_path / "agreement.toml").write_text(rounds.agreement_text("gaussian"))
    (tmp_path / "test.csv").write_text("y\n0.1\n0.9\n1.2\n")
    sent = rounds.submissions(rounds.agreement("gaussian"), tmp_path / "ledgers", (8.0, 2.0, 0.5))
    for one in sent:
        one.save(tmp_path / f"{one.party}.json")
    files = [f"{one.party}.json" for one in reversed(sent)]
    settle = ("mediate", "agreement.toml", *files, "-o", "out", "--draws", 1000, "--precision", 0.2)
    settle = (*settle, "--test", "test.csv", "--seed", 3)
    found = json.loads(equipoise(*settle, "--json", cwd=tmp_path))
    verdicts = {finding["code"]: finding["verdict"] for finding in found["audit"]["findings"]}
    assert "fails" not in verdicts.values(), found["audit"]

    # Again: the journal answers, and people read the same.
    journal = (tmp_path / "out" / "journal.jsonl").read_bytes()
    said = equipoise(*settle, cwd=tmp_path, columns=80)
    assert (tmp_path / "out" / "journal.jsonl").read_bytes() == journal
    for words in (
        "Typical error of the mean of y",
        "alone",
        "Shapley value",
        "attained",
        "κ",
        "Audit of the paper’s promises",
        "holds",
    ):
        assert words in said
    assert "…" not in said  # nothing is cut off at the usual width
    for name, award in found["awards"].items():
        assert f"{award['target']['value']:.2f} ±" in said
        assert str(Estimate(**award["losses"]["reward"])) in said
        for file in (f"for/{name}/reward.nc", f"for/{name}/report.html", "report.html"):
            assert (tmp_path / "out" / file).exists()

    said = equipoise(*settle, "--rho-sweep", "--what-if", "party=north,epsilon=0.5", cwd=tmp_path, columns=80)
    assert "8 → 0.5" in said
    assert "rationality bound" in said
    assert "…" not in said
    assert (tmp_path / "out" / "journal.jsonl").read_bytes() == journal
    assert "other inputs" in equipoise(*settle[:-1], 1, cwd=tmp_path, code=9)
    weaker = equipoise(*settle, "--what-if", "party=west,epsilon=1", cwd=tmp_path, code=9)
    assert "not below the 0.5 it released with" in weaker
    assert "party=NAME,epsilon=E" in equipoise(*settle, "--what-if", "north=0.1", cwd=tmp_path, code=9)
    assert "a new y" in equipoise("predict", "out/for/west/reward.nc", cwd=tmp_path)


@pytest.mark.slow
def test_another_exponent_uses_the_values_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "agreement.toml").write_text(rounds.agreement_text("gaussian", parties=2))
    for one in rounds.submissions(rounds.agreement("gaussian", parties=2), tmp_path / "ledgers", (8.0, 2.0)):
        one.save(tmp_path / f"{one.party}.json")
    settle = ("mediate", "agreement.toml", "north.json", "south.json", "--draws", 1000, "--precision", 0.2, "-o", "out")
    from_json(*settle, "--rho", 0.9, cwd=tmp_path)
    journal = tmp_path / "out" / "journal.jsonl"
    before = journal.read_text().splitlines()
    with mock.patch.object(appraisal, "infer_batch", side_effect=AssertionError("sampled")):
        found = from_json(*settle, "--rho", 0.9, "--rho-sweep", cwd=tmp_path)
    assert len(found["rho_sweep"]) >= 10
    assert journal.read_text().splitlines() == before

    found = from_json(*settle, "--rho", 0.2, cwd=tmp_path)
    after = journal.read_text().splitlines()
    assert after[1 : len(before)] == before[1:]
    asked = [json.loads(line)["key"] for line in after[len(before) :]]
    assert all(key["kappa"] != 1 for key in asked)  # rewards, and what the others told of them, but no value
    assert {len(key["coalition"]) for key in asked} == {1, 2}
    (tmp_path / "out").rename(tmp_path / "first")
    fresh = from_json(*settle, "--rho", 0.2, cwd=tmp_path)
    assert fresh["awards"] == found["awards"]


def test_a_round_without_some_and_otherwise_than_agreed(tmp_path: Path) -> None:
    """Both are refused, and settled only when they are meant; then they are named."""
    text = rounds.agreement_text("gaussian", reward="rho = 0.5")
    (tmp_path / "agreement.toml").write_text(text)
    sent = rounds.submissions(rounds.agreement("gaussian", reward="rho = 0.5"), tmp_path / "ledgers", (8.0, 2.0))
    for one in sent:
        one.save(tmp_path / f"{one.party}.json")
    settle: tuple[object, ...] = ("mediate", "agreement.toml", "north.json", "south.json", "-o", "out")
    settle = (*settle, "--draws", 1000, "--precision", 0.2)
    assert "west has not submitted" in equipoise(*settle, cwd=tmp_path, code=9)
    settle = (*settle, "--partial", "--rho", 0.05)
    assert "rho = 0.05 was used where the agreement says 0.5" in equipoise(*settle, cwd=tmp_path, code=9)
    assert not (tmp_path / "out").exists()
    done = run(*settle, "--deviate", cwd=tmp_path)
    assert "settled without west, who took no part" in done.stdout
    assert "The agreement was not kept: rho = 0.05 was used where the agreement says 0.5." in done.stderr
    assert from_json(*settle, "--deviate", cwd=tmp_path)["absent"] == ["west"]


@pytest.mark.slow
def test_a_round_under_other_priors(tmp_path: Path) -> None:
    """On a settlement that is there already, which is not made again."""
    (tmp_path / "agreement.toml").write_text(rounds.agreement_text("bernoulli", parties=2))
    for one in rounds.submissions(rounds.agreement("bernoulli", parties=2), tmp_path / "ledgers", (8.0, 2.0)):
        one.save(tmp_path / f"{one.party}.json")
    settle = ("mediate", "agreement.toml", "north.json", "south.json", "-o", "out", "--draws", 1000, "--precision", 0.2)
    equipoise(*settle, cwd=tmp_path)
    before = (tmp_path / "out" / "settlement.json").read_bytes()
    said = equipoise(*settle, "--other-priors", cwd=tmp_path)
    assert "Had the prior been another" in said
    assert "twice as wide" in said
    assert (tmp_path / "out" / "settlement.json").read_bytes() == before
    assert "Had the prior been another" in (tmp_path / "out" / "report.html").read_text()
    assert set(from_json(*settle, "--other-priors", cwd=tmp_path)["other_priors"]) == {
        "as agreed",
        "half as wide",
        "twice as wide",
    }
