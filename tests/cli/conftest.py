"""A party's folder: an agreement fresh from the program, and a table that fits it."""

from pathlib import Path

import pytest

from program import equipoise


@pytest.fixture
def home(tmp_path: Path) -> Path:
    equipoise("agreement", "new", "linear", cwd=tmp_path)
    rows = ["age,bmi,blood_pressure,progression"]
    rows += [f"{22 + k % 65},{17 + k % 24},{62 + k % 60},{(7 * k) % 340}" for k in range(200)]
    (tmp_path / "north.csv").write_text("\n".join(rows) + "\n")
    return tmp_path
