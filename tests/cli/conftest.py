"""A party's folder: an agreement fresh from the program, and a table that fits it."""

from pathlib import Path

import pytest

from program import equipoise


@pytest.fixture
def home(tmp_path: Path) -> Path:
    equipoise("agreement", "new", "linear", cwd=tmp_path)
    rows = ["age,bmi,blood_pressure,progression"]
    rows += [f"{20 + k % 70},{18 + k % 30},{60 + k % 70},{(7 * k) % 400}" for k in range(200)]
    (tmp_path / "north.csv").write_text("\n".join(rows) + "\n")
    return tmp_path
