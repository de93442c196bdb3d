"""What scripts and shells see: JSON, and completion."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rounds
from program import from_json


def test_agreement_new(tmp_path: Path) -> None:
    found = from_json("agreement", "new", "poisson", "--party", "a", "--party", "b", cwd=tmp_path)
    assert found == {"agreement": "agreement.toml", "kind": "poisson", "parties": ["a", "b"]}


def test_party_amend(tmp_path: Path) -> None:
    rounds.submissions(rounds.agreement("gaussian"), tmp_path, (1.0,))
    amend = ("party", "amend", "north.ledger", "--reason", "board decision")
    found = from_json(*amend, "--cap-zcdp", 2, cwd=tmp_path)
    assert found == {
        "ledger": "north.ledger",
        "total_unit": "one row",
        "total_zcdp": 0.5,
        "cap_zcdp": 2.0,
        "rows_per_individual": None,
        "obstacle": None,
        "bounds": {},
        "reason": "board decision",
    }
    from_json("agreement", "new", "gaussian", cwd=tmp_path)
    text = (tmp_path / "agreement.toml").read_text()
    line = next(line for line in text.splitlines() if line.startswith("target"))
    (tmp_path / "agreement.toml").write_text(text.replace(line, 'target = { name = "y", bounds = [-5, 5] }'))
    found = from_json(*amend, "--accept-bounds", "agreement.toml", cwd=tmp_path)
    assert found["bounds"] == {"y": {"before": [-3.0, 3.0], "now": [-5.0, 5.0]}}
    assert found["cap_zcdp"] == 2.0


@pytest.mark.process
def test_completion(tmp_path: Path) -> None:
    words = {"COMP_WORDS": "equipoise agreement new lo", "COMP_CWORD": "3", "_EQUIPOISE_COMPLETE": "complete_bash"}
    program = Path(sys.executable).with_name("equipoise")  # completion goes by the program's name
    said = subprocess.run([program], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, **words})
    assert said.stdout.split() == ["logistic"]
